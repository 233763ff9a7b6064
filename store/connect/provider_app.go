package connect

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

type ProviderAppRow struct {
	bun.BaseModel `bun:"table:provider_apps"`
	action.ProviderApp
}

func (r *ProviderAppRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventApp, Subject: r.Provider, By: by}
}

// Snapshot has the secrets only by their names.
func (r *ProviderAppRow) Snapshot() any {
	if r == nil {
		return nil
	}
	return namedSecrets(r.ProviderApp)
}

// namedSecrets is a registration whose secrets are a list also when there are none.
func namedSecrets(app action.ProviderApp) action.ProviderApp {
	if app.Secrets == nil {
		app.Secrets = []string{}
	}
	return app
}

// ListProviderApps returns the organization's registrations at services, by
// provider, without their secrets.
func (st *Store) ListProviderApps(ctx context.Context, organization string) ([]action.ProviderApp, error) {
	apps, err := database.List[action.ProviderApp](ctx, database.RowsOf[ProviderAppRow](st.db.Read, organization).ExcludeColumn("sealed").Order("provider"))
	for i := range apps {
		apps[i] = namedSecrets(apps[i])
	}
	return apps, err
}

// ProviderApp returns one registration with its secrets; ErrNotFound.
func (st *Store) ProviderApp(ctx context.Context, organization, provider string) (action.ProviderApp, error) {
	app, err := database.One[action.ProviderApp](ctx, providerAppQuery(st.db.Read, organization, provider), providerAppNotFound(provider))
	return namedSecrets(app), err
}

// PutProviderApp writes a registration, or replaces it, its secrets too.
func (st *Store) PutProviderApp(ctx context.Context, app action.ProviderApp, by string) error {
	if err := app.Check(); err != nil {
		return err
	}
	app.Secrets = slices.Sorted(slices.Values(app.Secrets))
	if len(app.Keys) == 0 {
		app.Keys = nil
	}
	app.UpdatedBy, app.UpdatedAt = by, database.NewTimestamp(st.db.Now()).Time
	r := &ProviderAppRow{ProviderApp: app}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := database.Optional[ProviderAppRow](ctx, providerAppQuery(tx, r.Organization, r.Provider))
		if err != nil {
			return err
		}
		if old == nil {
			return st.history.Create(ctx, tx, r, by, 0)
		}
		// It is recorded also when nothing differs: nobody sees whether a secret does.
		if _, err := tx.NewUpdate().Model(r).WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("writing the registration at %s: %w", r.Provider, err)
		}
		return st.history.RecordChange(ctx, tx, r.Event(by), old.Snapshot(), r.Snapshot())
	})
}

// DeleteProviderApp removes a registration; ErrNotFound, or ErrConflict while
// an integration needs it.
func (st *Store) DeleteProviderApp(ctx context.Context, organization, provider, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := database.One[ProviderAppRow](ctx, providerAppQuery(tx, organization, provider), providerAppNotFound(provider))
		if err != nil {
			return err
		}
		n, err := old.Users(tx).Count(ctx)
		if err != nil {
			return fmt.Errorf("counting the integrations of %s: %w", provider, err)
		}
		if n > 0 {
			return action.NewError("provider_app_in_use", n)
		}
		return st.history.Remove(ctx, tx, &old, by)
	})
}

// Users selects the integrations whose tokens the registration gets: as their
// broker's, or as their service's.
func (r *ProviderAppRow) Users(db bun.IDB) *bun.SelectQuery {
	q := db.NewSelect().Table("integrations").Where("organization_id = ?", r.Organization).Where("status <> 'deleted'")
	if r.Provider == string(action.BrokerNango) {
		return q.Where("broker = ?", r.Provider)
	}
	return q.Where("provider = ?", r.Provider).Where("broker IS NULL").Where("kind IN ('oauth2', 'app_installation')")
}

func providerAppQuery(db bun.IDB, organization, provider string) *bun.SelectQuery {
	return database.RowsOf[ProviderAppRow](db, organization).Where("provider = ?", provider)
}

func providerAppNotFound(provider string) error {
	return action.NewError("provider_app_not_found", provider)
}
