package action

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Integration is an organization's connection to the service of a module. Its
// credential is stored encrypted; the API can write it but not read it.
type Integration struct {
	ID           string          `json:"id" bun:"id,pk"`
	Organization string          `json:"organization_id" bun:"organization_id,pk"`
	Provider     string          `json:"provider"` // the module's id, which is its source id
	Kind         IntegrationKind `json:"kind"`
	Broker       Broker          `json:"broker,omitempty" bun:",nullzero"`
	// Account identifies the account at the service, such as a workspace or
	// installation. Each account has one integration, so connecting it again
	// updates it.
	Account     string `json:"account"`
	AccountName string `json:"account_name,omitempty" bun:",nullzero"` // name at the service; untrusted
	Name        string `json:"name"`                                   // display name
	// User makes it a personal connection of this user, for actions that show
	// the user's name. Empty: the organization's.
	User       string     `json:"user_id,omitempty" bun:"user_id,nullzero"`
	Visibility Visibility `json:"visibility"`
	// BaseURL of the service's API; empty: the module's default. The
	// credential is sent only to its host.
	BaseURL  string          `json:"base_url,omitempty" bun:"base_url,nullzero"`
	Settings json.RawMessage `json:"settings,omitempty" bun:",nullzero"` // matches the module's schema; nil: none
	Scopes   []string        `json:"scopes,omitempty" bun:",nullzero"`   // granted scopes; empty: unknown
	// TimeoutSeconds of one call; zero: the Gate's. At most [MaxTimeout].
	TimeoutSeconds int               `json:"timeout_seconds,omitempty"`
	Status         IntegrationStatus `json:"status"`
	Reason         string            `json:"reason,omitempty" bun:",nullzero"` // of a status other than active
	ExpiresAt      *time.Time        `json:"expires_at,omitempty"`
	Revision       int64             `json:"revision"` // counts changes that affect calls
	CreatedBy      string            `json:"created_by"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`

	Version int64  `json:"-"` // counts writes of the credential; zero: it is new
	Sealed  []byte `json:"-"` // the credential; nil where it is not read, or there is none
}

// MaxTimeout is the maximum timeout of a call of a source.
const MaxTimeout = 2 * time.Minute

// IntegrationKind is the kind of credential.
type IntegrationKind string

// The kinds of integration.
const (
	KindAPIKey   IntegrationKind = "api_key"
	KindBotToken IntegrationKind = "bot_token"
	KindOAuth2   IntegrationKind = "oauth2"
	KindApp      IntegrationKind = "app_installation"
	KindNone     IntegrationKind = "none" // the module needs no credential
)

// Valid reports whether k is one of the kinds.
func (k IntegrationKind) Valid() bool {
	return slices.Contains([]IntegrationKind{KindAPIKey, KindBotToken, KindOAuth2, KindApp, KindNone}, k)
}

// Broker is where an OAuth token is kept.
type Broker string

// The brokers.
const (
	BrokerOwn   Broker = ""      // the gateway itself
	BrokerNango Broker = "nango" // https://nango.dev
)

// Visibility is who can see and use an integration.
type Visibility string

// The visibilities.
const (
	VisibleOrganization Visibility = "organization"
	VisiblePrivate      Visibility = "private" // only its creator
)

// Valid reports whether v is one of the two.
func (v Visibility) Valid() bool { return v == VisibleOrganization || v == VisiblePrivate }

// IntegrationStatus is the status of a credential.
type IntegrationStatus string

// The statuses.
const (
	IntegrationActive    IntegrationStatus = "active"
	IntegrationExpired   IntegrationStatus = "expired" // expired, and could not be renewed
	IntegrationRevoked   IntegrationStatus = "revoked" // the service no longer accepts it
	IntegrationSuspended IntegrationStatus = "suspended"
	IntegrationDeleted   IntegrationStatus = "deleted" // disconnected; the row is kept
)

// Valid reports whether s is one of the statuses.
func (s IntegrationStatus) Valid() bool {
	return slices.Contains([]IntegrationStatus{IntegrationActive, IntegrationExpired, IntegrationRevoked, IntegrationSuspended, IntegrationDeleted}, s)
}

// Owner returns the only user who can see the integration; empty: everyone in
// the organization.
func (in *Integration) Owner() string {
	switch {
	case in.User != "":
		return in.User
	case in.Visibility == VisiblePrivate:
		return in.CreatedBy
	}
	return ""
}

// AllConnections as the only entry of a session's Connections binds it to
// every integration of visibility organization, now and later.
const AllConnections = "all"

// Bound returns the organization's integrations of a provider that the
// session is bound to, unusable ones included, deleted ones not. Integrations
// that became private to another user are left out, and so are personal
// connections: see [Session.OwnConnection].
func (s *Session) Bound(all []Integration, provider string) []Integration {
	every := slices.Equal(s.Connections, []string{AllConnections})
	var list []Integration
	for _, in := range all {
		switch {
		case in.Provider != provider || in.User != "" || in.Status == IntegrationDeleted:
		case every && in.Visibility == VisibleOrganization,
			!every && slices.Contains(s.Connections, in.ID) && (in.Owner() == "" || in.Owner() == s.CreatedBy):
			list = append(list, in)
		}
	}
	return list
}

// OwnConnection returns the active personal connection of the session's
// creator at the provider, for an action that shows the user's name.
// Unattended sessions act in nobody's name.
func (s *Session) OwnConnection(all []Integration, provider string) (Integration, bool) {
	if s.Kind != Interactive {
		return Integration{}, false
	}
	for _, in := range all {
		if in.Provider == provider && in.User != "" && in.User == s.CreatedBy && in.Status == IntegrationActive {
			return in, true
		}
	}
	return Integration{}, false
}

// ProviderApp is an organization's registration of the gateway at a service,
// needed to sign in people there or to act as an app. Its secrets are stored
// encrypted; the API can write them but not read them.
type ProviderApp struct {
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Provider     string `json:"provider" bun:"provider,pk"` // a module's id, or "nango"
	ClientID     string `json:"client_id,omitempty" bun:"client_id,nullzero"`
	// Slug is the app's name in the URL at which it is installed (GitHub), AppID
	// what it signs with.
	Slug  string `json:"slug,omitempty" bun:",nullzero"`
	AppID string `json:"app_id,omitempty" bun:"app_id,nullzero"`
	// BaseURL of the service, where it is not the module's own: an Enterprise
	// server, a broker of one's own. The secrets are sent to its host alone.
	BaseURL string `json:"base_url,omitempty" bun:"base_url,nullzero"`
	// Keys are the broker's names of providers (Nango: provider_config_key), by
	// module id; a module that is not named has its own id there.
	Keys      map[string]string `json:"keys,omitempty" bun:",nullzero"`
	Secrets   []string          `json:"secrets" bun:",nullzero"` // the names of those that are set
	UpdatedBy string            `json:"updated_by"`
	UpdatedAt time.Time         `json:"updated_at"`

	Sealed []byte `json:"-"` // the secrets by name, and for which host they are
}

// The names of a [ProviderApp]'s secrets.
const (
	AppClientSecret = "client_secret"
	AppPrivateKey   = "private_key" // PEM, of a GitHub App
	AppAPIKey       = "api_key"     // of a broker
)

// IntegrationFlow is a connection in progress in a person's browser.
type IntegrationFlow struct {
	StateHash    string `bun:",pk"` // of the state parameter, in hex
	Organization string `bun:"organization_id"`
	Provider     string
	By           string // the user
	Login        string // browser login or API key that must finish it
	ExpiresAt    time.Time
	Sealed       []byte // the request, verifier and endpoints
}

const (
	maxAccount  = 1000  // bytes of what identifies an account, or names it
	maxSettings = 65536 // bytes
)

// Check validates the request and sets the default visibility. The module
// validates what depends on its service.
func (w *ConnectRequest) Check() error {
	switch {
	case w.Own && w.Visibility == VisibleOrganization:
		return invalidField("/visibility", "A personal connection is private. Leave `visibility` out.")
	case w.Broker != BrokerOwn && (w.Broker != BrokerNango || w.Kind != KindOAuth2):
		return invalidField("/broker", "A broker keeps tokens of kind oauth2; leave `broker` out.")
	}
	switch keyed := w.Kind == KindAPIKey || w.Kind == KindBotToken; {
	case keyed && w.Secret == "":
		return &Error{Kind: ErrInvalid, Code: "missing_field", Field: "/secret", Message: "Send the key or token as `secret`."}
	case !keyed && w.Secret != "":
		return invalidField("/secret", "This kind has no credential; leave `secret` out.")
	case w.Own:
		w.Visibility = VisiblePrivate
	case w.Visibility == "":
		w.Visibility = VisibleOrganization
	}
	return firstError(CheckCredential("/secret", w.Secret), checkVisibility(w.Visibility), checkTimeout(w.TimeoutSeconds))
}

func checkVisibility(v Visibility) error {
	if !v.Valid() {
		return invalid("/visibility", "A visibility is organization or private.")
	}
	return nil
}

// Check validates the integration and makes the account's name one line.
// Whether a text contains a credential depends on stored rows and is checked
// there.
func (in *Integration) Check() error {
	switch {
	case in.ID == "" || in.CreatedBy == "":
		return fmt.Errorf("an integration of %s needs an id and who made it", in.Provider)
	case !in.Kind.Valid():
		return invalid("/kind", "A kind is api_key, bot_token, oauth2, app_installation or none.")
	case in.Broker != BrokerOwn && (in.Broker != BrokerNango || in.Kind != KindOAuth2):
		return invalid("/broker", "The broker of an oauth2 integration is nango, or left out; other kinds have none.")
	case !isOneLine(in.Account, maxAccount):
		return invalid("/account", fmt.Sprintf("The account can have at most %d bytes and no control characters.", maxAccount))
	}
	in.AccountName = truncateLine(in.AccountName, maxAccount)
	return firstError(checkBaseURL(in.BaseURL), CheckName("/provider", "provider", in.Provider), in.CheckChoices())
}

// CheckChoices validates the fields that people can set.
func (in *Integration) CheckChoices() error {
	if strings.TrimSpace(in.Name) == "" || !isOneLine(in.Name, maxName) {
		return invalid("/name", fmt.Sprintf("An integration needs a name of at most %d bytes without control characters.", maxName))
	}
	if err := checkVisibility(in.Visibility); err != nil {
		return err
	}
	if in.User != "" && in.Visibility != VisiblePrivate {
		return invalid("/visibility", "A personal connection is private. Connect the account for the organization instead.")
	}
	if err := checkTimeout(in.TimeoutSeconds); err != nil || len(in.Settings) == 0 {
		return err
	}
	var object map[string]json.RawMessage
	if len(in.Settings) > maxSettings || json.Unmarshal(in.Settings, &object) != nil || object == nil {
		return invalid("/settings", fmt.Sprintf("Settings are a JSON object of at most %d bytes.", maxSettings))
	}
	return nil
}

func checkBaseURL(text string) error {
	if text != "" && !AbsoluteURL(text) {
		return invalid("/base_url", "A base URL is an absolute http or https URL without user and fragment.")
	}
	return nil
}

// truncateLine turns a service's text into one line.
func truncateLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Check validates the registration.
func (a *ProviderApp) Check() error {
	for field, text := range map[string]string{"/client_id": a.ClientID, "/slug": a.Slug, "/app_id": a.AppID} {
		if !PlainText(text) {
			return invalidField(field, "This must be plain text on one line, as the service issued it.")
		}
	}
	switch {
	case len(a.ClientID) > maxClientID:
		return invalid("/client_id", fmt.Sprintf("The id of a client has at most %d printable ASCII characters.", maxClientID))
	case len(a.Slug) > maxName:
		return invalid("/slug", fmt.Sprintf("The slug of an app has at most %d printable ASCII characters.", maxName))
	case len(a.AppID) > maxName:
		return invalid("/app_id", fmt.Sprintf("The id of an app has at most %d printable ASCII characters.", maxName))
	}
	for _, module := range slices.Sorted(maps.Keys(a.Keys)) {
		if key := a.Keys[module]; module == "" || key == "" || !isOneLine(module, maxName) || !isOneLine(key, maxName) {
			return invalid("/keys", fmt.Sprintf("The broker's name of a provider has 1 to %d bytes, without control characters.", maxName))
		}
	}
	return firstError(CheckName("/provider", "provider", a.Provider), checkBaseURL(a.BaseURL))
}

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
	Organization string      `json:"organization_id" bun:"organization_id,pk"`
	Connector    string      `json:"connector_id" bun:"connector_id,pk"`
	Issuer       string      `json:"issuer"`
	ClientID     string      `json:"client_id,omitempty" bun:"client_id,nullzero"`
	Scope        string      `json:"scope,omitempty" bun:",nullzero"` // granted scopes, separated by spaces
	Status       OAuthStatus `json:"status"`
	Reason       string      `json:"reason,omitempty" bun:",nullzero"` // why a person must sign in again
	ExpiresAt    *time.Time  `json:"expires_at,omitempty"`
	By           string      `json:"by,omitempty" bun:",nullzero"` // who signed in
	UpdatedAt    time.Time   `json:"updated_at"`

	Version int64  `json:"-"` // counts writes; zero: it is new
	Sealed  []byte `json:"-"` // tokens, client and endpoints
}

// OAuthFlow is a sign-in in progress.
type OAuthFlow struct {
	StateHash    string `bun:",pk"` // of the state parameter, in hex
	Organization string `bun:"organization_id"`
	Connector    string `bun:"connector_id"`
	By           string
	ExpiresAt    time.Time
	Sealed       []byte // verifier, client and endpoints
}
