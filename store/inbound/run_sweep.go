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
	// maxLostWorkers is how many workers may take a run and be lost before it fails.
	maxLostWorkers = 3
	// renewBefore is how long before its end the lease of a run is renewed that
	// waits for a person: once he decided, its worker has at least so long.
	renewBefore = time.Minute
)

// runSweep is one kind of run whose claim is overdue. The where names a partial
// index's predicate word by word.
type runSweep struct {
	Name  string
	where string
	args  []any
	order string
	end   func(*RunRow) RunEnd
}

func RunSweeps(now database.Timestamp) []runSweep {
	return []runSweep{
		{
			Name: "overdue", where: "r.claim_id IS NOT NULL AND r.deadline <= ?", args: []any{now}, order: "r.deadline",
			end: failWith(event.RunTimedOut, "The run was not finished within its time.", "The run's time was over."),
		},
		{
			// All runs that somebody has are looked at, which are few, and of each its
			// session: as a value, since a join might begin with all sessions.
			Name: "revoked", order: "r.deadline",
			where: "r.claim_id IS NOT NULL AND (SELECT s.revoked_at FROM sessions AS s WHERE s.organization_id = r.organization_id AND s.id = r.session_id) IS NOT NULL",
			end:   failWith(event.RunSessionLost, "The session that worked on this run was revoked.", action.NoteRevoked),
		},
		{
			Name: "lost", order: "r.lease_until", args: []any{now},
			where: "r.claim_id IS NOT NULL AND r.lease_until IS NOT NULL AND r.lease_until <= ? AND r.status <> 'needs_human'",
			end:   EndLostRun,
		},
		{Name: "stranded", order: "r.deadline", where: strandedSQL, end: requeueStranded},
	}
}

// strandedSQL finds runs that an endpoint was to have which is gone, disabled or
// another by now. What is being sent is left until it is settled.
const strandedSQL = `r.claim_id IS NOT NULL AND r.status = 'claimed' AND r.claimed_by = 'endpoint'
	AND EXISTS (SELECT 1 FROM outbox AS o WHERE o.run_id = r.id AND o.status IN ('pending', 'sending') AND o.status = 'pending'
		AND NOT EXISTS (SELECT 1 FROM run_endpoints AS p WHERE p.organization_id = o.organization_id AND p.enabled AND (o.first_at IS NULL OR o.first_at >= p.updated_at)))
	AND NOT EXISTS (SELECT 1 FROM invocations AS i WHERE i.organization_id = r.organization_id AND i.session_id = r.session_id AND i.risk <> 'read')`

// stranded has others take a run, or the endpoint that is there now, in a session
// that nobody was told of.
func requeueStranded(*RunRow) RunEnd {
	return RunEnd{Status: event.RunQueued, Parcel: event.ParcelVoid, resetAttempts: true, onlyUnstarted: true, Note: "The run's endpoint changed."}
}

// failing ends a run for good.
func failWith(code, message, note string) func(*RunRow) RunEnd {
	return func(*RunRow) RunEnd {
		return RunEnd{Status: event.RunFailed, Result: event.RunResult{Code: code, Message: message}, Parcel: event.ParcelVoid, Note: note}
	}
}

// EndLostRun queues a run anew that nobody began, and fails any other: what was
// begun is not done a second time by itself.
func EndLostRun(r *RunRow) RunEnd {
	e := failLostRun()
	e.onlyUnstarted = r.is(event.RunClaimed)
	switch {
	case r.is(event.RunClaimed) && r.Attempt < maxLostWorkers:
		e.Status, e.Result = event.RunQueued, event.RunResult{}
	case r.is(event.RunClaimed):
		e.Result.Message = fmt.Sprintf("%d workers took this run, one after the other, and none was heard of again. See to the workers, and have it done again.", r.Attempt)
	}
	return e
}

// failLostRun ends a run whose worker may have done something.
func failLostRun() RunEnd {
	e := failWith(event.RunWorkerLost,
		"Its worker was not heard of any more. See what was done already before you have the run done again.", "The run's worker was lost.")(nil)
	e.leaseExpired = true
	return e
}

// Select finds up to so many runs of a sweep.
func (s runSweep) Select(db bun.IDB, dest any, limit int) *bun.SelectQuery {
	return SelectRuns(db, dest).Where(s.where, s.args...).OrderExpr(s.order).Limit(int64(limit))
}

// SweepRuns ends, or queues anew, up to limit runs whose worker is lost, whose
// time is over, or whose session was revoked; it renews the leases of those that
// wait for a person, and of deliveries whose worker was lost the next attempt is
// due. It returns the runs that changed, and the invocations that were
// withdrawn, also those from before an error.
func (st *Store) SweepRuns(ctx context.Context, now time.Time, limit int) (changed []event.Run, withdrawn []action.Invocation, err error) {
	if limit <= 0 {
		limit = 100
	}
	errs := []error{st.renewWaitingRuns(ctx, now, limit), st.releaseParcels(ctx, database.NewTimestamp(now), limit)}
	for _, s := range RunSweeps(database.NewTimestamp(now)) {
		var rows []RunRow
		if err := s.Select(st.db.Read, &rows, limit-len(changed)).Scan(ctx); err != nil {
			errs = append(errs, fmt.Errorf("looking for %s runs: %w", s.Name, err))
		}
		for i := range rows {
			e := s.end(&rows[i])
			calls, err := st.SweepRun(ctx, &rows[i], e, now)
			if e.leaseExpired && errors.Is(err, errRunStarted) {
				calls, err = st.SweepRun(ctx, &rows[i], failLostRun(), now)
			}
			switch {
			case errors.Is(err, ErrRunChanged): // it is not overdue any more, or another's work
			case err != nil:
				errs = append(errs, fmt.Errorf("sweeping %s runs: %w", s.Name, err))
			default:
				changed, withdrawn = append(changed, rows[i].run()), append(withdrawn, calls...)
			}
			if errors.Is(err, action.ErrUnavailable) {
				return changed, withdrawn, errors.Join(errs...) // the others would only wait as long again
			}
		}
		if len(changed) >= limit {
			break
		}
	}
	return changed, withdrawn, errors.Join(errs...)
}

// SweepRun ends one run in a transaction of its own. r is then as it was
// written.
func (st *Store) SweepRun(ctx context.Context, r *RunRow, e RunEnd, now time.Time) (withdrawn []action.Invocation, err error) {
	original := *r
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) (err error) {
		*r = original
		withdrawn, err = st.EndRun(ctx, tx, r, e, now)
		return err
	})
	return withdrawn, err
}

// RunsNeedingHuman are runs whose lease must not lapse.
func RunsNeedingHuman(db bun.IDB, until database.Timestamp, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*RunRow)(nil)).Column("id", "claim_id", "lease_until", "lease_seconds", "deadline").
		Where("claim_id IS NOT NULL AND lease_until IS NOT NULL AND lease_until <= ? AND status = 'needs_human'", until).
		Order("lease_until").Limit(int64(limit))
}

// renewWaitingRuns renews the leases of runs that wait for a person: their workers
// wait, too.
func (st *Store) renewWaitingRuns(ctx context.Context, now time.Time, limit int) error {
	var rows []RunRow
	if err := RunsNeedingHuman(st.db.Read, database.NewTimestamp(now.Add(renewBefore)), limit).Scan(ctx, &rows); err != nil {
		return fmt.Errorf("looking for runs that wait: %w", err)
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
		return fmt.Errorf("renewing runs that wait: %w", err)
	}
	return nil
}

// ExpiredParcels are deliveries whose worker was lost.
func ExpiredParcels(q *bun.SelectQuery, now database.Timestamp, limit int) *bun.SelectQuery {
	return q.TableExpr("outbox AS o").Column("o.id").Where("o.status = 'sending' AND o.lease_until <= ?", now).
		Order("o.lease_until").Limit(int64(limit))
}

// releaseParcels has the next attempt of deliveries due whose worker was lost.
func (st *Store) releaseParcels(ctx context.Context, now database.Timestamp, limit int) error {
	found, err := database.Exists(ctx, ExpiredParcels(st.db.Read.NewSelect(), now, 1))
	if err == nil && found {
		err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
			_, err := ReleaseParcels(tx, now, limit).Exec(ctx)
			return err
		}})
	}
	if err != nil {
		return fmt.Errorf("sweeping lost deliveries: %w", err)
	}
	return nil
}

func ReleaseParcels(tx bun.IDB, now database.Timestamp, limit int) *bun.UpdateQuery {
	expired, q := ExpiredParcels(tx.NewSelect(), now, limit), tx.NewUpdate().Table("outbox")
	if database.Shared(tx) {
		q = q.Where("id = ANY (ARRAY(?))", expired.For("NO KEY UPDATE SKIP LOCKED"))
	} else {
		q = q.Where("id IN (?)", expired)
	}
	return q.Set("status = 'pending', holder = NULL, lease_until = NULL").Where("status = 'sending' AND lease_until <= ?", now)
}
