package history

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// settingsRow is the part of an organization's row that says what it chose.
type settingsRow struct {
	bun.BaseModel `bun:"table:organizations"`

	ID           string `bun:"id,pk"`
	Version      int64  `bun:"policy_version"`
	SelfApproval int    `bun:"self_approval"`
	DenialLimit  int    `bun:"denial_limit"`
	Unverified   int    `bun:"unverified_events"`
}

func (r *settingsRow) Settings() action.Settings {
	return action.Settings{SelfApproval: r.SelfApproval == 1, DenialLimit: r.DenialLimit, UnverifiedEvents: r.Unverified == 1}
}

// Settings returns what an organization chose, or the defaults.
func (st *Store) Settings(ctx context.Context, organization string) (action.Settings, error) {
	r, err := SettingsRowOf(ctx, st.db.Read, organization)
	if err != nil {
		return action.Settings{}, err
	}
	return r.Settings(), nil
}

// SetSettings writes what an organization chose.
func (st *Store) SetSettings(ctx context.Context, organization string, s action.Settings, by string) error {
	if err := s.Check(); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := SettingsRowOf(ctx, tx, organization)
		if err != nil {
			return err
		}
		was := r.Settings()
		if was == s {
			return nil
		}
		r.SelfApproval, r.DenialLimit, r.Unverified = database.BoolToInt(s.SelfApproval), s.DenialLimit, database.BoolToInt(s.UnverifiedEvents)
		if _, err := tx.NewUpdate().Model(r).Column("self_approval", "denial_limit", "unverified_events").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("writing settings: %w", err)
		}
		return st.PolicyChanged(ctx, tx, action.PolicyEvent{
			Organization: organization, Kind: action.EventSettings, Subject: "settings", By: by,
		}, was, s)
	})
}

func SettingsRowOf(ctx context.Context, db bun.IDB, organization string) (*settingsRow, error) {
	r, err := database.One[settingsRow](ctx, db.NewSelect().Model((*settingsRow)(nil)).Where("id = ?", organization), NoOrganization())
	return &r, err
}

// Versions tells what of an organization has moved: whoever keeps something
// made of its policy or its connectors compares them with those it had then.
type Versions struct {
	Organization string `bun:"id"`
	Policy       int64  `bun:"policy_version"`
	Catalog      int64  `bun:"catalog_version"`
}

// Versions returns the versions of all organizations, in one query that is
// cheap enough for every second.
func (st *Store) Versions(ctx context.Context) ([]Versions, error) {
	var list []Versions
	if err := VersionsOf(st.db.Read).Scan(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading the versions: %w", err)
	}
	return list, nil
}

func VersionsOf(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().Table("organizations").Column("id", "policy_version", "catalog_version").Order("id")
}

// CatalogMoved counts a change of connectors, or of a secret that one uses:
// what an instance knows of them is read again. It belongs into the
// transaction of the change.
func CatalogMoved(ctx context.Context, tx bun.Tx, organization string) error {
	n, err := database.RowsAffected(tx.NewUpdate().Table("organizations").Set("catalog_version = catalog_version + 1").
		Where("id = ?", organization).Exec(ctx))
	if err != nil {
		return fmt.Errorf("counting a change of connectors: %w", err)
	}
	if n == 0 {
		return NoOrganization()
	}
	return nil
}
