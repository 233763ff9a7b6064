package history

import (
	"context"
	"fmt"

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
}

// Settings converts the row.
func (r *settingsRow) Settings() action.Settings {
	return action.Settings{SelfApproval: r.SelfApproval == 1, DenialLimit: r.DenialLimit, UnverifiedEvents: r.Unverified == 1}
}

// Settings returns the settings of an organization.
func (st *Store) Settings(ctx context.Context, organization string) (action.Settings, error) {
	r, err := ReadSettings(ctx, st.db.Read, organization)
	if err != nil {
		return action.Settings{}, err
	}
	return r.Settings(), nil
}

// SetSettings replaces the settings of an organization.
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
		r.SelfApproval, r.DenialLimit, r.Unverified = database.BoolToInt(s.SelfApproval), s.DenialLimit, database.BoolToInt(s.UnverifiedEvents)
		if _, err := tx.NewUpdate().Model(r).Column("self_approval", "denial_limit", "unverified_events").WherePK().Exec(ctx); err != nil {
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
