package store

import (
	"bytes"
	"context"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type integrationRow struct {
	bun.BaseModel `bun:"table:integrations"`
	action.Integration
	Holder string // its Owner, for queries
}

// newIntegrationRow is that of an active integration as it is first written.
func newIntegrationRow(in action.Integration, now stamp) *integrationRow {
	r := &integrationRow{Integration: in, Holder: in.Owner()}
	r.Status, r.Reason, r.Revision, r.Version = action.IntegrationActive, "", 1, in.Version+1
	r.ExpiresAt, r.CreatedAt, r.UpdatedAt = atPtr(in.ExpiresAt).ptr(), at(in.CreatedAt).or(now).t, now.t
	if len(r.Settings) == 0 {
		r.Settings = nil
	}
	if len(r.Scopes) == 0 {
		r.Scopes = nil
	}
	return r
}

// shown is the integration without its credential.
func (r *integrationRow) shown() action.Integration {
	in := r.Integration
	in.Sealed = nil
	return in
}

func (r *integrationRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventIntegration, Subject: r.ID, By: by}
}

// snapshot is read by all members: of an integration that not everybody may see
// it shows only that there is one.
func (r *integrationRow) snapshot() any {
	switch {
	case r == nil:
		return nil
	case r.Owner() == "":
		return r.shown()
	}
	return struct {
		Provider   string                   `json:"provider"`
		Kind       action.IntegrationKind   `json:"kind"`
		Status     action.IntegrationStatus `json:"status"`
		Visibility action.Visibility        `json:"visibility"`
	}{r.Provider, r.Kind, r.Status, r.Visibility}
}

// differs reports whether a call would do something else than before.
func (r *integrationRow) differs(old *integrationRow) bool {
	return r.Kind != old.Kind || r.Broker != old.Broker || r.BaseURL != old.BaseURL || r.Account != old.Account ||
		!bytes.Equal(r.Settings, old.Settings) || r.TimeoutSeconds != old.TimeoutSeconds
}

// integrationChanged records a change that matters to decisions, and has those
// who rest on it read it again.
func (db *DB) integrationChanged(ctx context.Context, tx bun.Tx, old, r *integrationRow, by string) error {
	if err := db.policyChanged(ctx, tx, r.event(by), old.snapshot(), r.snapshot()); err != nil {
		return err
	}
	return catalogMoved(ctx, tx, r.Organization)
}

// Integrations returns all of an organization's that are not deleted, the
// private ones of its people too, in the order in which they were first made:
// for the catalog and for policy.
func (db *DB) Integrations(ctx context.Context, organization string) ([]action.Integration, error) {
	return list[action.Integration](ctx, liveIntegrations(db.read, organization))
}

// liveIntegrations selects those that are not deleted, without credentials.
func liveIntegrations(db bun.IDB, organization string) *bun.SelectQuery {
	return rowsOf[integrationRow](db, organization).ExcludeColumn("sealed", "holder").Where("status <> 'deleted'").Order("created_at", "id")
}

// visibleIntegrations selects those of them that a user may see.
func visibleIntegrations(db bun.IDB, organization, viewer string) *bun.SelectQuery {
	return liveIntegrations(db, organization).Where("holder IN ('', ?)", viewer)
}

// IntegrationOf returns the integration of an account at a provider, a deleted
// one too, with its credential; ErrNotFound. Holder is its Owner, and own tells
// whether it is a user connection.
func (db *DB) IntegrationOf(ctx context.Context, organization, provider, holder, account string, own bool) (action.Integration, error) {
	return one[action.Integration](ctx, integrationOf(db.read, organization, provider, holder, account, own), noIntegration())
}

func integrationOf(db bun.IDB, organization, provider, holder, account string, own bool) *bun.SelectQuery {
	q := rowsOf[integrationRow](db, organization).ExcludeColumn("holder").Where("provider = ?", provider).
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
	return r.Integration, nil
}

// integrationRowOf reads one that is not deleted; ErrNotFound.
func integrationRowOf(ctx context.Context, db bun.IDB, organization, id string) (*integrationRow, error) {
	r, err := anyIntegration(ctx, db, organization, id)
	if err == nil && (r == nil || r.Status == action.IntegrationDeleted) {
		err = noIntegration()
	}
	return r, err
}

// anyIntegration reads one, deleted or not; nil when there is none.
func anyIntegration(ctx context.Context, db bun.IDB, organization, id string) (*integrationRow, error) {
	return optional[integrationRow](ctx, rowsOf[integrationRow](db, organization).Where("id = ?", id))
}

func noIntegration() error {
	return action.NewError("integration_not_found")
}
