package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type overrideRow struct {
	bun.BaseModel `bun:"table:policy_overrides"`
	action.Override
}

func (r *overrideRow) event(by string) action.PolicyEvent {
	subject := r.Key.String()
	if r.Automation != "" {
		subject = "automation/" + r.Automation + " " + subject
	}
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventMode, Subject: subject, By: by}
}

func (r *overrideRow) snapshot() any { return r.Override }

// SetOverride writes a row of policy, or changes it. A key of a connector must
// name one that exists.
func (db *DB) SetOverride(ctx context.Context, o action.Override) error {
	if err := o.Check(); err != nil {
		return err
	}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, o.Organization, o.Key.Source); err != nil {
			return err
		}
		return db.override(ctx, tx, &o)
	})
}

// override writes a row of policy that was checked.
func (db *DB) override(ctx context.Context, tx bun.Tx, o *action.Override) error {
	return upsert(ctx, db, tx, &overrideRow{Override: *o}, o.UpdatedBy)
}

// UnsetOverride removes a row of policy; ErrNotFound when there is none.
func (db *DB) UnsetOverride(ctx context.Context, organization, automation string, key action.Key, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := tx.NewSelect().Model(&overrideRow{Override: action.Override{Organization: organization, Automation: automation, Key: key}}).WherePK()
		r, err := one[overrideRow](ctx, q, action.NewError("override_not_found", key))
		if err != nil {
			return err
		}
		return db.remove(ctx, tx, &r, by)
	})
}

// overridesSQL reads the version and the rows in one statement, so that they
// belong together whatever is written meanwhile.
const overridesSQL = `SELECT o.policy_version, p.automation_id, p.source_id, p.action, p.mode, p.updated_by, p.updated_at
FROM organizations o LEFT JOIN policy_overrides p ON p.organization_id = o.id
WHERE o.id = ?1 ORDER BY p.automation_id, p.source_id, p.action`

// Overrides returns all of an organization's policy, with its version.
func (db *DB) Overrides(ctx context.Context, organization string) (list []action.Override, version int64, err error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	rows, err := db.stmts.overrides.query(ctx, db.read, organization)
	if err != nil {
		return nil, 0, fmt.Errorf("reading policy: %w", err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		found = true
		var automation, source, act, mode, by opt
		var when stamp
		if err := rows.Scan(&version, &automation, &source, &act, &mode, &by, &when); err != nil {
			return nil, 0, fmt.Errorf("reading policy: %w", err)
		}
		if mode == "" {
			continue // an organization without overrides
		}
		list = append(list, action.Override{
			Organization: organization, Automation: string(automation), Key: action.Key{Source: string(source), Action: string(act)},
			Mode: action.Mode(mode), UpdatedBy: string(by), UpdatedAt: when.t,
		})
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("reading policy: %w", err)
	}
	if !found {
		return nil, 0, noOrganization()
	}
	return list, version, nil
}

// PolicyVersion returns the version of an organization's policy, as cheaply as
// can be: a snapshot with the same version is current.
func (db *DB) PolicyVersion(ctx context.Context, organization string) (version int64, err error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	err = db.stmts.version.one(ctx, db.read, []any{organization}, []any{&version})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, noOrganization()
	}
	if err != nil {
		return 0, fmt.Errorf("reading the policy version: %w", err)
	}
	return version, nil
}

const versionSQL = `SELECT policy_version FROM organizations WHERE id = ?1`
