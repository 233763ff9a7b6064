package dashboard

import (
	"context"
	"encoding/json"
	"net/url"

	"sallyport/action"
)

// Integrations keeps integrations, and the gateway's registrations at services.
// Nothing here returns a credential. A viewer is a user's id: what is private to
// others is not there for him.
type Integrations interface {
	// ListIntegrations returns those that are not deleted, by provider and name.
	ListIntegrations(ctx context.Context, organization, viewer string) ([]action.Integration, error)
	// Integration returns one, ErrNotFound.
	Integration(ctx context.Context, organization, id, viewer string) (action.Integration, error)
	// ChangeIntegration writes Name, Visibility, Settings and TimeoutSeconds of
	// the row of in.ID. The revision counts up when a call would do something
	// else than before. ErrNotFound.
	ChangeIntegration(ctx context.Context, in action.Integration, by string) (action.Integration, error)

	// Bindings returns the ids that an automation's sessions are bound to.
	Bindings(ctx context.Context, organization, automation string) ([]string, error)
	// SetBindings replaces them. ErrInvalid names one that by may not bind.
	SetBindings(ctx context.Context, organization, automation string, ids []string, by string) error

	ListProviderApps(ctx context.Context, organization string) ([]action.ProviderApp, error)
	// PutProviderApp replaces one, whose secrets are sealed.
	PutProviderApp(ctx context.Context, app action.ProviderApp, by string) error
	// DeleteProviderApp returns ErrNotFound, or ErrConflict while an integration
	// needs it.
	DeleteProviderApp(ctx context.Context, organization, provider, by string) error
}

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
