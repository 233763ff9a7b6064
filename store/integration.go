package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type integrationRow struct {
	bun.BaseModel `bun:"table:integrations"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Provider     string `bun:"provider"`
	Kind         string `bun:"kind"`
	Broker       opt    `bun:"broker"`
	Account      string `bun:"account"`
	AccountName  opt    `bun:"account_name"`
	Name         string `bun:"name"`
	User         opt    `bun:"user_id"`
	Visibility   string `bun:"visibility"`
	Holder       string `bun:"holder"` // action.Integration.Owner
	BaseURL      opt    `bun:"base_url"`
	Settings     opt    `bun:"settings"`
	Timeout      int    `bun:"timeout_seconds"`
	Status       string `bun:"status"`
	Reason       opt    `bun:"reason"`
	ExpiresAt    stamp  `bun:"expires_at"`
	Revision     int64  `bun:"revision"`
	Version      int64  `bun:"version"`
	Sealed       []byte `bun:"sealed"`
	CreatedBy    string `bun:"created_by"`
	CreatedAt    stamp  `bun:"created_at"`
	UpdatedAt    stamp  `bun:"updated_at"`

	Scopes asJSON[[]string] `bun:"scopes"`
}

func (r *integrationRow) integration() action.Integration {
	in := action.Integration{
		ID: r.ID, Organization: r.Organization, Provider: r.Provider, Kind: action.IntegrationKind(r.Kind), Broker: action.Broker(r.Broker),
		Account: r.Account, AccountName: string(r.AccountName), Name: r.Name, User: string(r.User), Visibility: action.Visibility(r.Visibility),
		BaseURL: string(r.BaseURL), Scopes: r.Scopes.v, TimeoutSeconds: r.Timeout, Status: action.IntegrationStatus(r.Status), Reason: string(r.Reason),
		ExpiresAt: r.ExpiresAt.ptr(), Revision: r.Revision, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.t, UpdatedAt: r.UpdatedAt.t,
		Version: r.Version, Sealed: r.Sealed,
	}
	if r.Settings != "" {
		in.Settings = json.RawMessage(r.Settings)
	}
	return in
}

// newIntegrationRow is that of an active integration as it is first written.
func newIntegrationRow(in *action.Integration, now stamp) *integrationRow {
	r := &integrationRow{
		ID: in.ID, Organization: in.Organization, Provider: in.Provider, Kind: string(in.Kind), Broker: opt(in.Broker),
		Account: in.Account, AccountName: opt(in.AccountName), Name: in.Name, User: opt(in.User), Visibility: string(in.Visibility),
		Holder: in.Owner(), BaseURL: opt(in.BaseURL), Settings: opt(in.Settings), Timeout: in.TimeoutSeconds,
		Status: string(action.IntegrationActive), ExpiresAt: atPtr(in.ExpiresAt), Revision: 1, Version: in.Version + 1, Sealed: in.Sealed,
		CreatedBy: in.CreatedBy, CreatedAt: at(in.CreatedAt).or(now), UpdatedAt: now,
	}
	r.Scopes.v = in.Scopes
	return r
}

// shown is the integration without its credential.
func (r *integrationRow) shown() action.Integration {
	in := r.integration()
	in.Sealed = nil
	return in
}

// told is what history says of an integration. All members read that: of one
// that is not everybody's they learn only that it is there.
func (r *integrationRow) told() any {
	switch {
	case r == nil:
		return nil
	case r.Holder == "":
		return r.shown()
	}
	return struct {
		Provider   string `json:"provider"`
		Kind       string `json:"kind"`
		Status     string `json:"status"`
		Visibility string `json:"visibility"`
	}{r.Provider, r.Kind, r.Status, r.Visibility}
}

// differs reports whether a call would do something else than before.
func (r *integrationRow) differs(old *integrationRow) bool {
	return r.Kind != old.Kind || r.Broker != old.Broker || r.BaseURL != old.BaseURL || r.Account != old.Account ||
		r.Settings != old.Settings || r.Timeout != old.Timeout
}

// integrationChanged records a change that matters to decisions, and has those
// who rest on it read it again.
func (db *DB) integrationChanged(ctx context.Context, tx bun.Tx, old, r *integrationRow, by string) error {
	e := action.PolicyEvent{Organization: r.Organization, Kind: action.EventIntegration, Subject: r.ID, By: by}
	if err := db.policyChanged(ctx, tx, e, old.told(), r.told()); err != nil {
		return err
	}
	return catalogMoved(ctx, tx, r.Organization)
}

// Integrations returns all of an organization's that are not deleted, the
// private ones of its people too, in the order in which they were first made:
// for the catalog and for policy.
func (db *DB) Integrations(ctx context.Context, organization string) ([]action.Integration, error) {
	return listIntegrations(ctx, liveIntegrations(db.read, organization))
}

// liveIntegrations selects those that are not deleted, without credentials.
func liveIntegrations(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Model((*integrationRow)(nil)).ExcludeColumn("sealed").
		Where("organization_id = ?", organization).Where("status <> 'deleted'").Order("created_at", "id")
}

// visibleIntegrations selects those of them that a user may see.
func visibleIntegrations(db bun.IDB, organization, viewer string) *bun.SelectQuery {
	return liveIntegrations(db, organization).Where("holder IN ('', ?)", viewer)
}

func listIntegrations(ctx context.Context, q *bun.SelectQuery) ([]action.Integration, error) {
	var rows []integrationRow
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing integrations: %w", err)
	}
	list := make([]action.Integration, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].integration())
	}
	return list, nil
}

// IntegrationOf returns the integration of an account at a provider, a deleted
// one too, with its credential; ErrNotFound. Holder is its Owner, and own tells
// whether it is a user connection.
func (db *DB) IntegrationOf(ctx context.Context, organization, provider, holder, account string, own bool) (action.Integration, error) {
	r, err := findIntegration(ctx, integrationOf(db.read, organization, provider, holder, account, own))
	if err == nil && r == nil {
		err = noIntegration()
	}
	if err != nil {
		return action.Integration{}, err
	}
	return r.integration(), nil
}

func integrationOf(db bun.IDB, organization, provider, holder, account string, own bool) *bun.SelectQuery {
	q := db.NewSelect().Model((*integrationRow)(nil)).Where("organization_id = ?", organization).Where("provider = ?", provider).
		Where("holder = ?", holder).Where("account = ?", account)
	if own {
		return q.Where("user_id IS NOT NULL")
	}
	return q.Where("user_id IS NULL")
}

// IntegrationCredential returns an integration with its credential;
// ErrNotFound, also when it is deleted.
func (db *DB) IntegrationCredential(ctx context.Context, organization, id string) (action.Integration, error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	r, err := integrationRowOf(ctx, db.read, organization, id)
	if err != nil {
		return action.Integration{}, err
	}
	return r.integration(), nil
}

// integrationRowOf reads one that is not deleted; ErrNotFound.
func integrationRowOf(ctx context.Context, db bun.IDB, organization, id string) (*integrationRow, error) {
	r, err := anyIntegration(ctx, db, organization, id)
	if err == nil && (r == nil || r.Status == string(action.IntegrationDeleted)) {
		err = noIntegration()
	}
	return r, err
}

// anyIntegration reads one, deleted or not; nil when there is none.
func anyIntegration(ctx context.Context, db bun.IDB, organization, id string) (*integrationRow, error) {
	return findIntegration(ctx, db.NewSelect().Model((*integrationRow)(nil)).Where("id = ?", id).Where("organization_id = ?", organization))
}

// findIntegration returns the row that a query finds; nil when it finds none.
func findIntegration(ctx context.Context, q *bun.SelectQuery) (*integrationRow, error) {
	r := &integrationRow{}
	err := q.Scan(ctx, r)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading an integration: %w", err)
	}
	return r, nil
}

func noIntegration() error {
	return action.Errorf(action.ErrNotFound, "integration_not_found", "There is no such integration; list the integrations to see which there are.")
}
