package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/store/database"
	"sallyport/store/history"
)

// maxEndpointURL limits the length of an endpoint URL in bytes.
const maxEndpointURL = 2000

// EndpointRow is a row of the table run_endpoints.
type EndpointRow struct {
	bun.BaseModel `bun:"table:run_endpoints"`
	event.Endpoint
}

// Event implements [history.Recorded].
func (r *EndpointRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventEndpoint, Subject: EndpointOwner, By: by}
}

// Snapshot implements [history.Recorded].
func (r *EndpointRow) Snapshot() any {
	return struct {
		URL     string `json:"url"`
		Enabled bool   `json:"enabled"`
	}{r.URL, r.Enabled}
}

// RunEndpoint returns the endpoint for an organization's runs with its
// unexpired secrets; ErrNotFound if the organization has none.
func (st *Store) RunEndpoint(ctx context.Context, organization string) (event.Endpoint, error) {
	return st.endpointWithSecrets(ctx, st.db.Read, organization)
}

func (st *Store) endpointWithSecrets(ctx context.Context, db bun.IDB, organization string) (event.Endpoint, error) {
	r, err := ReadEndpoint(ctx, db, organization)
	if err == nil {
		r.Secrets, err = st.Secrets(ctx, db, organization, EndpointOwner)
	}
	return r.Endpoint, err
}

// ReadEndpoint reads an organization's endpoint; ErrNotFound.
func ReadEndpoint(ctx context.Context, db bun.IDB, organization string) (EndpointRow, error) {
	return database.One[EndpointRow](ctx, database.RowsOf[EndpointRow](db, organization), action.NewError("endpoint_not_found"))
}

// SetRunEndpoint writes URL, Enabled and UpdatedBy, adds the secret if there is
// one, and returns the endpoint with its unexpired secrets.
func (st *Store) SetRunEndpoint(ctx context.Context, e event.Endpoint, secret *event.Secret) (event.Endpoint, error) {
	r := &EndpointRow{Endpoint: e}
	if err := r.check(); err != nil {
		return event.Endpoint{}, err
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := database.Optional[EndpointRow](ctx, database.RowsOf[EndpointRow](tx, r.Organization))
		if err != nil {
			return err
		}
		if err := history.Replace(ctx, st.history, tx, old, r, r.UpdatedBy); err != nil {
			return err
		}
		if secret != nil {
			if err := st.AddSecret(ctx, tx, r.Organization, EndpointOwner, *secret); err != nil {
				return err
			}
		}
		e, err = st.endpointWithSecrets(ctx, tx, r.Organization)
		return err
	})
	if err != nil {
		return event.Endpoint{}, err
	}
	return e, nil
}

func (r *EndpointRow) check() error {
	switch {
	case r.UpdatedBy == "":
		return errors.New("setting an endpoint needs a person")
	case len(r.URL) > maxEndpointURL || !action.AbsoluteURL(r.URL):
		return database.Invalid("/url", fmt.Sprintf("An endpoint must be an absolute http or https URL of at most %d bytes without user and fragment.", maxEndpointURL))
	case action.Unencrypted(r.URL):
		return database.Invalid("/url", "An endpoint must use https, or http on this machine, because a delivery contains a session token that others could read.")
	case redact.JSON{}.RedactText(r.URL, nil) != r.URL:
		return database.Invalid("/url", "This URL seems to contain a credential, which people could read. Leave it out: requests are signed.")
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
		if err := DeleteSecrets(ctx, tx, organization, EndpointOwner); err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, &r, by)
	})
}
