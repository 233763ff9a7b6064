package action

import (
	"encoding/json"
	"time"
)

// ConnectRequest is a request to connect a service.
type ConnectRequest struct {
	Organization string
	Provider     string // a module's id
	Kind         IntegrationKind
	Broker       Broker
	Secret       string // the credential of KindAPIKey and KindBotToken
	Name         string // empty: derived from the provider's title and the account
	// Own makes it a personal connection of By.
	Own            bool
	Visibility     Visibility // empty: organization; private when Own
	BaseURL        string     // empty: the app's, else the module's
	Settings       json.RawMessage
	TimeoutSeconds int
	Scopes         []string // of OAuth; empty: those that the module needs
	Account        string   // account that the credential must belong to, else ErrConflict and nothing is saved; empty: any
	By             string   // the user
	Login          string   // of the browser, or of the API key
}

// ConnectStep is the next step of a connection in a person's browser.
type ConnectStep struct {
	URL       string    `json:"url"`             // to open
	Token     string    `json:"token,omitempty"` // of a broker's connect session, for its own page
	State     string    `json:"state"`           // state parameter of the callback
	ExpiresAt time.Time `json:"expires_at"`
}

// ConnectCallback has the parameters with which the browser returns; which of
// them are set depends on the service.
type ConnectCallback struct {
	// Provider is the provider of the callback URL. It must be that of the
	// flow, so that the response of one service cannot be used for another.
	Provider     string
	Iss          string // the issuer, if the service sends it
	State        string
	Code         string
	Error        string // of the service, instead of a code
	Installation string // installation_id, of an app
	Connection   string // connection_id, of a broker
}

// OAuthKind is how a connector gets its tokens.
type OAuthKind string

// The kinds are OAuth 2.1 grant types.
const (
	OAuthCode   OAuthKind = "authorization_code" // an admin signs in at the service once
	OAuthClient OAuthKind = "client_credentials" // the gateway authenticates itself
)

// Valid reports whether k is one of the two kinds.
func (k OAuthKind) Valid() bool { return k == OAuthCode || k == OAuthClient }

// OAuthSettings are the OAuth settings of a connector.
type OAuthSettings struct {
	Kind OAuthKind `json:"kind"`
	// ClientID is the ID of a manually registered client. Empty: the gateway
	// uses its metadata document or dynamic registration, whichever the
	// authorization server supports.
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is the key of the secret with the client secret, which is
	// bound to the host of the token endpoint. Empty: a public client.
	ClientSecret string   `json:"client_secret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"` // empty: what the server requests
	// Issuer is the only authorization server to use. Empty: the one that the
	// MCP server names, fixed at the first sign-in.
	Issuer string `json:"issuer,omitempty"`
}

// OAuthStatus is the status of a connector's tokens.
type OAuthStatus string

// The statuses.
const (
	OAuthConnected OAuthStatus = "connected"
	OAuthReconnect OAuthStatus = "reconnect_needed" // a person must sign in again
)

// OAuthGrant holds the tokens of a connector.
type OAuthGrant struct {
	Organization string      `json:"organization_id"`
	Connector    string      `json:"connector_id"`
	Issuer       string      `json:"issuer"`
	ClientID     string      `json:"client_id,omitempty"`
	Scope        string      `json:"scope,omitempty"` // granted scopes, separated by spaces
	Status       OAuthStatus `json:"status"`
	Reason       string      `json:"reason,omitempty"` // why a person must sign in again
	ExpiresAt    *time.Time  `json:"expires_at,omitempty"`
	By           string      `json:"by,omitempty"` // who signed in
	UpdatedAt    time.Time   `json:"updated_at"`

	Version int64  `json:"-"` // counts writes; zero: it is new
	Sealed  []byte `json:"-"` // tokens, client and endpoints
}

// OAuthFlow is a sign-in in progress.
type OAuthFlow struct {
	StateHash    string // of the state parameter, in hex
	Organization string
	Connector    string
	By           string
	ExpiresAt    time.Time
	Sealed       []byte // verifier, client and endpoints
}
