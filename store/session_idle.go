package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Ended is a session that ended, with what it held.
type Ended struct {
	Session  action.Session
	Withdrew []action.Invocation
}

// StopIdle stops up to limit (zero: 100) sessions that were silent for as long
// as their idle timeout, or where they have none of their own for usual; zero:
// those are never idle. A session with a call that is open is not idle, and
// neither is one that is paused or works on a run, whose worker has a time of
// its own.
func (db *DB) StopIdle(ctx context.Context, usual time.Duration, limit int) (list []Ended, err error) {
	limit = orHundred(limit)
	now := db.now()
	var timeouts []int64
	err = db.read.NewSelect().TableExpr("sessions AS s").Distinct().ColumnExpr("coalesce(s.idle_seconds, ?)", int64(usual/time.Second)).
		Where("s.revoked_at IS NULL").Where("s.expires_at IS NULL OR s.expires_at > ?", at(now)).Scan(ctx, &timeouts)
	if err != nil {
		return nil, fmt.Errorf("looking how long sessions may be idle: %w", err)
	}
	for _, seconds := range timeouts {
		if seconds <= 0 || len(list) >= limit {
			continue
		}
		since := now.Add(-time.Duration(seconds) * time.Second)
		silent := idle{usual: int64(usual / time.Second), seconds: seconds, since: at(since), seen: at(since.Add(-SeenEvery))}
		some, err := db.stopIdle(ctx, silent, limit-len(list))
		if list = append(list, some...); err != nil {
			return list, err
		}
	}
	return list, nil
}

// idle are the sessions with one timeout that were silent since. A use is noted
// to within [SeenEvery], so one that was used is silent when it was seen last
// that much earlier.
type idle struct {
	usual, seconds int64
	since, seen    stamp
}

func (i idle) where(q bun.QueryBuilder) bun.QueryBuilder {
	return q.Where("s.revoked_at IS NULL").Where("s.status <> 'paused'").
		Where("coalesce(s.idle_seconds, ?) = ?", i.usual, i.seconds).
		Where("s.last_seen_at <= ? OR s.last_seen_at IS NULL AND s.created_at <= ?", i.seen, i.since).
		Where("s.resumed_at IS NULL OR s.resumed_at <= ?", i.since).
		Where(`NOT EXISTS (SELECT 1 FROM invocations AS i WHERE i.organization_id = s.organization_id AND i.session_id = s.id
			AND i.status IN ('pending', 'approved', 'executing'))`).
		Where("NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.session_id = s.id AND r.claim_id IS NOT NULL)")
}

func (db *DB) stopIdle(ctx context.Context, i idle, limit int) (list []Ended, err error) {
	var rows []sessionRow
	q := db.read.NewSelect().TableExpr("sessions AS s").Column("s.id", "s.organization_id").Where("s.expires_at IS NULL OR s.expires_at > ?", at(db.now()))
	if err := q.ApplyQueryBuilder(i.where).Limit(int64(limit)).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("looking for idle sessions: %w", err)
	}
	for _, r := range rows {
		one, stopped, err := db.stopIfIdle(ctx, i, r.Organization, r.ID)
		if err != nil {
			return list, err
		}
		if stopped {
			list = append(list, one)
		}
	}
	return list, nil
}

// stopIfIdle looks again behind the lock that who begins a held call takes, too.
func (db *DB) stopIfIdle(ctx context.Context, i idle, organization, id string) (one Ended, stopped bool, err error) {
	note := fmt.Sprintf("%s%s.", action.NoteIdle, time.Duration(i.seconds)*time.Second)
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		now := at(db.now())
		if err := db.holdSession(ctx, tx, organization, id); err != nil {
			return err
		}
		q := tx.NewUpdate().TableExpr("sessions AS s").ApplyQueryBuilder(i.where).Where("s.organization_id = ?", organization).Where("s.id = ?", id)
		n, err := affected(ending(action.SessionStopped, note)(q, now).Exec(ctx))
		if stopped = n > 0; err != nil || !stopped {
			return err
		}
		if one.Session, err = sessionIn(ctx, tx, organization, id); err != nil {
			return err
		}
		one.Withdrew, err = withdrawCalls(ctx, tx, organization, "session_id", id, now.t, "The session was idle.")
		return err
	})
	if err != nil {
		return one, false, fmt.Errorf("stopping session %s, which is idle: %w", id, err)
	}
	return one, stopped, nil
}
