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

// settingsRow is the part of an organization's row that holds its settings.
type settingsRow struct {
	bun.BaseModel `bun:"table:organizations"`

	ID           string `bun:"id,pk"`
	Version      int64  `bun:"policy_version"`
	SelfApproval int    `bun:"self_approval"`
	DenialLimit  int    `bun:"denial_limit"`
	Unverified   int    `bun:"unverified_events"`
	DefaultGroup string `bun:"default_group,nullzero"`
}

// Settings converts the row.
func (r *settingsRow) Settings() action.Settings {
	return action.Settings{SelfApproval: r.SelfApproval == 1, DenialLimit: r.DenialLimit, UnverifiedEvents: r.Unverified == 1, DefaultGroup: r.DefaultGroup}
}

// Settings returns the settings of an organization.
func (st *Store) Settings(ctx context.Context, organization string) (action.Settings, error) {
	r, err := ReadSettings(ctx, st.db.Read, organization)
	if err != nil {
		return action.Settings{}, err
	}
	return r.Settings(), nil
}

// SetSettings replaces the settings of an organization. A default group must have a
// capability: without one, its sessions could do nothing.
func (st *Store) SetSettings(ctx context.Context, organization string, s action.Settings, by string) error {
	if err := s.Check(); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := ReadSettings(ctx, tx, organization)
		if err != nil {
			return err
		}
		before := r.Settings()
		if before == s {
			return nil
		}
		if s.DefaultGroup != "" && s.DefaultGroup != before.DefaultGroup {
			known, err := database.Exists(ctx, tx.NewSelect().Table("capabilities").Where("organization_id = ?", organization).
				Where("group_id = ?", s.DefaultGroup).Where("revoked_at IS NULL"))
			if err != nil {
				return fmt.Errorf("reading the capabilities of group %s: %w", s.DefaultGroup, err)
			}
			if !known {
				return action.NewError("default_group_unknown", s.DefaultGroup).WithField("/default_group")
			}
		}
		r.SelfApproval, r.DenialLimit, r.Unverified = database.BoolToInt(s.SelfApproval), s.DenialLimit, database.BoolToInt(s.UnverifiedEvents)
		r.DefaultGroup = s.DefaultGroup
		if _, err := tx.NewUpdate().Model(r).Column("self_approval", "denial_limit", "unverified_events", "default_group").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("writing settings: %w", err)
		}
		return st.RecordPolicyChange(ctx, tx, action.PolicyEvent{
			Organization: organization, Kind: action.EventSettings, Subject: "settings", By: by,
		}, before, s)
	})
}

// ReadSettings reads the settings of an organization; ErrNotFound.
func ReadSettings(ctx context.Context, db bun.IDB, organization string) (*settingsRow, error) {
	r, err := database.One[settingsRow](ctx, db.NewSelect().Model((*settingsRow)(nil)).Where("id = ?", organization), OrganizationNotFound())
	return &r, err
}

// Versions are the version counters of an organization. A cache of its policy or
// catalog is current while its versions match.
type Versions struct {
	Organization string `bun:"id"`
	Policy       int64  `bun:"policy_version"`
	Catalog      int64  `bun:"catalog_version"`
}

// Versions returns the versions of all organizations, in one query that is cheap
// enough to run every second.
func (st *Store) Versions(ctx context.Context) ([]Versions, error) {
	var list []Versions
	if err := VersionsQuery(st.db.Read).Scan(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading the versions: %w", err)
	}
	return list, nil
}

// VersionsQuery selects the versions of all organizations.
func VersionsQuery(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().Table("organizations").Column("id", "policy_version", "catalog_version").Order("id")
}

// BumpCatalogVersion increments the catalog version in the transaction of a change of
// a connector, an integration or a secret, so that every instance reloads its
// catalog.
func BumpCatalogVersion(ctx context.Context, tx bun.Tx, organization string) error {
	n, err := database.RowsAffected(tx.NewUpdate().Table("organizations").Set("catalog_version = catalog_version + 1").
		Where("id = ?", organization).Exec(ctx))
	if err != nil {
		return fmt.Errorf("incrementing the catalog version: %w", err)
	}
	if n == 0 {
		return OrganizationNotFound()
	}
	return nil
}

// DefaultOrganization is the id of the organization of a new database.
const DefaultOrganization = "default"

// Organization is the tenant to which every other row belongs.
type Organization struct {
	ID            string    `json:"id" bun:"id,pk"`
	Name          string    `json:"name"`
	PolicyVersion int64     `json:"policy_version"`
	CreatedAt     time.Time `json:"created_at"`
}

type organizationRow struct {
	bun.BaseModel `bun:"table:organizations"`
	Organization
}

// EnsureOrganization returns the organization with the id, created with the name if
// it does not exist. An existing one keeps its name.
func (st *Store) EnsureOrganization(ctx context.Context, id, name string) (Organization, error) {
	r := &organizationRow{Organization: Organization{ID: id, Name: name, PolicyVersion: 1, CreatedAt: st.db.Now()}}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(r).On("CONFLICT (id) DO NOTHING").Exec(ctx)
		if err != nil {
			return fmt.Errorf("creating organization %s: %w", id, err)
		}
		return tx.NewSelect().Model(r).WherePK().Scan(ctx)
	})
	return r.Organization, err
}

// Organization returns an organization; ErrNotFound.
func (st *Store) Organization(ctx context.Context, id string) (Organization, error) {
	r, err := database.One[organizationRow](ctx, st.db.Read.NewSelect().Model((*organizationRow)(nil)).Where("id = ?", id), OrganizationNotFound())
	return r.Organization, err
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
