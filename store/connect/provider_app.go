package connect

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// ProviderAppRow is a row of the table provider_apps.
type ProviderAppRow struct {
	bun.BaseModel `bun:"table:provider_apps"`
	action.ProviderApp
}

// Event implements [history.Recorded].
func (r *ProviderAppRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventApp, Subject: r.Provider, By: by}
}

// Snapshot implements [history.Recorded]. It contains only the names of secrets.
func (r *ProviderAppRow) Snapshot() any {
	if r == nil {
		return nil
	}
	return namedSecrets(r.ProviderApp)
}

// namedSecrets encodes missing secrets as an empty list.
func namedSecrets(app action.ProviderApp) action.ProviderApp {
	if app.Secrets == nil {
		app.Secrets = []string{}
	}
	return app
}

// ListProviderApps returns the app registrations of an organization, by provider,
// without their secrets.
func (st *Store) ListProviderApps(ctx context.Context, organization string) ([]action.ProviderApp, error) {
	apps, err := database.List[action.ProviderApp](ctx, database.RowsOf[ProviderAppRow](st.db.Read, organization).ExcludeColumn("sealed").Order("provider"))
	for i := range apps {
		apps[i] = namedSecrets(apps[i])
	}
	return apps, err
}

// ProviderApp returns an app registration with its secrets; ErrNotFound.
func (st *Store) ProviderApp(ctx context.Context, organization, provider string) (action.ProviderApp, error) {
	app, err := database.One[action.ProviderApp](ctx, providerAppQuery(st.db.Read, organization, provider), providerAppNotFound(provider))
	return namedSecrets(app), err
}

// PutProviderApp creates or replaces an app registration with its secrets.
func (st *Store) PutProviderApp(ctx context.Context, app action.ProviderApp, by string) error {
	if err := app.Check(); err != nil {
		return err
	}
	app.Secrets = slices.Sorted(slices.Values(app.Secrets))
	if len(app.Keys) == 0 {
		app.Keys = nil
	}
	r := &ProviderAppRow{ProviderApp: app}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := database.Optional[ProviderAppRow](ctx, providerAppQuery(tx, r.Organization, r.Provider))
		if err != nil {
			return err
		}
		// The snapshots do not show whether a secret changed.
		return history.Replace(ctx, st.history, tx, old, r, by)
	})
}

// DeleteProviderApp removes an app registration; ErrNotFound, or ErrConflict while an
// integration uses it.
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

// Users selects the integrations that obtain their tokens with the registration, from a
// broker or from the service itself.
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
