package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// DefaultOrganization is the id of the organization of a new database.
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

	ID            string             `bun:"id,pk"`
	Name          string             `bun:"name"`
	PolicyVersion int64              `bun:"policy_version"`
	CreatedAt     database.Timestamp `bun:"created_at"`
}

func (r *organizationRow) organization() Organization {
	return Organization{ID: r.ID, Name: r.Name, PolicyVersion: r.PolicyVersion, CreatedAt: r.CreatedAt.Time}
}

// EnsureOrganization returns the organization with the id, created with the name if
// it does not exist. An existing one keeps its name.
func (st *Store) EnsureOrganization(ctx context.Context, id, name string) (Organization, error) {
	r := &organizationRow{ID: id, Name: name, PolicyVersion: 1, CreatedAt: database.NewTimestamp(st.db.Now())}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(r).On("CONFLICT (id) DO NOTHING").Exec(ctx)
		if err != nil {
			return fmt.Errorf("creating organization %s: %w", id, err)
		}
		return tx.NewSelect().Model(r).WherePK().Scan(ctx)
	})
	return r.organization(), err
}

// Organization returns an organization; ErrNotFound.
func (st *Store) Organization(ctx context.Context, id string) (Organization, error) {
	r, err := database.One[organizationRow](ctx, st.db.Read.NewSelect().Model((*organizationRow)(nil)).Where("id = ?", id), OrganizationNotFound())
	return r.organization(), err
}

// OrganizationNotFound returns the error for an organization that does not exist.
func OrganizationNotFound() error {
	return action.NewError("organization_not_found")
}

// BumpPolicyVersion increments the policy version: a decision made at an older
// version is made again before its row is written.
func BumpPolicyVersion(ctx context.Context, tx bun.Tx, organization string) (version int64, err error) {
	err = tx.NewUpdate().Table("organizations").Set("policy_version = policy_version + 1").
		Where("id = ?", organization).Returning("policy_version").Scan(ctx, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, OrganizationNotFound()
	}
	if err != nil {
		return 0, fmt.Errorf("incrementing the policy version: %w", err)
	}
	return version, nil
}

// UserName returns the name of a user, or the id if the user is unknown.
func UserName(ctx context.Context, tx bun.IDB, organization, user string) string {
	var name string
	err := tx.NewSelect().Table("users").Column("name").
		Where("organization_id = ?", organization).Where("id = ?", user).Scan(ctx, &name)
	if err != nil {
		return user
	}
	return name
}
