package store

import (
	"context"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// UpdateTrigger writes Name, Enabled, Config, Integration and PollSeconds, and
// returns the row; ErrNotFound.
func (db *DB) UpdateTrigger(ctx context.Context, t event.Trigger, by string) (event.Trigger, error) {
	var r triggerRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = triggerOf(ctx, tx, t.Organization, t.ID); err != nil {
			return err
		}
		old := r
		r.Trigger = t // but for what it is, and what happened to it
		r.Automation, r.Kind, r.Provider, r.Type = old.Automation, old.Kind, old.Provider, old.Type
		r.CreatedBy, r.CreatedAt, r.LastEventAt = old.CreatedBy, old.CreatedAt, old.LastEventAt
		return db.updateTrigger(ctx, tx, &old, &r, by)
	})
	return r.Trigger, err
}

func (db *DB) updateTrigger(ctx context.Context, tx bun.Tx, old, r *triggerRow, by string) error {
	if err := action.Fault(r.Check()); err != nil {
		return err
	}
	// One that went since does not keep people from turning the trigger off.
	if r.Integration != old.Integration {
		if err := r.checkIntegration(ctx, tx, by); err != nil {
			return err
		}
	}
	if err := db.update(ctx, tx, old, r, by); err != nil {
		return err
	}
	if err := db.pollsMoved(ctx, tx, &old.Trigger); err != nil {
		return err
	}
	return db.pollsMoved(ctx, tx, &r.Trigger)
}

// DeleteTrigger removes one with its secrets; ErrNotFound. What its events and
// runs were stays.
func (db *DB) DeleteTrigger(ctx context.Context, organization, id, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := triggerOf(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		return db.deleteTrigger(ctx, tx, &r, by)
	})
}

func (db *DB) deleteTrigger(ctx context.Context, tx bun.Tx, r *triggerRow, by string) error {
	if err := db.remove(ctx, tx, r, by); err != nil {
		return err
	}
	if err := deleteSecrets(ctx, tx, r.Organization, r.ID); err != nil {
		return err
	}
	return db.pollsMoved(ctx, tx, &r.Trigger)
}
