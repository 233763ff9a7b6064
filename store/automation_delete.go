package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// runDeleted is why a run did not begin whose automation went.
const runDeleted = "automation_deleted"

// DeleteAutomation removes one with its triggers, schedules, overrides and
// bindings; its runs that nobody has yet are skipped. ErrNotFound, or
// ErrConflict while a run is worked on. What its events and runs were stays.
func (db *DB) DeleteAutomation(ctx context.Context, organization, id, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := lockAutomation(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if err := db.deleteTriggers(ctx, tx, r, by); err != nil {
			return err
		}
		if err := db.deleteSchedules(ctx, tx, r, by); err != nil {
			return err
		}
		if err := db.endRuns(ctx, tx, r); err != nil {
			return err
		}
		if err := db.forgetPolicy(ctx, tx, r, by); err != nil {
			return err
		}
		return db.remove(ctx, tx, r, by)
	})
}

// lockAutomation reads one that goes. Who writes events holds it until their
// runs are there, to be skipped with the others; no event comes afterwards.
func lockAutomation(ctx context.Context, tx bun.Tx, organization, id string) (*automationRow, error) {
	q := rowsOf[automationRow](tx, organization).Where("id = ?", id)
	if shared(tx) {
		q = q.For("UPDATE")
	}
	r, err := one[automationRow](ctx, q, noAutomation(id))
	return &r, err
}

func (db *DB) deleteTriggers(ctx context.Context, tx bun.Tx, a *automationRow, by string) error {
	rows, err := list[triggerRow](ctx, triggersOf(tx, a.Organization, a.ID))
	if err != nil {
		return err
	}
	for i := range rows {
		if err := db.deleteTrigger(ctx, tx, &rows[i], by); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) deleteSchedules(ctx context.Context, tx bun.Tx, a *automationRow, by string) error {
	rows, err := list[scheduleRow](ctx, schedulesOf(tx, a.Organization, a.ID))
	if err != nil {
		return err
	}
	for i := range rows {
		if err := db.remove(ctx, tx, &rows[i], by); err != nil {
			return err
		}
	}
	return nil
}

// endRuns skips runs that nobody has. What looks for others afterwards sees
// those that somebody took, or gave back, in this moment.
func (db *DB) endRuns(ctx context.Context, tx bun.Tx, a *automationRow) error {
	now := at(db.now())
	var ended []string
	err := tx.NewUpdate().Table("runs").Set("status = ?, completed_at = ?, code = ?", string(event.RunSkipped), now, runDeleted).
		Where("organization_id = ?", a.Organization).Where("automation_id = ?", a.ID).Where("status = ?", string(event.RunQueued)).
		Returning("id").Scan(ctx, &ended)
	if err != nil {
		return fmt.Errorf("skipping the runs of automation %s: %w", a.ID, err)
	}
	busy, err := exists(ctx, tx.NewSelect().Table("runs").ColumnExpr("1").
		Where("organization_id = ?", a.Organization).Where("automation_id = ?", a.ID).Where("claim_id IS NOT NULL OR status = ?", string(event.RunQueued)))
	if err != nil {
		return fmt.Errorf("looking for runs of automation %s: %w", a.ID, err)
	}
	if busy {
		return action.NewError("automation_busy")
	}
	for some := range slices.Chunk(ended, chunk) {
		_, err := tx.NewUpdate().Table("outbox").Set("status = ?, delivered_at = ?, holder = NULL, lease_until = NULL", string(event.ParcelVoid), now).
			Where("run_id IN (?)", bun.List(some)).Where("status IN ('pending', 'sending')").Exec(ctx)
		if err != nil {
			return fmt.Errorf("taking back the runs of automation %s: %w", a.ID, err)
		}
	}
	return nil
}

// forgetPolicy removes what the automation's runs may do: another one must not
// come by it.
func (db *DB) forgetPolicy(ctx context.Context, tx bun.Tx, a *automationRow, by string) error {
	n, err := removeAll[overrideRow](ctx, db, tx, a.Organization, "automation_id", a.ID, by)
	if err != nil {
		return err
	}
	if n > 0 {
		if _, err := policyMoved(ctx, tx, a.Organization); err != nil {
			return err
		}
	}
	return db.replaceBindings(ctx, tx, a.Organization, a.ID, nil, by)
}
