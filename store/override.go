package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type overrideRow struct {
	bun.BaseModel `bun:"table:policy_overrides"`

	Organization string `bun:"organization_id,pk"`
	Automation   string `bun:"automation_id,pk"`
	Source       string `bun:"source_id,pk"`
	Action       string `bun:"action,pk"`
	Mode         string `bun:"mode"`
	UpdatedBy    string `bun:"updated_by"`
	UpdatedAt    stamp  `bun:"updated_at"`
}

// SetOverride writes a row of policy, or changes it. A key of a connector must
// name one that exists.
func (db *DB) SetOverride(ctx context.Context, o action.Override) error {
	if !o.Mode.Valid() {
		return invalid("/mode", "A mode is allow, deny or require_approval.")
	}
	if _, err := action.ParseKey(o.Key.String()); err != nil {
		return err
	}
	r := &overrideRow{
		Organization: o.Organization, Automation: o.Automation, Source: o.Key.Source, Action: o.Key.Action,
		Mode: string(o.Mode), UpdatedBy: o.UpdatedBy, UpdatedAt: at(db.now()),
	}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if id, ok := strings.CutPrefix(o.Key.Source, "connector:"); ok {
			if _, err := connectorRowOf(ctx, tx, o.Organization, id); err != nil {
				return err
			}
		}
		_, err := tx.NewInsert().Model(r).
			On("CONFLICT (organization_id, automation_id, source_id, action) DO UPDATE").
			Set("mode = EXCLUDED.mode, updated_by = EXCLUDED.updated_by, updated_at = EXCLUDED.updated_at").Exec(ctx)
		if err != nil {
			return fmt.Errorf("setting policy %s: %w", o.Key, err)
		}
		_, err = policyMoved(ctx, tx, o.Organization)
		return err
	})
}

// UnsetOverride removes a row of policy; ErrNotFound when there is none.
func (db *DB) UnsetOverride(ctx context.Context, organization, automation string, key action.Key) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		res, err := tx.NewDelete().Model(&overrideRow{
			Organization: organization, Automation: automation, Source: key.Source, Action: key.Action,
		}).WherePK().Exec(ctx)
		if err != nil {
			return fmt.Errorf("unsetting policy %s: %w", key, err)
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return action.Errorf(action.ErrNotFound, "override_not_found", "No mode is set for %s.", key)
		}
		_, err = policyMoved(ctx, tx, organization)
		return err
	})
}

// overridesSQL reads the version and the rows in one statement, so that they
// belong together whatever is written meanwhile.
const overridesSQL = `SELECT o.policy_version, p.automation_id, p.source_id, p.action, p.mode, p.updated_by
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
		if err := rows.Scan(&version, &automation, &source, &act, &mode, &by); err != nil {
			return nil, 0, fmt.Errorf("reading policy: %w", err)
		}
		if mode == "" {
			continue // an organization without overrides
		}
		list = append(list, action.Override{
			Organization: organization, Automation: string(automation), Key: action.Key{Source: string(source), Action: string(act)},
			Mode: action.Mode(mode), UpdatedBy: string(by),
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
