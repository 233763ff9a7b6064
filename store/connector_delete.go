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
		old, err := connectorRowOf(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if err := db.forgetSource(ctx, tx, organization, old.source(), by); err != nil {
			return err
		}
		if err := db.resetReviews(ctx, tx, old, "", by); err != nil {
			return err
		}
		if err := db.revokeGrantsOf(ctx, tx, organization, old.source(), by); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model(old).WherePK().Where("organization_id = ?", organization).Exec(ctx); err != nil {
			return fmt.Errorf("deleting connector %s: %w", id, err)
		}
		if withdrew, err = withdrawCalls(ctx, tx, organization, "source_id", old.source(), db.now(), "The connector was removed."); err != nil {
			return err
		}
		if err := db.policyChanged(ctx, tx, old.event(by), old.connector(), nil); err != nil {
			return err
		}
		return catalogMoved(ctx, tx, organization)
	})
	return withdrew, err
}

// forgetSource removes what policy says of a source, each with its event. That
// it moves the version is for the caller.
func (db *DB) forgetSource(ctx context.Context, tx bun.Tx, organization, source, by string) error {
	remove := func(model any, column string) *bun.DeleteQuery {
		return tx.NewDelete().Model(model).Where("organization_id = ?", organization).Where("? = ?", bun.Ident(column), source).Returning("*")
	}
	var modes []overrideRow
	if err := remove((*overrideRow)(nil), "source_id").Scan(ctx, &modes); err != nil {
		return fmt.Errorf("deleting the modes of %s: %w", source, err)
	}
	for i := range modes {
		if err := db.recordChange(ctx, tx, modes[i].event(by), modes[i].override(), nil); err != nil {
			return err
		}
	}
	var limits []quotaRow
	if err := remove((*quotaRow)(nil), "source_id").Scan(ctx, &limits); err != nil {
		return fmt.Errorf("deleting the quotas of %s: %w", source, err)
	}
	for i := range limits {
		if err := db.recordChange(ctx, tx, limits[i].event(by), limits[i].quota(), nil); err != nil {
			return err
		}
	}
	var ceilings []capabilityRow
	if err := remove((*capabilityRow)(nil), "provider").Scan(ctx, &ceilings); err != nil {
		return fmt.Errorf("deleting the capabilities at %s: %w", source, err)
	}
	for i := range ceilings {
		was := ceilings[i].capability()
		if was == nil {
			continue // revoked before
		}
		if err := db.recordChange(ctx, tx, ceilings[i].event(by), was, nil); err != nil {
			return err
		}
	}
	return nil
}
