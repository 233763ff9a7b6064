package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

// looksAtRules is how often Rules looks again because policy moved meanwhile.
const looksAtRules = 20

// Rules returns all of an organization's policy as it was at one version. The
// tables are read one after the other, and all of them again when the version
// moved meanwhile: every change of what is read here moves it.
func (db *DB) Rules(ctx context.Context, organization string) (action.Rules, error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	for range looksAtRules {
		rules, moved, err := db.lookAtRules(ctx, organization)
		if err != nil || !moved {
			return rules, err
		}
	}
	return action.Rules{}, action.Errorf(action.ErrNotReady, "policy_moving",
		"The policy of the organization changes faster than it can be read; try again in a moment.")
}

func (db *DB) lookAtRules(ctx context.Context, organization string) (rules action.Rules, moved bool, err error) {
	if rules.Overrides, rules.Version, err = db.Overrides(ctx, organization); err != nil {
		return rules, false, err
	}
	if rules.Capabilities, err = db.ListCapabilities(ctx, organization, ""); err != nil {
		return rules, false, err
	}
	var gates []gateRow
	if err := openGates(db.read, organization, at(db.now())).Scan(ctx, &gates); err != nil {
		return rules, false, fmt.Errorf("reading approvals of gates: %w", err)
	}
	slices.SortFunc(gates, func(a, b gateRow) int { return strings.Compare(a.ID, b.ID) })
	rules.Gates = gateApprovals(gates)
	if rules.Quotas, err = db.ListQuotas(ctx, organization); err != nil {
		return rules, false, err
	}
	if rules.Reviewed, err = db.reviewed(ctx, organization); err != nil {
		return rules, false, err
	}
	chosen, err := settingsRowOf(ctx, db.read, organization)
	if err != nil {
		return rules, false, err
	}
	rules.Settings = chosen.settings()
	return rules, chosen.Version != rules.Version, nil
}
