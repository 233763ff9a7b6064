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

// Provider is a service that the gateway has a module for.
type Provider struct {
	ID       string           `json:"id" example:"linear"`
	Title    string           `json:"title" example:"Linear"`
	About    string           `json:"about"`
	Guide    string           `json:"guide" doc:"Markdown, for agents."`
	BaseURL  string           `json:"base_url,omitempty" doc:"Of its API, where an integration names none."`
	Needs    []ProviderNeed   `json:"needs" doc:"How to connect, the best way first."`
	Settings json.RawMessage  `json:"settings_schema,omitempty" doc:"JSON Schema of an integration's settings."`
	Actions  []ProviderAction `json:"actions"`
	Metadata bool             `json:"metadata" doc:"Whether there is metadata for forms."`
	Many     bool             `json:"many" doc:"Whether one session may be bound to several integrations of it."`

	// CheckSettings tells whether settings fit the schema; ErrInvalid with a
	// field below /settings. Nil: they are not looked at.
	CheckSettings func(settings json.RawMessage) error `json:"-"`
}

// ProviderNeed is a way to connect to a service.
type ProviderNeed struct {
	Kind   action.IntegrationKind `json:"kind" enum:"api_key,bot_token,oauth2,app_installation,none"`
	Users  bool                   `json:"users" doc:"Whether people may connect so in their own name."`
	App    bool                   `json:"app" doc:"Whether the gateway must be registered at the service first."`
	Scopes []string               `json:"scopes,omitempty"`
	Hint   string                 `json:"hint,omitempty"`
}

// ProviderAction is one action of a module.
type ProviderAction struct {
	Name        string          `json:"name" example:"create_issue"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Risk        action.Risk     `json:"risk" enum:"read,write,danger"`
	Level       action.Level    `json:"level"`
	Idempotent  bool            `json:"idempotent"`
	Input       json.RawMessage `json:"input_schema"`
}
