package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// UpdateTrigger writes Name, Enabled, Config, Integration and PollSeconds, and
// returns the row; ErrNotFound.
func (db *DB) UpdateTrigger(ctx context.Context, t event.Trigger, by string) (event.Trigger, error) {
	var r *triggerRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = triggerRowOf(ctx, tx, t.Organization, t.ID); err != nil {
			return err
		}
		old := *r
		r.Name, r.Enabled, r.Config, r.Integration, r.PollSeconds = t.Name, t.Enabled, string(t.Config), opt(t.Integration), t.PollSeconds
		return db.updateTrigger(ctx, tx, &old, r, by)
	})
	if err != nil {
		return event.Trigger{}, err
	}
	return r.trigger(), nil
}

func (db *DB) updateTrigger(ctx context.Context, tx bun.Tx, old, r *triggerRow, by string) error {
	if err := r.checkChoices(); err != nil || *r == *old {
		return err
	}
	// One that went since does not keep people from turning the trigger off.
	if r.Integration != old.Integration {
		if err := r.checkIntegration(ctx, tx, by); err != nil {
			return err
		}
	}
	r.UpdatedAt = at(db.now())
	_, err := tx.NewUpdate().Model(r).Column("name", "enabled", "config", "integration_id", "poll_seconds", "updated_at").
		WherePK().Where("organization_id = ?", r.Organization).Exec(ctx)
	if err != nil {
		return fmt.Errorf("changing trigger %s: %w", r.ID, err)
	}
	if err := db.pollsMoved(ctx, tx, old); err != nil {
		return err
	}
	if err := db.pollsMoved(ctx, tx, r); err != nil {
		return err
	}
	return db.recordChange(ctx, tx, r.event(by), old.told(), r.told())
}

// DeleteTrigger removes one with its secrets; ErrNotFound. What its events and
// runs were stays.
func (db *DB) DeleteTrigger(ctx context.Context, organization, id, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := triggerRowOf(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		return db.deleteTrigger(ctx, tx, r, by)
	})
}

func (db *DB) deleteTrigger(ctx context.Context, tx bun.Tx, r *triggerRow, by string) error {
	if _, err := tx.NewDelete().Model(r).WherePK().Where("organization_id = ?", r.Organization).Exec(ctx); err != nil {
		return fmt.Errorf("deleting trigger %s: %w", r.ID, err)
	}
	if err := deleteSecrets(ctx, tx, r.Organization, r.ID); err != nil {
		return err
	}
	if err := db.pollsMoved(ctx, tx, r); err != nil {
		return err
	}
	return db.recordChange(ctx, tx, r.event(by), r.told(), nil)
}
