package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
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

func (r *settingsRow) settings() action.Settings {
	return action.Settings{SelfApproval: r.SelfApproval == 1, DenialLimit: r.DenialLimit, UnverifiedEvents: r.Unverified == 1}
}

// Settings returns what an organization chose, or the defaults.
func (db *DB) Settings(ctx context.Context, organization string) (action.Settings, error) {
	r, err := settingsRowOf(ctx, db.read, organization)
	if err != nil {
		return action.Settings{}, err
	}
	return r.settings(), nil
}

// SetSettings writes what an organization chose.
func (db *DB) SetSettings(ctx context.Context, organization string, s action.Settings, by string) error {
	if err := s.Check(); err != nil {
		return err
	}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := settingsRowOf(ctx, tx, organization)
		if err != nil {
			return err
		}
		was := r.settings()
		if was == s {
			return nil
		}
		r.SelfApproval, r.DenialLimit, r.Unverified = flag(s.SelfApproval), s.DenialLimit, flag(s.UnverifiedEvents)
		if _, err := tx.NewUpdate().Model(r).Column("self_approval", "denial_limit", "unverified_events").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("writing settings: %w", err)
		}
		return db.policyChanged(ctx, tx, action.PolicyEvent{
			Organization: organization, Kind: action.EventSettings, Subject: "settings", By: by,
		}, was, s)
	})
}

func settingsRowOf(ctx context.Context, db bun.IDB, organization string) (*settingsRow, error) {
	r, err := one[settingsRow](ctx, db.NewSelect().Model((*settingsRow)(nil)).Where("id = ?", organization), noOrganization())
	return &r, err
}
