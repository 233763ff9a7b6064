package policy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// checkSource refuses a connector that does not exist: one created later could have
// the id and other tools. The names of modules are unknown here; a rule for a name
// that is no module has no effect.
func checkSource(ctx context.Context, tx bun.Tx, organization, source string) error {
	id, ok := strings.CutPrefix(source, "connector:")
	if !ok {
		return nil
	}
	found, err := database.Exists(ctx, tx.NewSelect().Table("connectors").Where("organization_id = ?", organization).Where("id = ?", id))
	if err == nil && !found {
		err = database.ConnectorNotFound(id)
	}
	return err
}

// OverrideRow is a row of the table policy_overrides.
type OverrideRow struct {
	bun.BaseModel `bun:"table:policy_overrides"`
	action.Override
}

// Event implements [history.Recorded].
func (r *OverrideRow) Event(by string) action.PolicyEvent {
	subject := r.Key.String()
	if r.Automation != "" {
		subject = "automation/" + r.Automation + " " + subject
	}
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventMode, Subject: subject, By: by}
}

// Snapshot implements [history.Recorded].
func (r *OverrideRow) Snapshot() any { return r.Override }

// SetOverride creates or changes an override. The connector of its key must exist
// (ErrNotFound).
func (st *Store) SetOverride(ctx context.Context, o action.Override) error {
	if err := o.Check(); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, o.Organization, o.Key.Source); err != nil {
			return err
		}
		return st.PutOverride(ctx, tx, &o)
	})
}

// PutOverride creates or changes an override that the caller has checked, in its
// transaction.
func (st *Store) PutOverride(ctx context.Context, tx bun.Tx, o *action.Override) error {
	return history.Upsert(ctx, st.history, tx, &OverrideRow{Override: *o}, o.UpdatedBy)
}

// UnsetOverride removes an override; ErrNotFound.
func (st *Store) UnsetOverride(ctx context.Context, organization, automation string, key action.Key, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := tx.NewSelect().Model(&OverrideRow{Override: action.Override{Organization: organization, Automation: automation, Key: key}}).WherePK()
		r, err := database.One[OverrideRow](ctx, q, action.NewError("override_not_found", key))
		if err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, &r, by)
	})
}

// OverridesSQL reads the version and the rows in one statement, so that they are
// consistent.
const OverridesSQL = `SELECT o.policy_version, p.automation_id, p.source_id, p.action, p.mode, p.updated_by, p.updated_at
FROM organizations o LEFT JOIN policy_overrides p ON p.organization_id = o.id
WHERE o.id = ?1 ORDER BY p.automation_id, p.source_id, p.action`

// Overrides returns all overrides of an organization, with the policy version.
func (st *Store) Overrides(ctx context.Context, organization string) (list []action.Override, version int64, err error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	rows, err := st.stmts.overrides.Query(ctx, st.db.Read, organization)
	if err != nil {
		return nil, 0, fmt.Errorf("reading policy: %w", err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		found = true
		var automation, source, act, mode, by database.NullString
		var when database.Timestamp
		if err := rows.Scan(&version, &automation, &source, &act, &mode, &by, &when); err != nil {
			return nil, 0, fmt.Errorf("reading policy: %w", err)
		}
		if mode == "" {
			continue // an organization without overrides
		}
		list = append(list, action.Override{
			Organization: organization, Automation: string(automation), Key: action.Key{Source: string(source), Action: string(act)},
			Mode: action.Mode(mode), UpdatedBy: string(by), UpdatedAt: when.Time,
		})
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("reading policy: %w", err)
	}
	if !found {
		return nil, 0, history.OrganizationNotFound()
	}
	return list, version, nil
}

// PolicyVersion returns the policy version of an organization by a prepared statement
// on one row. A snapshot with the same version is current.
func (st *Store) PolicyVersion(ctx context.Context, organization string) (version int64, err error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	err = st.stmts.version.One(ctx, st.db.Read, []any{organization}, []any{&version})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, history.OrganizationNotFound()
	}
	if err != nil {
		return 0, fmt.Errorf("reading the policy version: %w", err)
	}
	return version, nil
}

const versionSQL = `SELECT policy_version FROM organizations WHERE id = ?1`
