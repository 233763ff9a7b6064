package action

import (
	"encoding/json"
	"time"
)

// Wanted is an integration that a person wants to make.
type Wanted struct {
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

// ConnectAnswer is what a browser comes back with. Which of it there is depends
// on the service.
type ConnectAnswer struct {
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
