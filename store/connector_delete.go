package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/connect"
	"sallyport/store/history"
	"sallyport/store/policy"
)

// DeleteConnector deletes a connector and its policy. Its invocations stay; the
// pending ones are withdrawn and returned. ErrNotFound.
func (db *DB) DeleteConnector(ctx context.Context, organization, id, by string) (withdrawn []action.Invocation, err error) {
	err = db.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := connect.ReadConnector(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if err := db.deleteSourcePolicy(ctx, tx, organization, old.Source(), by); err != nil {
			return err
		}
		if err := db.ResetReviews(ctx, tx, &old, "", by); err != nil {
			return err
		}
		if err := db.RevokeSourceGrants(ctx, tx, organization, old.Source(), by); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model(&old).WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("deleting connector %s: %w", id, err)
		}
		if withdrawn, err = calls.WithdrawCalls(ctx, tx, organization, "source_id", old.Source(), db.db.Now(), "The connector was removed."); err != nil {
			return err
		}
		if err := db.RecordPolicyChange(ctx, tx, old.Event(by), old.Snapshot(), nil); err != nil {
			return err
		}
		return history.BumpCatalogVersion(ctx, tx, organization)
	})
	return withdrawn, err
}

// deleteSourcePolicy deletes the policy of a source, with an event for each
// row. The caller increments the policy version.
func (db *DB) deleteSourcePolicy(ctx context.Context, tx bun.Tx, organization, source, by string) error {
	if _, err := history.RemoveAll[policy.OverrideRow](ctx, db.historyStore, tx, organization, "source_id", source, by); err != nil {
		return err
	}
	if _, err := history.RemoveAll[policy.QuotaRow](ctx, db.historyStore, tx, organization, "source_id", source, by); err != nil {
		return err
	}
	_, err := history.RemoveAll[policy.CapabilityRow](ctx, db.historyStore, tx, organization, "provider", source, by)
	return err
}
