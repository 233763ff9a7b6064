package inbound

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/store/database"
)

// maxEndpointURL limits the length of an endpoint URL in bytes.
const maxEndpointURL = 2000

type endpointRow struct {
	bun.BaseModel `bun:"table:run_endpoints"`

	Organization string             `bun:"organization_id,pk"`
	URL          string             `bun:"url"`
	Enabled      bool               `bun:"enabled"`
	UpdatedBy    string             `bun:"updated_by"`
	UpdatedAt    database.Timestamp `bun:"updated_at"`
}

func (r *endpointRow) endpoint() event.Endpoint {
	return event.Endpoint{Organization: r.Organization, URL: r.URL, Enabled: r.Enabled, UpdatedBy: r.UpdatedBy, UpdatedAt: r.UpdatedAt.Time}
}

// snapshot returns what history events hold of an endpoint.
func (r *endpointRow) snapshot() any {
	if r == nil {
		return nil
	}
	return struct {
		URL     string `json:"url"`
		Enabled bool   `json:"enabled"`
	}{r.URL, r.Enabled}
}

func (r *endpointRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventEndpoint, Subject: EndpointOwner, By: by}
}

// RunEndpoint returns the endpoint for an organization's runs with its
// unexpired secrets; ErrNotFound if the organization has none.
func (st *Store) RunEndpoint(ctx context.Context, organization string) (event.Endpoint, error) {
	return st.endpointWithSecrets(ctx, st.db.Read, organization)
}

func (st *Store) endpointWithSecrets(ctx context.Context, db bun.IDB, organization string) (event.Endpoint, error) {
	r, err := ReadEndpoint(ctx, db, organization)
	if err != nil {
		return event.Endpoint{}, err
	}
	e := r.endpoint()
	e.Secrets, err = st.Secrets(ctx, db, organization, EndpointOwner)
	return e, err
}

// ReadEndpoint reads an organization's endpoint; ErrNotFound.
func ReadEndpoint(ctx context.Context, db bun.IDB, organization string) (*endpointRow, error) {
	r := &endpointRow{Organization: organization}
	err := db.NewSelect().Model(r).WherePK().Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.NewError("endpoint_not_found")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the endpoint for runs: %w", err)
	}
	return r, nil
}

// SetRunEndpoint writes URL, Enabled and UpdatedBy, adds the secret if there is
// one, and returns the endpoint with its unexpired secrets.
func (st *Store) SetRunEndpoint(ctx context.Context, e event.Endpoint, secret *event.Secret) (event.Endpoint, error) {
	r := &endpointRow{Organization: e.Organization, URL: e.URL, Enabled: e.Enabled, UpdatedBy: e.UpdatedBy, UpdatedAt: database.NewTimestamp(st.db.Now())}
	if err := r.check(); err != nil {
		return event.Endpoint{}, err
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := ReadEndpoint(ctx, tx, r.Organization)
		if err != nil && !errors.Is(err, action.ErrNotFound) {
			return err
		}
		_, err = tx.NewInsert().Model(r).On("CONFLICT (organization_id) DO UPDATE").
			Set("url = EXCLUDED.url, enabled = EXCLUDED.enabled, updated_by = EXCLUDED.updated_by, updated_at = EXCLUDED.updated_at").Exec(ctx)
		if err != nil {
			return fmt.Errorf("writing the endpoint for runs: %w", err)
		}
		if secret != nil {
			if err := st.AddSecret(ctx, tx, r.Organization, EndpointOwner, *secret); err != nil {
				return err
			}
		}
		if err := st.history.RecordChange(ctx, tx, r.event(r.UpdatedBy), old.snapshot(), r.snapshot()); err != nil {
			return err
		}
		e, err = st.endpointWithSecrets(ctx, tx, r.Organization)
		return err
	})
	if err != nil {
		return event.Endpoint{}, err
	}
	return e, nil
}

func (r *endpointRow) check() error {
	switch {
	case r.UpdatedBy == "":
		return errors.New("setting an endpoint needs the person who does it")
	case len(r.URL) > maxEndpointURL || !action.AbsoluteURL(r.URL):
		return database.Invalid("/url", fmt.Sprintf("An endpoint is an absolute http or https URL of at most %d bytes without user and fragment.", maxEndpointURL))
	case action.Unencrypted(r.URL):
		return database.Invalid("/url", "An endpoint is https, or http on this machine: what is delivered holds the token of a session, which others could read.")
	case redact.JSON{}.RedactText(r.URL, nil) != r.URL:
		return database.Invalid("/url", "This URL holds what looks like a credential, and people read it; leave that out: what is sent is signed.")
	}
	return nil
}

// DeleteRunEndpoint deletes an organization's endpoint and its secrets. Queued
// runs then wait for a pull worker. ErrNotFound.
func (st *Store) DeleteRunEndpoint(ctx context.Context, organization, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := ReadEndpoint(ctx, tx, organization)
		if err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model(r).WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("deleting the endpoint for runs: %w", err)
		}
		if err := DeleteSecrets(ctx, tx, organization, EndpointOwner); err != nil {
			return err
		}
		return st.history.RecordChange(ctx, tx, r.event(by), r.snapshot(), nil)
	})
}
