package dashboard

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// Sources keeps connectors, secrets and integrations. Nothing here returns a
// secret or credential.
type Sources interface {
	// Remote MCP servers. Whatever changes one takes who did it.

	// CreateConnector writes a connector, with its secret when there is one:
	// both or neither. ErrConflict when the name or slug is taken, or when a
	// connector of another host uses the secret's key.
	CreateConnector(ctx context.Context, c action.Connector, secret *action.SealedSecret, by string) error
	ListConnectors(ctx context.Context, organization string) ([]action.Connector, error)
	// UpdateConnector replaces the row of c.ID in the same way; ErrNotFound,
	// ErrConflict.
	UpdateConnector(ctx context.Context, c action.Connector, secret *action.SealedSecret, by string) error
	// DeleteConnector returns the calls that it withdrew; ErrNotFound.
	DeleteConnector(ctx context.Context, organization, id, by string) ([]action.Invocation, error)

	// Sealed secrets.
	PutSecret(ctx context.Context, s action.Secret, sealed []byte) error
	ListSecrets(ctx context.Context, organization string) ([]action.Secret, error)
	// DeleteSecret returns ErrNotFound, or ErrConflict while a connector uses it.
	DeleteSecret(ctx context.Context, organization, key string) error

	// Integrations, and the gateway's registrations at services. A viewer is a
	// user's id: what is private to others does not exist for that user.

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

// Connectors asks connectors what they are like now, and has people sign in to
// their authorization servers.
type Connectors interface {
	// State tells what is known of a saved connector, from the cache.
	State(ctx context.Context, c action.Connector) ConnectorState
	// Probe asks the server of c now, saved or not. A server that cannot be
	// reached or answers badly is a state with an Error, and no error.
	Probe(ctx context.Context, c action.Connector) (ConnectorState, error)
	// Try is Probe of a connector that is not saved, with a secret that is not
	// either: it is forgotten with the answer.
	Try(ctx context.Context, c action.Connector, secret string) (ConnectorState, error)

	// Sign-ins.

	// BeginSignIn returns where a person's browser goes to sign in, and the
	// authorization server whose that is.
	BeginSignIn(ctx context.Context, c action.Connector, by string) (authorizeURL, issuer string, err error)
	// FinishSignIn takes what the browser came back with, of the same person, and
	// returns the connector's id. A state of no sign-in: code "no_such_sign_in".
	FinishSignIn(ctx context.Context, organization, by, state, code, iss, problem string) (connector string, err error)
	// Disconnect revokes the tokens, where that can be, and forgets them;
	// ErrNotFound without any.
	Disconnect(ctx context.Context, c action.Connector, by string) error
	// Grant returns what may be said of the tokens; ErrNotFound without any.
	Grant(ctx context.Context, organization, connector string) (action.OAuthGrant, error)
	// Grants returns those of all connectors of an organization that have any.
	Grants(ctx context.Context, organization string) ([]action.OAuthGrant, error)
	// ClientMetadata is the document that describes the gateway to
	// authorization servers, in JSON. Nil: there is none.
	ClientMetadata() []byte
}

// ConnectorState is what the catalog knows of a connector.
type ConnectorState struct {
	// Tools are its tools, and beside them how its resources are read and its
	// prompts gotten, which are none; see [action.Action.Tool].
	Tools     []*action.Action
	Error     string         // why it cannot be listed, in words for an admin
	Diagnosis *api.Diagnosis // the same, for programs too; nil: it can
	Warnings  []string
	FetchedAt time.Time // of the list; zero: never
	Protocol  string    // the version of MCP that is spoken; empty: not known
	Steps     []Step    // of the last time that it was asked; nil: not known

	Resources, Templates, Prompts int // that it lists

	RetryAt     time.Time // it is asked again by itself then; zero: it did not fail
	CircuitOpen bool      // until then its calls fail at once
}

// DiagnosisConcerns tells which field of a connector a fault is about.
func DiagnosisConcerns(d *api.Diagnosis, c *action.Connector) string {
	switch d.Code {
	case "upstream_dns", "upstream_unreachable", "upstream_tls", "upstream_blocked", "upstream_timeout", "upstream_transport", "upstream_protocol", "upstream_config":
		return "/url"
	case "upstream_auth", "upstream_credential", "upstream_reconnect":
		if c.OAuth != nil {
			return "/oauth"
		}
		return "/secret_value"
	}
	return ""
}

// Step is a part of reaching a server.
type Step struct {
	Name   string        // dns, connect, tls, handshake, tools and so on
	Took   time.Duration // zero: it was not needed
	Detail string        // such as the version of TLS; may be empty
	Failed bool          // the server got no further
}

// Connections makes integrations and ends them.
type Connections interface {
	// Connect verifies a credential at its service and saves it: as a new
	// integration, or in the place of the account's old one.
	Connect(ctx context.Context, w action.ConnectRequest) (action.Integration, error)
	// Begin starts a connection that a person's browser finishes.
	Begin(ctx context.Context, w action.ConnectRequest) (action.ConnectStep, error)
	// Finish ends one with what came back, for the login that began it. Whoever
	// does not decide for the organization ends those of his own alone.
	Finish(ctx context.Context, organization, by, login string, decides bool, a action.ConnectCallback) (action.Integration, error)
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
