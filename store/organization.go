package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// DefaultOrganization is the id of the one that is there from the start.
const DefaultOrganization = "default"

// Organization is the tenant to which every other row belongs.
type Organization struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	PolicyVersion int64     `json:"policy_version"`
	CreatedAt     time.Time `json:"created_at"`
}

type organizationRow struct {
	bun.BaseModel `bun:"table:organizations"`

	ID            string `bun:"id,pk"`
	Name          string `bun:"name"`
	PolicyVersion int64  `bun:"policy_version"`
	CreatedAt     stamp  `bun:"created_at"`
}

func (r *organizationRow) organization() Organization {
	return Organization{ID: r.ID, Name: r.Name, PolicyVersion: r.PolicyVersion, CreatedAt: r.CreatedAt.t}
}

// EnsureOrganization returns the organization with the id, made with the name
// when there is none. An existing one keeps its name.
func (db *DB) EnsureOrganization(ctx context.Context, id, name string) (Organization, error) {
	r := &organizationRow{ID: id, Name: name, PolicyVersion: 1, CreatedAt: at(db.now())}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(r).On("CONFLICT (id) DO NOTHING").Exec(ctx)
		if err != nil {
			return fmt.Errorf("making organization %s: %w", id, err)
		}
		return tx.NewSelect().Model(r).WherePK().Scan(ctx)
	})
	return r.organization(), err
}

// Organization returns one organization.
func (db *DB) Organization(ctx context.Context, id string) (Organization, error) {
	r, err := one[organizationRow](ctx, db.read.NewSelect().Model((*organizationRow)(nil)).Where("id = ?", id), noOrganization())
	return r.organization(), err
}

func noOrganization() error {
	return action.NewError("organization_not_found")
}

// policyMoved counts a change of policy: whatever was decided before it is
// decided again before its row is written.
func policyMoved(ctx context.Context, tx bun.Tx, organization string) (version int64, err error) {
	err = tx.NewUpdate().Table("organizations").Set("policy_version = policy_version + 1").
		Where("id = ?", organization).Returning("policy_version").Scan(ctx, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, noOrganization()
	}
	if err != nil {
		return 0, fmt.Errorf("counting a change of policy: %w", err)
	}
	return version, nil
}
