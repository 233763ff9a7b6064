package calls

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// EndedSession is a session that ended, and its withdrawn calls.
type EndedSession struct {
	Session   action.Session
	Withdrawn []action.Invocation
}

// StopIdle stops up to limit (zero: 100) sessions that were inactive for their
// idle timeout, or for defaultTimeout if they have none; zero disables the
// timeout. Sessions with an open call, paused sessions and those of a claimed
// run, which has its own lease, are not idle.
func (st *Store) StopIdle(ctx context.Context, defaultTimeout time.Duration, limit int) (list []EndedSession, err error) {
	limit = database.LimitOrDefault(limit)
	now := st.db.Now()
	var timeouts []int64
	err = st.db.Read.NewSelect().TableExpr("sessions AS s").Distinct().ColumnExpr("coalesce(s.idle_seconds, ?)", int64(defaultTimeout/time.Second)).
		Where("s.revoked_at IS NULL").Where("s.expires_at IS NULL OR s.expires_at > ?", database.NewTimestamp(now)).Scan(ctx, &timeouts)
	if err != nil {
		return nil, fmt.Errorf("reading idle timeouts of sessions: %w", err)
	}
	for _, seconds := range timeouts {
		if seconds <= 0 || len(list) >= limit {
			continue
		}
		since := now.Add(-time.Duration(seconds) * time.Second)
		filter := idleFilter{defaultSeconds: int64(defaultTimeout / time.Second), seconds: seconds, idleSince: database.NewTimestamp(since), lastSeen: database.NewTimestamp(since.Add(-sessions.SeenInterval))}
		stopped, err := st.stopIdle(ctx, filter, limit-len(list))
		if list = append(list, stopped...); err != nil {
			return list, err
		}
	}
	return list, nil
}

// idleFilter selects the inactive sessions with one timeout. Activity is
// recorded with a precision of [sessions.SeenEvery], so lastSeen is earlier
// than idleSince by that much.
type idleFilter struct {
	defaultSeconds, seconds int64
	idleSince, lastSeen     database.Timestamp
}

func (i idleFilter) where(q bun.QueryBuilder) bun.QueryBuilder {
	return q.Where("s.revoked_at IS NULL").Where("s.status <> 'paused'").
		Where("coalesce(s.idle_seconds, ?) = ?", i.defaultSeconds, i.seconds).
		Where("s.last_seen_at <= ? OR s.last_seen_at IS NULL AND s.created_at <= ?", i.lastSeen, i.idleSince).
		Where("s.resumed_at IS NULL OR s.resumed_at <= ?", i.idleSince).
		Where(`NOT EXISTS (SELECT 1 FROM open_calls AS i WHERE i.organization_id = s.organization_id AND i.session_id = s.id)`).
		Where("NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.session_id = s.id AND r.claim_id IS NOT NULL)")
}

func (st *Store) stopIdle(ctx context.Context, i idleFilter, limit int) (list []EndedSession, err error) {
	var rows []sessions.SessionRow
	q := st.db.Read.NewSelect().TableExpr("sessions AS s").Column("s.id", "s.organization_id").Where("s.expires_at IS NULL OR s.expires_at > ?", database.NewTimestamp(st.db.Now()))
	if err := q.ApplyQueryBuilder(i.where).Limit(int64(limit)).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading idle sessions: %w", err)
	}
	for _, r := range rows {
		ended, stopped, err := st.stopIfIdle(ctx, i, r.Organization, r.ID)
		if err != nil {
			return list, err
		}
		if stopped {
			list = append(list, ended)
		}
	}
	return list, nil
}

// stopIfIdle checks again after it has locked the session, as a call that
// begins does.
func (st *Store) stopIfIdle(ctx context.Context, i idleFilter, organization, id string) (ended EndedSession, stopped bool, err error) {
	note := fmt.Sprintf("%s%s.", action.NoteIdle, time.Duration(i.seconds)*time.Second)
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		now := database.NewTimestamp(st.db.Now())
		if err := st.sessions.LockSession(ctx, tx, organization, id); err != nil {
			return err
		}
		q := tx.NewUpdate().TableExpr("sessions AS s").ApplyQueryBuilder(i.where).Where("s.organization_id = ?", organization).Where("s.id = ?", id)
		n, err := database.RowsAffected(setEnded(action.SessionStopped, note)(q, now).Exec(ctx))
		if stopped = n > 0; err != nil || !stopped {
			return err
		}
		if ended.Session, err = sessions.ReadSession(ctx, tx, organization, id); err != nil {
			return err
		}
		ended.Withdrawn, err = WithdrawCalls(ctx, tx, organization, "session_id", id, now.Time, "The session was idle.")
		return err
	})
	if err != nil {
		return ended, false, fmt.Errorf("stopping idle session %s: %w", id, err)
	}
	return ended, stopped, nil
}

const (
	// purgeRetryAfter is when a session that is still referenced is checked
	// again.
	purgeRetryAfter = 7 * 24 * time.Hour
	// PurgeBatch limits the sessions that one transaction deletes, because
	// calls wait for it.
	PurgeBatch = 20
)

// referencedSQL selects sessions that calls, grants or runs refer to. Without
// the session's row, nobody could attribute those.
const referencedSQL = `EXISTS (SELECT 1 FROM invocations AS i WHERE i.organization_id = s.organization_id AND i.session_id = s.id)
  OR EXISTS (SELECT 1 FROM open_calls AS i WHERE i.organization_id = s.organization_id AND i.session_id = s.id)
  OR EXISTS (SELECT 1 FROM grants AS g WHERE g.organization_id = s.organization_id AND g.session_id = s.id)
  OR EXISTS (SELECT 1 FROM grant_requests AS g WHERE g.organization_id = s.organization_id AND g.session_id = s.id)
  OR EXISTS (SELECT 1 FROM runs AS r WHERE r.organization_id = s.organization_id AND r.session_id = s.id)`

// PurgeSessions deletes up to limit (zero: 100) sessions that ended before a
// time, and returns how many it processed; if that is limit, there may be more.
// A session that calls, grants or runs refer to keeps its row as evidence,
// without title, prompt, model, notes and key.
func (st *Store) PurgeSessions(ctx context.Context, before time.Time, limit int) (n int, err error) {
	now := st.db.Now()
	ids, err := st.selectPurgeable(ctx, before, now, database.LimitOrDefault(limit))
	for batch := range slices.Chunk(ids, PurgeBatch) {
		if err == nil {
			err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error { return purgeSessions(ctx, tx, batch, now) })
		}
	}
	if err != nil {
		return 0, fmt.Errorf("deleting old sessions: %w", err)
	}
	return len(ids), nil
}

// selectPurgeable returns sessions that ended before a time, those never purged
// first.
func (st *Store) selectPurgeable(ctx context.Context, before, now time.Time, limit int) (ids []string, err error) {
	if err := Unpurged(st.db.Read, before, limit).Scan(ctx, &ids); err != nil || len(ids) == limit {
		return ids, err
	}
	var retried []string
	err = DueForRepurge(st.db.Read, now, limit-len(ids)).Scan(ctx, &retried)
	return append(ids, retried...), err
}

// Unpurged selects sessions that ended before a time and were never purged.
func Unpurged(db bun.IDB, before time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Table("sessions").Column("id").Where("purged_at IS NULL").
		Where("coalesce(revoked_at, expires_at) <= ?", database.NewTimestamp(before)).OrderExpr("coalesce(revoked_at, expires_at)").Limit(int64(limit))
}

// DueForRepurge selects sessions that were still referenced when they were
// purged, to try again.
func DueForRepurge(db bun.IDB, now time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Table("sessions").Column("id").Where("purged_at IS NOT NULL").
		Where("purged_at <= ?", database.NewTimestamp(now.Add(-purgeRetryAfter))).Order("purged_at").Limit(int64(limit))
}

func purgeSessions(ctx context.Context, tx bun.IDB, ids []string, now time.Time) error {
	if _, err := DeletePurged(tx, ids).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewUpdate().Table("sessions").Set("title = NULL, prompt = NULL, model = NULL, ended_note = NULL, left_out = NULL").
		Set("idempotency_key = NULL, idempotency_hash = NULL").Set("purged_at = ?", database.NewTimestamp(now)).Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}

// DeletePurged deletes the sessions that nothing refers to.
func DeletePurged(tx bun.IDB, ids []string) *bun.RawQuery {
	return tx.NewRaw("DELETE FROM sessions AS s WHERE s.id IN (?) AND NOT ("+referencedSQL+")", bun.List(ids))
}
