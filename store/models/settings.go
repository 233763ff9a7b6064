package models

import (
	"cmp"
	"context"
	"fmt"
	"net/url"

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
// result, and that the secrets of providers that change are for their hosts. change may be
// called again.
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
			if old := before.Provider(p.Name); old != nil && *old == p {
				continue
			}
			if err := checkSecret(ctx, tx, organization, &p); err != nil {
				return err
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

// checkSecret checks that the secret of a provider exists and is for its host.
func checkSecret(ctx context.Context, tx bun.Tx, organization string, p *action.ModelProvider) error {
	var hosts []string
	err := tx.NewSelect().Table("secrets").Column("host").Where("organization_id = ?", organization).Where("key = ?", p.Secret).Scan(ctx, &hosts)
	switch {
	case err != nil:
		return fmt.Errorf("reading the secret of provider %s: %w", p.Name, err)
	case len(hosts) == 0:
		return action.NewError("secret_not_found", p.Secret).WithField("/secret")
	case !action.SameHost(hosts[0], p.URL):
		to := p.URL
		if u, err := url.Parse(p.URL); err == nil {
			to = u.Host
		}
		return action.NewError("provider_secret_host", p.Secret, cmp.Or(hosts[0], "no host"), to).WithField("/secret")
	}
	return nil
}
