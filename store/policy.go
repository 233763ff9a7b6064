package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/policy"
)

// Rules returns an organization's whole policy as a consistent snapshot.
func (db *DB) Rules(ctx context.Context, organization string) (rules action.Rules, err error) {
	ctx, cancel := db.db.ReadContext(ctx)
	defer cancel()
	err = db.db.Retry.Do(ctx, false, func(ctx context.Context, _ bool) error {
		tx, err := db.beginSnapshot(ctx)
		if err != nil {
			return fmt.Errorf("reading policy: %w", err)
		}
		defer tx.Rollback()
		rules, err = readRules(ctx, tx, organization, database.NewTimestamp(db.db.Now()))
		return err
	})
	return rules, err
}

// beginSnapshot begins a read-only transaction in which all statements see the
// same snapshot. On PostgreSQL it uses the writers' pool, because a hook of the
// readers' pool would end the transaction with its first statement.
func (db *DB) beginSnapshot(ctx context.Context) (bun.Tx, error) {
	if !db.db.Shared() {
		return db.db.Read.BeginTx(ctx, nil)
	}
	return db.db.Write.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

func readRules(ctx context.Context, tx bun.Tx, organization string, now database.Timestamp) (rules action.Rules, err error) {
	settings, err := history.ReadSettings(ctx, tx, organization)
	if err != nil {
		return rules, err
	}
	rules.Version, rules.Settings = settings.Version, settings.Settings()
	if rules.Overrides, err = database.List[action.Override](ctx, selectOverrides(tx, organization)); err != nil {
		return rules, err
	}
	if rules.Capabilities, err = database.List[action.Capability](ctx, policy.CapabilitiesQuery(tx, organization, "")); err != nil {
		return rules, err
	}
	if rules.Gates, err = database.List[action.GateApproval](ctx, policy.OpenGatesQuery(tx, organization, now)); err != nil {
		return rules, err
	}
	slices.SortFunc(rules.Gates, func(a, b action.GateApproval) int { return strings.Compare(a.ID, b.ID) })
	if rules.Quotas, err = database.List[action.Quota](ctx, policy.QuotasQuery(tx, organization)); err != nil {
		return rules, err
	}
	if rules.Integrations, err = database.List[action.Integration](ctx, connect.LiveIntegrations(tx, organization)); err != nil {
		return rules, err
	}
	rules.Reviewed, rules.Risks, err = connect.Reviewed(ctx, tx, organization)
	return rules, err
}

func selectOverrides(db bun.IDB, organization string) *bun.SelectQuery {
	return database.RowsOf[policy.OverrideRow](db, organization).ExcludeColumn("updated_at").Order("automation_id", "source_id", "action")
}

// DeleteConnector deletes a connector and its policy. Its invocations stay; the
// pending ones are withdrawn and returned. ErrNotFound.
func (db *DB) DeleteConnector(ctx context.Context, organization, id, by string) (withdrawn []action.Invocation, err error) {
	err = db.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := connect.ReadConnector(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		// RecordPolicyChange below increments the policy version.
		if _, err := history.RemoveAll[policy.OverrideRow](ctx, db.historyStore, tx, organization, "source_id", old.Source(), by); err != nil {
			return err
		}
		if _, err := history.RemoveAll[policy.QuotaRow](ctx, db.historyStore, tx, organization, "source_id", old.Source(), by); err != nil {
			return err
		}
		if _, err := history.RemoveAll[policy.CapabilityRow](ctx, db.historyStore, tx, organization, "provider", old.Source(), by); err != nil {
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
