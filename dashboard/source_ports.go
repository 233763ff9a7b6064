package dashboard

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// Sources stores connectors, secrets and integrations. No method returns a
// secret or credential.
type Sources interface {
	// Remote MCP servers. Methods that change one take the user who does it.

	// CreateConnector creates a connector and, if it is given, its secret in
	// one transaction. ErrConflict if the name or slug is taken, or if a
	// connector of another host uses the secret's key.
	CreateConnector(ctx context.Context, c action.Connector, secret *action.SealedSecret, by string) error
	ListConnectors(ctx context.Context, organization string) ([]action.Connector, error)
	// UpdateConnector replaces the row of c.ID in the same way. ErrNotFound,
	// ErrConflict.
	UpdateConnector(ctx context.Context, c action.Connector, secret *action.SealedSecret, by string) error
	// DeleteConnector returns the calls that it withdrew, or ErrNotFound.
	DeleteConnector(ctx context.Context, organization, id, by string) ([]action.Invocation, error)

	// Sealed secrets.
	PutSecret(ctx context.Context, s action.Secret, sealed []byte) error
	ListSecrets(ctx context.Context, organization string) ([]action.Secret, error)
	// DeleteSecret returns ErrNotFound, or ErrConflict while a connector uses it.
	DeleteSecret(ctx context.Context, organization, key string) error

	// Integrations, and the gateway's registrations at services. A viewer is a user
	// ID: private integrations of others do not exist for that user.

	// ListIntegrations returns the integrations that are not deleted, by
	// provider and name.
	ListIntegrations(ctx context.Context, organization, viewer string) ([]action.Integration, error)
	// Integration returns one, or ErrNotFound.
	Integration(ctx context.Context, organization, id, viewer string) (action.Integration, error)
	// ChangeIntegration updates Name, Visibility, Settings and TimeoutSeconds
	// of the row of in.ID. It increments the revision if the change affects
	// calls. ErrNotFound.
	ChangeIntegration(ctx context.Context, in action.Integration, by string) (action.Integration, error)

	// Bindings returns the IDs of the integrations that an automation's
	// sessions are bound to.
	Bindings(ctx context.Context, organization, automation string) ([]string, error)
	// SetBindings replaces them. ErrInvalid names an integration that the user
	// may not bind.
	SetBindings(ctx context.Context, organization, automation string, ids []string, by string) error

	ListProviderApps(ctx context.Context, organization string) ([]action.ProviderApp, error)
	// PutProviderApp creates or replaces a registration. Its secrets are sealed
	// already.
	PutProviderApp(ctx context.Context, app action.ProviderApp, by string) error
	// DeleteProviderApp returns ErrNotFound, or ErrConflict while an
	// integration uses it.
	DeleteProviderApp(ctx context.Context, organization, provider, by string) error
}

// Connectors queries the servers of connectors and signs people in to their
// authorization servers.
type Connectors interface {
	// State returns the cached state of a saved connector.
	State(ctx context.Context, c action.Connector) ConnectorState
	// Probe queries the server of c now, whether c is saved or not. If the
	// server is unreachable or its answer is invalid, it returns a state with
	// an Error and a nil error.
	Probe(ctx context.Context, c action.Connector) (ConnectorState, error)
	// Try is Probe for an unsaved connector with an unsaved secret, which is
	// not kept.
	Try(ctx context.Context, c action.Connector, secret string) (ConnectorState, error)

	// Sign-ins.

	// BeginSignIn returns the URL at which a person signs in, and its
	// authorization server.
	BeginSignIn(ctx context.Context, c action.Connector, by string) (authorizeURL, issuer string, err error)
	// FinishSignIn completes a sign-in of the same person with the parameters
	// of the callback, and returns the connector's ID. An unknown state returns
	// code "no_such_sign_in".
	FinishSignIn(ctx context.Context, organization, by, state, code, iss, problem string) (connector string, err error)
	// Disconnect revokes the tokens where the server supports it, and deletes
	// them. ErrNotFound without any.
	Disconnect(ctx context.Context, c action.Connector, by string) error
	// Grant describes the tokens of a connector. ErrNotFound without any.
	Grant(ctx context.Context, organization, connector string) (action.OAuthGrant, error)
	// Grants describes the tokens of all connectors of an organization.
	Grants(ctx context.Context, organization string) ([]action.OAuthGrant, error)
	// ClientMetadata returns the JSON document that describes the gateway to
	// authorization servers, or nil.
	ClientMetadata() []byte
}

// ConnectorState is the state of a connector in the catalog.
type ConnectorState struct {
	// Tools are the connector's tools, and the actions that read its resources
	// and get its prompts; see [action.Action.Tool].
	Tools     []*action.Action
	Error     string         // why the last listing failed, for an admin
	Diagnosis *api.Diagnosis // the same, machine-readable; nil without an error
	Warnings  []string
	FetchedAt time.Time // of the list; zero if it was never fetched
	Protocol  string    // version of MCP; empty if unknown
	Server    string    // name that the server gives itself; untrusted
	// SharedState says why agents should not share a session with the server;
	// empty: nothing suggests it, or each has its own.
	SharedState string
	Steps       []Step // of the last probe; nil if unknown

	Resources, Templates, Prompts int // numbers of listed ones

	RetryAt     time.Time // of the next automatic attempt; zero if the last did not fail
	CircuitOpen bool      // until RetryAt, calls fail at once
}

// DiagnosisConcerns returns the connector field that a diagnosis is about.
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

// Step is one stage of a connection to a server.
type Step struct {
	Name   string        // dns, connect, tls, handshake, tools and so on
	Took   time.Duration // zero if it was not needed
	Detail string        // such as the TLS version; may be empty
	Failed bool          // the connection ended here
}

// Connections connects and disconnects integrations.
type Connections interface {
	// Connect verifies a credential at its service and saves it as a new
	// integration, or in place of the account's old one.
	Connect(ctx context.Context, w action.ConnectRequest) (action.Integration, error)
	// Begin starts a connection that the person completes in a browser.
	Begin(ctx context.Context, w action.ConnectRequest) (action.ConnectStep, error)
	// Finish completes a connection with the parameters of the callback, for
	// the login that began it. A person who does not decide for the
	// organization can complete only their own.
	Finish(ctx context.Context, organization, by, login string, decides bool, a action.ConnectCallback) (action.Integration, error)
	// Check asks the service whether the credential is valid, and stores the
	// result.
	Check(ctx context.Context, in action.Integration) (action.Integration, error)
	// Unusable returns why an integration needs a person before it can get a
	// token. It is empty if the integration is usable, or if that is unknown.
	Unusable(ctx context.Context, in action.Integration) string
	// Disconnect deletes an integration and reports whether the service revoked
	// the credential. A failed revocation is not an error.
	Disconnect(ctx context.Context, in action.Integration, by string) (revoked bool, err error)
	// Metadata returns data for forms.
	Metadata(ctx context.Context, in action.Integration, q url.Values) (json.RawMessage, error)
	// SealApp seals the secrets of a registration.
	SealApp(app action.ProviderApp, secrets map[string]string) (action.ProviderApp, error)
}
