package models

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

type settingsRow struct {
	bun.BaseModel `bun:"table:organizations"`

	ID       string                               `bun:"id,pk"`
	Settings database.JSON[*action.ModelSettings] `bun:"model_settings"`
}

func readSettings(ctx context.Context, db bun.IDB, organization string) (action.ModelSettings, error) {
	r, err := database.One[settingsRow](ctx, db.NewSelect().Model((*settingsRow)(nil)).Where("id = ?", organization), history.OrganizationNotFound())
	s := action.ModelSettings{Providers: []action.ModelProvider{}, Prices: []action.ModelPrice{}, Limits: []action.ModelLimit{}}
	if err == nil && r.Settings.V != nil {
		s = *r.Settings.V
	}
	return s, err
}

// ModelSettings returns the settings of an organization's models.
func (st *Store) ModelSettings(ctx context.Context, organization string) (action.ModelSettings, error) {
	return readSettings(ctx, st.db.Read, organization)
}

// ChangeModelSettings applies a change to the settings and returns them. It checks the
// result, and that the secrets of its providers exist. change may be called again.
func (st *Store) ChangeModelSettings(ctx context.Context, organization, by string, change func(*action.ModelSettings) error) (s action.ModelSettings, err error) {
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		before, err := readSettings(ctx, tx, organization)
		if err != nil {
			return err
		}
		// A second copy: change may write to maps and slices.
		if s, err = readSettings(ctx, tx, organization); err != nil {
			return err
		}
		if err := change(&s); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		for _, p := range s.Providers {
			known, err := database.Exists(ctx, tx.NewSelect().Table("secrets").Where("organization_id = ?", organization).Where("key = ?", p.Secret))
			if err != nil {
				return fmt.Errorf("reading the secret of provider %s: %w", p.Name, err)
			}
			if !known && before.Provider(p.Name) == nil {
				return action.NewError("secret_not_found", p.Secret).WithField("/secret")
			}
		}
		r := &settingsRow{ID: organization}
		r.Settings.V = &s
		if _, err := tx.NewUpdate().Model(r).Column("model_settings").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("writing the settings of models: %w", err)
		}
		return st.history.RecordChange(ctx, tx, action.PolicyEvent{
			Organization: organization, Kind: action.EventSettings, Subject: "models", By: by,
		}, before, s)
	})
	return s, err
}
