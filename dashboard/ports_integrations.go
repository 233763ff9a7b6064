package dashboard

import (
	"context"
	"encoding/json"
	"net/url"

	"sallyport/action"
)

// Connections makes integrations and ends them.
type Connections interface {
	// Connect verifies a credential at its service and saves it: as a new
	// integration, or in the place of the account's old one.
	Connect(ctx context.Context, w action.Wanted) (action.Integration, error)
	// Begin starts a connection that a person's browser finishes.
	Begin(ctx context.Context, w action.Wanted) (action.ConnectStep, error)
	// Finish ends one with what came back, for the login that began it. Whoever
	// does not decide for the organization ends those of his own alone.
	Finish(ctx context.Context, organization, by, login string, decides bool, a action.ConnectAnswer) (action.Integration, error)
	// Check asks the service whether the credential is good, and keeps what it
	// says.
	Check(ctx context.Context, in action.Integration) (action.Integration, error)
	// Unusable says why no token can be had for an integration until a person
	// does something; empty: one can be had, or just now nobody knows.
	Unusable(ctx context.Context, in action.Integration) string
	// Disconnect ends an integration, and tells whether the service took the
	// credential back. That it did not is no error.
	Disconnect(ctx context.Context, in action.Integration, by string) (revoked bool, err error)
	// Metadata answers what forms need.
	Metadata(ctx context.Context, in action.Integration, q url.Values) (json.RawMessage, error)
	// SealApp seals the secrets of a registration.
	SealApp(app action.ProviderApp, secrets map[string]string) (action.ProviderApp, error)
}
