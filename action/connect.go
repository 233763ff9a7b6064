package action

import (
	"encoding/json"
	"time"
)

// ConnectRequest is an integration that a person wants to make.
type ConnectRequest struct {
	Organization string
	Provider     string // a module's id
	Kind         IntegrationKind
	Broker       Broker
	Secret       string // the credential of KindAPIKey and KindBotToken
	Name         string // empty: made of the provider's title and the account
	// Own makes it the connection of By himself, not the organization's.
	Own            bool
	Visibility     Visibility // empty: organization; private when Own
	BaseURL        string     // empty: the app's, else the module's
	Settings       json.RawMessage
	TimeoutSeconds int
	Scopes         []string // of OAuth; empty: those that the module needs
	Account        string   // that the credential must be of, else ErrConflict and nothing is saved; empty: any
	By             string   // the user
	Login          string   // of the browser, or of the API key
}

// ConnectStep is where a connection goes on that takes a person's browser.
type ConnectStep struct {
	URL       string    `json:"url"`             // to open
	Token     string    `json:"token,omitempty"` // of a broker's connect session, for its own page
	State     string    `json:"state"`           // what comes back
	ExpiresAt time.Time `json:"expires_at"`
}

// ConnectCallback is what a browser comes back with. Which of it there is depends
// on the service.
type ConnectCallback struct {
	// Provider is the one whose callback the browser came to. It must be that of
	// the flow: what one service answered is for no other.
	Provider     string
	Iss          string // the issuer, where it says so
	State        string
	Code         string
	Error        string // of the service, instead of a code
	Installation string // installation_id, of an app
	Connection   string // connection_id, of a broker
}

// OAuthKind is how a connector's tokens are had.
type OAuthKind string

// The kinds, by their grant types of OAuth 2.1.
const (
	OAuthCode   OAuthKind = "authorization_code" // an admin signs in at the service, once
	OAuthClient OAuthKind = "client_credentials" // the gateway signs in by itself
)

// Valid reports whether k is one of the two kinds.
func (k OAuthKind) Valid() bool { return k == OAuthCode || k == OAuthClient }

// OAuthSettings are what an admin says of a connector's OAuth.
type OAuthSettings struct {
	Kind OAuthKind `json:"kind"`
	// ClientID is that of a client which was registered by hand. Empty: the
	// gateway's metadata document, or dynamic registration, whichever the
	// authorization server takes.
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is the key of the organization's secret that holds the
	// client's; it is bound to the host of the token endpoint. Empty: a public
	// client.
	ClientSecret string   `json:"client_secret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"` // empty: what the server asks for
	// Issuer is the one authorization server to use. Empty: the one that the
	// MCP server names, kept from the first sign-in on.
	Issuer string `json:"issuer,omitempty"`
}

// OAuthStatus is what can be said of a connector's tokens.
type OAuthStatus string

// The statuses.
const (
	OAuthConnected OAuthStatus = "connected"
	OAuthReconnect OAuthStatus = "reconnect_needed" // a person must sign in again
)

// OAuthGrant are the tokens of one connector, and where they are from.
type OAuthGrant struct {
	Organization string      `json:"organization_id"`
	Connector    string      `json:"connector_id"`
	Issuer       string      `json:"issuer"`
	ClientID     string      `json:"client_id,omitempty"`
	Scope        string      `json:"scope,omitempty"` // as granted, with spaces between
	Status       OAuthStatus `json:"status"`
	Reason       string      `json:"reason,omitempty"` // why a person must sign in again
	ExpiresAt    *time.Time  `json:"expires_at,omitempty"`
	By           string      `json:"by,omitempty"` // who signed in
	UpdatedAt    time.Time   `json:"updated_at"`

	Version int64  `json:"-"` // counts writes; zero: it is new
	Sealed  []byte `json:"-"` // tokens, client and endpoints
}

// OAuthFlow is a sign-in that an admin began.
type OAuthFlow struct {
	StateHash    string // of the state parameter, in hex
	Organization string
	Connector    string
	By           string
	ExpiresAt    time.Time
	Sealed       []byte // verifier, client and endpoints
}
