package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// unknownOutcome is told about executions whose instance died.
const unknownOutcome = "The gateway lost track of this call while it was executing: it may or may not have happened. " +
	"Check at the service before you try again."

// sweep is one kind of overdue work: the rows, and what becomes of them. The
// where names a partial index's predicate word by word.
type sweep struct {
	what  string
	where string
	args  []any
	order string
	set   string
	vals  []any
	quiet bool // its rows did not end
}

func sweeps(r action.SweepRules) []sweep {
	now, lapsed := at(r.Now), at(r.LeaseBefore).or(epoch)
	dead, executor := "lease_until < ?", []any{lapsed}
	if r.Alone != "" {
		dead, executor = "(lease_until < ? OR executor <> ?)", []any{lapsed, r.Alone}
	}
	return []sweep{
		{
			what: "expired", order: "expires_at", where: "status = 'pending' AND expires_at <= ?", args: []any{now},
			set: "status = 'expired', completed_at = ?, sealed_params = NULL", vals: []any{now},
		},
		{
			// The index is by created_at, which is never after waiter_seen_at: an
			// index by the latter would be written each time that a caller is
			// seen, and PostgreSQL would write every other one with it.
			what: "withdrawn", order: "created_at",
			where: "status = 'pending' AND unattended = 0 AND answered = 0 AND created_at < ? AND waiter_seen_at < ?",
			args:  []any{at(r.SeenBefore).or(epoch), at(r.SeenBefore).or(epoch)},
			set:   "status = 'denied', denied_reason = ?, completed_at = ?, sealed_params = NULL",
			vals:  []any{action.DeniedWithdrawn, now},
		},
		{
			what: "unclaimed", order: "approved_at", where: "status = 'approved' AND approved_at < ?", args: []any{at(r.ApprovedBefore).or(epoch)},
			set: "status = 'expired', completed_at = ?, sealed_params = NULL", vals: []any{now},
		},
		{
			what: "lost", order: "lease_until", where: "status = 'executing' AND " + dead, args: executor,
			set: "status = 'failed', error_code = ?, error_message = ?, completed_at = ?, sealed_params = NULL, " +
				"pickup_until = CASE WHEN unattended = 1 THEN ? WHEN unattended = 0 THEN ? ELSE pickup_until END",
			vals: []any{action.FailedUnknown, unknownOutcome, now, at(r.Now.Add(r.PickupUnattended)), at(r.Now.Add(r.PickupInteractive))},
		},
		{
			what: "sealed", order: "pickup_until", where: "sealed_result IS NOT NULL AND pickup_until < ?", args: []any{now},
			set: "sealed_result = NULL", quiet: true,
		},
	}
}

// Sweep implements [action.Ledger]. Each kind of work is a transaction of its
// own, and none when there is nothing to do, so that calls get between them;
// what one did stays done when another fails.
func (db *DB) Sweep(ctx context.Context, r action.SweepRules) ([]action.Invocation, error) {
	if r.Limit <= 0 {
		r.Limit = 100
	}
	var ended []action.Invocation
	var errs []error
	for _, s := range sweeps(r) {
		list, err := db.sweep(ctx, s, r.Limit)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweeping %s invocations: %w", s.what, err))
		}
		if errors.Is(err, action.ErrUnavailable) {
			return ended, errors.Join(errs...) // the others would only wait as long again
		}
		for _, inv := range list {
			db.running.take(inv.Organization, inv.ID)
		}
		ended = append(ended, list...)
	}
	if err := db.sweepKeys(ctx, r); err != nil {
		errs = append(errs, fmt.Errorf("sweeping idempotency keys: %w", err))
	}
	if err := db.sweepRounds(ctx, r.Now, r.Limit); err != nil {
		errs = append(errs, err)
	}
	return ended, errors.Join(errs...)
}

// overdue finds the rows of a sweep.
func (s sweep) overdue(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return q.Table("invocations").Column("id").Where(s.where, s.args...).Order(s.order).Limit(int64(limit))
}

// update ends the rows of a sweep. Rows that another process holds are left to
// it. The array is made once, where a sub-select might run several times and
// then find more than the limit.
func (s sweep) update(db bun.IDB, limit int) *bun.UpdateQuery {
	due := s.overdue(db.NewSelect(), limit)
	q := db.NewUpdate().Table("invocations").Set(s.set, s.vals...)
	if shared(db) {
		q = q.Where("id = ANY (ARRAY(?))", due.For("NO KEY UPDATE SKIP LOCKED"))
	} else {
		q = q.Where("id IN (?)", due)
	}
	return q.Where(s.where, s.args...)
}

func (db *DB) sweep(ctx context.Context, s sweep, limit int) (ended []action.Invocation, err error) {
	// A reader looks first: mostly there is nothing, and then the writer is
	// left alone.
	some, err := exists(ctx, s.overdue(db.read.NewSelect(), 1))
	if err != nil || !some {
		return nil, err
	}
	err = db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
		q := s.update(tx, limit)
		if s.quiet {
			_, err := q.Exec(ctx)
			return err
		}
		var rows []invocationRow
		if err := q.Returning(shownList).Scan(ctx, &rows); err != nil {
			return err
		}
		ended, err = invocations(rows)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// expire ends one pending row whose time is over.
func expire(ctx context.Context, tx bun.IDB, r *invocationRow, now time.Time) error {
	_, err := tx.NewUpdate().Table("invocations").
		Set("status = 'expired', completed_at = ?, sealed_params = NULL", at(now)).
		Where("organization_id = ?", r.Organization).Where("id = ?", r.ID).Where("status = 'pending'").Exec(ctx)
	if err != nil {
		return fmt.Errorf("expiring invocation %s: %w", r.ID, err)
	}
	r.Status, r.CompletedAt, r.SealedParams = string(action.StatusExpired), at(now), nil
	return nil
}

// keyAge is how old a key is before a sweep looks whether it still means
// anything; longer than any hold and pick-up together.
const keyAge = 72 * time.Hour

// staleKeys finds keys that count as absent anyway.
func staleKeys(q *bun.SelectQuery, r action.SweepRules, limit int) *bun.SelectQuery {
	return q.TableExpr("idempotency_keys AS k").Join("JOIN invocations AS i ON i.id = k.invocation_id").
		Where("k.created_at < ?", at(r.Now.Add(-keyAge))).
		Where("i.completed_at IS NOT NULL").Where("i.pickup_until IS NULL OR i.pickup_until < ?", at(r.Now)).
		Order("k.created_at").Limit(int64(limit))
}

// removeKeys deletes them, in the same way as [stale.remove].
func removeKeys(db bun.IDB, r action.SweepRules) *bun.DeleteQuery {
	due, q := staleKeys(db.NewSelect(), r, r.Limit), db.NewDelete().Table("idempotency_keys")
	if shared(db) {
		return q.Where("ctid = ANY (ARRAY(?))", due.ColumnExpr("k.ctid").For("UPDATE OF k SKIP LOCKED"))
	}
	return q.Where("invocation_id IN (?)", due.Column("k.invocation_id")).Where("created_at < ?", at(r.Now.Add(-keyAge)))
}

// sweepKeys forgets them.
func (db *DB) sweepKeys(ctx context.Context, r action.SweepRules) error {
	some, err := exists(ctx, staleKeys(db.read.NewSelect(), r, 1).Column("k.invocation_id"))
	if err != nil || !some {
		return err
	}
	return db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
		_, err := removeKeys(tx, r).Exec(ctx)
		return err
	}})
}
