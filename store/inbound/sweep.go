package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

const (
	// maxLostWorkers is the number of lost workers after which a run fails.
	maxLostWorkers = 3
	// renewBefore is how long before its end the lease of a run is renewed that
	// waits for a person, so that the worker has at least as long after the
	// decision.
	renewBefore = time.Minute
)

// runSweep selects runs whose claim must end. The where clause repeats the
// predicate of a partial index verbatim.
type runSweep struct {
	Name  string
	where string
	args  []any
	order string
	end   func(*RunRow) RunEnd
}

// RunSweeps returns the sweeps in order of priority.
func RunSweeps(now database.Timestamp) []runSweep {
	return []runSweep{
		{
			Name: "overdue", where: "r.claim_id IS NOT NULL AND r.deadline <= ?", args: []any{now}, order: "r.deadline",
			end: failWith(event.RunTimedOut, "The run was not finished within its time.", "The run's time was over."),
		},
		{
			// This reads all claimed runs, which are few, and the session of each. It is
			// a subquery because a join might scan all sessions.
			Name: "revoked", order: "r.deadline",
			where: "r.claim_id IS NOT NULL AND (SELECT s.revoked_at FROM sessions AS s WHERE s.organization_id = r.organization_id AND s.id = r.session_id) IS NOT NULL",
			end: func(r *RunRow) RunEnd {
				e := failWith(event.RunSessionLost, "The session that worked on this run was revoked.", action.NoteRevoked)(r)
				e.byPerson = true
				return e
			},
		},
		{
			Name: "lost", order: "r.lease_until", args: []any{now},
			where: "r.claim_id IS NOT NULL AND r.lease_until IS NOT NULL AND r.lease_until <= ? AND r.status <> 'needs_human'",
			end:   EndLostRun,
		},
		{Name: "stranded", order: "r.deadline", where: strandedSQL, end: requeueStranded},
	}
}

// strandedSQL selects runs whose endpoint was deleted, disabled or changed
// since they were claimed for it. Deliveries in progress are left until they
// are settled.
const strandedSQL = `r.claim_id IS NOT NULL AND r.status = 'claimed' AND r.claimed_by = 'endpoint'
	AND EXISTS (SELECT 1 FROM outbox AS o WHERE o.run_id = r.id AND o.status IN ('pending', 'sending') AND o.status = 'pending'
		AND NOT EXISTS (SELECT 1 FROM run_endpoints AS p WHERE p.organization_id = o.organization_id AND p.enabled AND (o.first_at IS NULL OR o.first_at >= p.updated_at)))
	AND NOT EXISTS (SELECT 1 FROM all_calls AS i WHERE i.organization_id = r.organization_id AND i.session_id = r.session_id AND i.risk <> 'read')`

// requeueStranded queues a run again whose session token was never delivered.
func requeueStranded(*RunRow) RunEnd {
	return RunEnd{Status: event.RunQueued, Delivery: event.DeliveryVoid, resetAttempts: true, onlyUnstarted: true, Note: "The run's endpoint changed."}
}

// failWith returns an end that fails the run.
func failWith(code, message, note string) func(*RunRow) RunEnd {
	return func(*RunRow) RunEnd {
		return RunEnd{Status: event.RunFailed, Result: event.RunResult{Code: code, Message: message}, Delivery: event.DeliveryVoid, Note: note}
	}
}

// EndLostRun queues an unstarted run again and fails a started one, which may
// have had effects and must not be repeated automatically.
func EndLostRun(r *RunRow) RunEnd {
	e := failLostRun()
	e.onlyUnstarted = r.is(event.RunClaimed)
	switch {
	case r.is(event.RunClaimed) && r.Attempt < maxLostWorkers:
		e.Status, e.Result = event.RunQueued, event.RunResult{}
	case r.is(event.RunClaimed):
		e.Result.Message = fmt.Sprintf("%d workers claimed this run one after another and all stopped responding. Check the workers, then repeat the run.", r.Attempt)
	}
	return e
}

// failLostRun fails a run whose worker may have done something.
func failLostRun() RunEnd {
	e := failWith(event.RunWorkerLost,
		"Its worker stopped responding. Check what was done before you repeat the run.", "The run's worker was lost.")(nil)
	e.leaseExpired = true
	return e
}

// Select selects up to limit runs of the sweep.
func (s runSweep) Select(db bun.IDB, dest any, limit int) *bun.SelectQuery {
	return SelectRuns(db, dest).Where(s.where, s.args...).OrderExpr(s.order).Limit(int64(limit))
}

// SweepRuns ends or requeues up to limit runs whose worker was lost, whose
// deadline passed or whose session was revoked. It also renews the leases of
// runs that wait for a person, and releases deliveries of lost workers. It
// returns the changed runs and the withdrawn invocations, including those from
// before an error.
func (st *Store) SweepRuns(ctx context.Context, now time.Time, limit int) (changed []event.Run, withdrawn []action.Invocation, err error) {
	if limit <= 0 {
		limit = 100
	}
	errs := []error{st.renewWaitingRuns(ctx, now, limit), st.releaseRunDeliveries(ctx, database.NewTimestamp(now), limit), st.expireAttention(ctx, now, limit)}
	for _, s := range RunSweeps(database.NewTimestamp(now)) {
		var rows []RunRow
		if err := s.Select(st.db.Read, &rows, limit-len(changed)).Scan(ctx); err != nil {
			errs = append(errs, fmt.Errorf("reading %s runs: %w", s.Name, err))
		}
		for i := range rows {
			e := s.end(&rows[i])
			calls, err := st.SweepRun(ctx, &rows[i], e, now)
			if e.leaseExpired && errors.Is(err, errRunStarted) {
				calls, err = st.SweepRun(ctx, &rows[i], failLostRun(), now)
			}
			switch {
			case errors.Is(err, ErrRunChanged): // no longer overdue, or claimed again
			case err != nil:
				errs = append(errs, fmt.Errorf("sweeping %s runs: %w", s.Name, err))
			default:
				changed, withdrawn = append(changed, rows[i].run()), append(withdrawn, calls...)
			}
			if errors.Is(err, action.ErrUnavailable) {
				return changed, withdrawn, errors.Join(errs...) // the others would time out too
			}
		}
		if len(changed) >= limit {
			break
		}
	}
	return changed, withdrawn, errors.Join(errs...)
}

// SweepRun ends one run in its own transaction and updates r.
func (st *Store) SweepRun(ctx context.Context, r *RunRow, e RunEnd, now time.Time) (withdrawn []action.Invocation, err error) {
	original := *r
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) (err error) {
		*r = original
		withdrawn, err = st.EndRun(ctx, tx, r, e, now)
		return err
	})
	return withdrawn, err
}

// RunsNeedingHuman selects the runs that wait for a person and whose lease ends
// soon.
func RunsNeedingHuman(db bun.IDB, until database.Timestamp, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*RunRow)(nil)).Column("id", "claim_id", "lease_until", "lease_seconds", "deadline").
		Where("claim_id IS NOT NULL AND lease_until IS NOT NULL AND lease_until <= ? AND status = 'needs_human'", until).
		Order("lease_until").Limit(int64(limit))
}

// renewWaitingRuns renews the leases of runs that wait for a person, because
// their workers wait too.
func (st *Store) renewWaitingRuns(ctx context.Context, now time.Time, limit int) error {
	var rows []RunRow
	if err := RunsNeedingHuman(st.db.Read, database.NewTimestamp(now.Add(renewBefore)), limit).Scan(ctx, &rows); err != nil {
		return fmt.Errorf("reading waiting runs: %w", err)
	}
	var errs []error
	for i := range rows {
		r := &rows[i]
		if until := r.leaseEnd(now); until.Time.After(r.LeaseUntil.Time) {
			errs = append(errs, st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
				_, err := tx.NewUpdate().Table("runs").Set("lease_until = ?", until).Where("id = ?", r.ID).
					Where("claim_id = ?", r.Claim).Where("lease_until = ?", r.LeaseUntil).Exec(ctx)
				return err
			}}))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("renewing waiting runs: %w", err)
	}
	return nil
}

// StaleAttention selects failed runs that have needed attention for long.
func StaleAttention(q *bun.SelectQuery, now time.Time, limit int) *bun.SelectQuery {
	return q.TableExpr("runs AS r").Column("r.id").Where("r.attention_id IS NOT NULL").
		Where("r.completed_at < ?", database.NewTimestamp(now.Add(-event.AttentionPeriod))).Order("r.completed_at").Limit(int64(limit))
}

// expireAttention stops asking people to look at runs that failed long ago.
func (st *Store) expireAttention(ctx context.Context, now time.Time, limit int) error {
	found, err := database.Exists(ctx, StaleAttention(st.db.Read.NewSelect(), now, 1))
	if err == nil && found {
		err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
			_, err := tx.NewUpdate().Table("runs").Set("attention_id = NULL").Where("id IN (?)", StaleAttention(tx.NewSelect(), now, limit)).
				Where("attention_id IS NOT NULL").Where("completed_at < ?", database.NewTimestamp(now.Add(-event.AttentionPeriod))).Exec(ctx)
			return err
		}})
	}
	if err != nil {
		return fmt.Errorf("sweeping failed runs: %w", err)
	}
	return nil
}

// ExpiredRunDeliveries selects deliveries whose lease expired.
func ExpiredRunDeliveries(q *bun.SelectQuery, now database.Timestamp, limit int) *bun.SelectQuery {
	return q.TableExpr("outbox AS o").Column("o.id").Where("o.status = 'sending' AND o.lease_until <= ?", now).
		Order("o.lease_until").Limit(int64(limit))
}

// releaseRunDeliveries makes the deliveries of lost workers due again.
func (st *Store) releaseRunDeliveries(ctx context.Context, now database.Timestamp, limit int) error {
	found, err := database.Exists(ctx, ExpiredRunDeliveries(st.db.Read.NewSelect(), now, 1))
	if err == nil && found {
		err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
			_, err := ReleaseRunDeliveries(tx, now, limit).Exec(ctx)
			return err
		}})
	}
	if err != nil {
		return fmt.Errorf("sweeping lost deliveries: %w", err)
	}
	return nil
}

// ReleaseRunDeliveries returns deliveries with an expired lease to pending.
func ReleaseRunDeliveries(tx bun.IDB, now database.Timestamp, limit int) *bun.UpdateQuery {
	expired, q := ExpiredRunDeliveries(tx.NewSelect(), now, limit), tx.NewUpdate().Table("outbox")
	if database.Shared(tx) {
		q = q.Where("id = ANY (ARRAY(?))", expired.For("NO KEY UPDATE SKIP LOCKED"))
	} else {
		q = q.Where("id IN (?)", expired)
	}
	return q.Set("status = 'pending', holder = NULL, lease_until = NULL").Where("status = 'sending' AND lease_until <= ?", now)
}

// minBodyAge is the minimum retention of body hashes. It is longer than any
// deduplication window.
const minBodyAge = time.Hour

// PurgeInbound clears event payloads and deletes ended receipts from before a
// time, up to limit rows (zero: 100), and returns their number. Each rule has
// its own transaction, and none if nothing is due.
func (st *Store) PurgeInbound(ctx context.Context, before time.Time, limit int) (n int, err error) {
	limit = database.LimitOrDefault(limit)
	for _, r := range RetentionRules(database.NewTimestamp(before)) {
		if n >= limit {
			return n, nil
		}
		purged, err := st.applyRule(ctx, r, limit-n)
		if n += purged; err != nil {
			return n, fmt.Errorf("deleting old payloads of %s: %w", r.table, err)
		}
	}
	if n < limit {
		purged, err := st.db.DeleteExpired(ctx, ExpiredBodies(before, st.db.Now()), limit-n)
		return n + purged, err
	}
	return n, nil
}

// ExpiredBodies keeps body hashes as long as deliveries, because a postponed
// delivery may be settled hours after it was received.
func ExpiredBodies(before, now time.Time) database.Expired {
	if latest := now.Add(-minBodyAge); before.After(latest) {
		before = latest
	}
	return database.Expired{Table: "inbox_bodies", Key: "endpoint, hash", Time: "received_at", Before: database.NewTimestamp(before)}
}

// retentionRule selects the expired rows of a table. The where clause repeats
// the predicate of a partial index verbatim.
type retentionRule struct {
	table, where, order string
	before              database.Timestamp
	keepRow             bool // only clear the payload
}

// RetentionRules returns the rules for rows from before a time.
func RetentionRules(before database.Timestamp) []retentionRule {
	return []retentionRule{
		{table: "events", where: "(shown IS NOT NULL OR sealed IS NOT NULL) AND created_at < ?", order: "created_at", before: before, keepRow: true},
		{table: "inbox", where: "status IN ('completed', 'failed') AND received_at < ?", order: "received_at", before: before},
	}
}

// applyRule applies a rule to the oldest rows. It checks with a read first.
func (st *Store) applyRule(ctx context.Context, r retentionRule, limit int) (n int, err error) {
	found, err := database.Exists(ctx, r.SelectExpired(st.db.Read, 1))
	if err != nil || !found {
		return 0, err
	}
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n, err = r.apply(ctx, tx, limit)
		return err
	}})
	return n, err
}

// SelectExpired selects the oldest rows of the rule.
func (f retentionRule) SelectExpired(db bun.IDB, limit int) *bun.SelectQuery {
	return db.NewSelect().Table(f.table).Column("id").Where(f.where, f.before).Order(f.order).Limit(int64(limit))
}

func (f retentionRule) apply(ctx context.Context, db bun.IDB, limit int) (int, error) {
	due, which := f.SelectExpired(db, limit), "id IN (?)"
	if database.Shared(db) {
		due, which = due.For("UPDATE SKIP LOCKED"), "id = ANY (ARRAY(?))"
	}
	if f.keepRow {
		return database.RowsAffected(db.NewUpdate().Table(f.table).Set("shown = NULL, sealed = NULL").Where(which, due).Exec(ctx))
	}
	return database.RowsAffected(db.NewDelete().Table(f.table).Where(which, due).Exec(ctx))
}
