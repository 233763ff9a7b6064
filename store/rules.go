package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Rules returns all of an organization's policy as it was at one version,
// whatever is written meanwhile.
func (db *DB) Rules(ctx context.Context, organization string) (rules action.Rules, err error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	err = db.retry.do(ctx, false, func(ctx context.Context, _ bool) error {
		tx, err := db.snapshot(ctx)
		if err != nil {
			return fmt.Errorf("reading policy: %w", err)
		}
		defer tx.Rollback()
		rules, err = readRules(ctx, tx, organization, at(db.now()))
		return err
	})
	return rules, err
}

// snapshot begins a transaction that only reads, and whose statements all see
// the same. On PostgreSQL it comes from the pool of writers, which is the same:
// the hook of the readers would end it with its first statement.
func (db *DB) snapshot(ctx context.Context) (bun.Tx, error) {
	if !db.Shared() {
		return db.read.BeginTx(ctx, nil)
	}
	return db.write.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

func readRules(ctx context.Context, tx bun.Tx, organization string, now stamp) (rules action.Rules, err error) {
	chosen, err := settingsRowOf(ctx, tx, organization)
	if err != nil {
		return rules, err
	}
	rules.Version, rules.Settings = chosen.Version, chosen.settings()
	if rules.Overrides, err = list[action.Override](ctx, overrides(tx, organization)); err != nil {
		return rules, err
	}
	if rules.Capabilities, err = list[action.Capability](ctx, capabilities(tx, organization, "")); err != nil {
		return rules, err
	}
	if rules.Gates, err = list[action.GateApproval](ctx, openGates(tx, organization, now)); err != nil {
		return rules, err
	}
	slices.SortFunc(rules.Gates, func(a, b action.GateApproval) int { return strings.Compare(a.ID, b.ID) })
	if rules.Quotas, err = list[action.Quota](ctx, quotas(tx, organization)); err != nil {
		return rules, err
	}
	if rules.Integrations, err = list[action.Integration](ctx, liveIntegrations(tx, organization)); err != nil {
		return rules, err
	}
	rules.Reviewed, rules.Risks, err = reviewed(ctx, tx, organization)
	return rules, err
}

func overrides(db bun.IDB, organization string) *bun.SelectQuery {
	return rowsOf[overrideRow](db, organization).ExcludeColumn("updated_at").Order("automation_id", "source_id", "action")
}
