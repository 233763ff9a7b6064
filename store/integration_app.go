package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type providerAppRow struct {
	bun.BaseModel `bun:"table:provider_apps"`

	Organization string `bun:"organization_id,pk"`
	Provider     string `bun:"provider,pk"`
	ClientID     opt    `bun:"client_id"`
	Slug         opt    `bun:"slug"`
	AppID        opt    `bun:"app_id"`
	BaseURL      opt    `bun:"base_url"`
	Sealed       []byte `bun:"sealed"`
	UpdatedBy    string `bun:"updated_by"`
	UpdatedAt    stamp  `bun:"updated_at"`

	Keys    asJSON[map[string]string] `bun:"keys"`
	Secrets asJSON[[]string]          `bun:"secrets"`
}

func (r *providerAppRow) app() action.ProviderApp {
	return action.ProviderApp{
		Organization: r.Organization, Provider: r.Provider, ClientID: string(r.ClientID), Slug: string(r.Slug), AppID: string(r.AppID),
		BaseURL: string(r.BaseURL), Keys: r.Keys.v, Secrets: append([]string{}, r.Secrets.v...), UpdatedBy: r.UpdatedBy, UpdatedAt: r.UpdatedAt.t,
		Sealed: r.Sealed,
	}
}

// told is what history says of a registration: the secrets only by their names.
func (r *providerAppRow) told() any {
	if r == nil {
		return nil
	}
	return r.app()
}

func (r *providerAppRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventApp, Subject: r.Provider, By: by}
}

// ListProviderApps returns the organization's registrations at services, by
// provider, without their secrets.
func (db *DB) ListProviderApps(ctx context.Context, organization string) ([]action.ProviderApp, error) {
	var rows []providerAppRow
	err := db.read.NewSelect().Model(&rows).ExcludeColumn("sealed").Where("organization_id = ?", organization).Order("provider").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing registrations at services: %w", err)
	}
	list := make([]action.ProviderApp, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].app())
	}
	return list, nil
}

// ProviderApp returns one registration with its secrets; ErrNotFound.
func (db *DB) ProviderApp(ctx context.Context, organization, provider string) (action.ProviderApp, error) {
	r, err := providerAppOf(ctx, db.read, organization, provider)
	if err == nil && r == nil {
		err = noProviderApp(provider)
	}
	if err != nil {
		return action.ProviderApp{}, err
	}
	return r.app(), nil
}

// PutProviderApp writes a registration, or replaces it, its secrets too.
func (db *DB) PutProviderApp(ctx context.Context, app action.ProviderApp, by string) error {
	if err := app.Check(); err != nil {
		return err
	}
	r := &providerAppRow{
		Organization: app.Organization, Provider: app.Provider, ClientID: opt(app.ClientID), Slug: opt(app.Slug), AppID: opt(app.AppID),
		BaseURL: opt(app.BaseURL), Sealed: app.Sealed, UpdatedBy: by, UpdatedAt: at(db.now()),
	}
	r.Keys.v, r.Secrets.v = app.Keys, slices.Sorted(slices.Values(app.Secrets))
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := providerAppOf(ctx, tx, r.Organization, r.Provider)
		if err != nil {
			return err
		}
		if old == nil {
			_, err = tx.NewInsert().Model(r).Exec(ctx)
		} else {
			_, err = tx.NewUpdate().Model(r).WherePK().Exec(ctx)
		}
		if err != nil {
			return fmt.Errorf("writing the registration at %s: %w", r.Provider, err)
		}
		return db.recordChange(ctx, tx, r.event(by), old.told(), r.told())
	})
}

// DeleteProviderApp removes a registration; ErrNotFound, or ErrConflict while
// an integration needs it.
func (db *DB) DeleteProviderApp(ctx context.Context, organization, provider, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := providerAppOf(ctx, tx, organization, provider)
		if err == nil && old == nil {
			err = noProviderApp(provider)
		}
		if err != nil {
			return err
		}
		n, err := old.users(tx).Count(ctx)
		if err != nil {
			return fmt.Errorf("counting the integrations of %s: %w", provider, err)
		}
		if n > 0 {
			return action.Errorf(action.ErrConflict, "provider_app_in_use",
				"%d integrations, private ones among them, get their tokens through this registration; disconnect them first.", n)
		}
		if _, err := tx.NewDelete().Model(old).WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("deleting the registration at %s: %w", provider, err)
		}
		return db.recordChange(ctx, tx, old.event(by), old.told(), nil)
	})
}

// users selects the integrations whose tokens the registration gets: as their
// broker's, or as their service's.
func (r *providerAppRow) users(db bun.IDB) *bun.SelectQuery {
	q := db.NewSelect().Table("integrations").Where("organization_id = ?", r.Organization).Where("status <> 'deleted'")
	if r.Provider == string(action.BrokerNango) {
		return q.Where("broker = ?", r.Provider)
	}
	return q.Where("provider = ?", r.Provider).Where("broker IS NULL").Where("kind IN ('oauth2', 'app_installation')")
}

// providerAppOf reads a registration; nil when there is none.
func providerAppOf(ctx context.Context, db bun.IDB, organization, provider string) (*providerAppRow, error) {
	r := &providerAppRow{Organization: organization, Provider: provider}
	err := db.NewSelect().Model(r).WherePK().Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the registration at %s: %w", provider, err)
	}
	return r, nil
}

func noProviderApp(provider string) error {
	return action.Errorf(action.ErrNotFound, "provider_app_not_found", "The gateway is not registered at %s yet; an admin does that first.", provider)
}
