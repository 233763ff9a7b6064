package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// DeleteConnector removes a connector and what policy said of it; ErrNotFound.
// Its invocations stay; those that wait for a person are withdrawn, and returned.
func (db *DB) DeleteConnector(ctx context.Context, organization, id, by string) (withdrew []action.Invocation, err error) {
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := connectorOf(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if err := db.forgetSource(ctx, tx, organization, old.Source(), by); err != nil {
			return err
		}
		if err := db.resetReviews(ctx, tx, &old, "", by); err != nil {
			return err
		}
		if err := db.revokeGrantsOf(ctx, tx, organization, old.Source(), by); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model(&old).WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("deleting connector %s: %w", id, err)
		}
		if withdrew, err = withdrawCalls(ctx, tx, organization, "source_id", old.Source(), db.now(), "The connector was removed."); err != nil {
			return err
		}
		if err := db.policyChanged(ctx, tx, old.event(by), old.snapshot(), nil); err != nil {
			return err
		}
		return catalogMoved(ctx, tx, organization)
	})
	return withdrew, err
}

// forgetSource removes what policy says of a source, each with its event. That
// it moves the version is for the caller.
func (db *DB) forgetSource(ctx context.Context, tx bun.Tx, organization, source, by string) error {
	if _, err := removeAll[overrideRow](ctx, db, tx, organization, "source_id", source, by); err != nil {
		return err
	}
	if _, err := removeAll[quotaRow](ctx, db, tx, organization, "source_id", source, by); err != nil {
		return err
	}
	_, err := removeAll[capabilityRow](ctx, db, tx, organization, "provider", source, by)
	return err
}
