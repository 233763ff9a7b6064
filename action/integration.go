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

// Integration is an organization's connection to a service that a module of
// the gateway speaks to. Its credential is sealed, written over the API and
// never read over it.
type Integration struct {
	ID           string          `json:"id" bun:"id,pk"`
	Organization string          `json:"organization_id" bun:"organization_id,pk"`
	Provider     string          `json:"provider"` // the module's id, which is its source id
	Kind         IntegrationKind `json:"kind"`
	Broker       Broker          `json:"broker,omitempty" bun:",nullzero"`
	// Account identifies whose credential it is at the service: a workspace, an
	// installation. One account of a provider is one integration, so that
	// connecting it again renews this one.
	Account     string `json:"account"`
	AccountName string `json:"account_name,omitempty" bun:",nullzero"` // as the service calls it; foreign
	Name        string `json:"name"`                                   // what people here call it
	// User makes it a user connection: this user's own, used where an action
	// asks for his name on what it does. Empty: the organization's.
	User       string     `json:"user_id,omitempty" bun:"user_id,nullzero"`
	Visibility Visibility `json:"visibility"`
	// BaseURL of the service's API; empty: the module's own. The credential is
	// sent to its host alone.
	BaseURL  string          `json:"base_url,omitempty" bun:"base_url,nullzero"`
	Settings json.RawMessage `json:"settings,omitempty" bun:",nullzero"` // as the module's schema says; nil: none
	Scopes   []string        `json:"scopes,omitempty" bun:",nullzero"`   // as granted; empty: the service does not say
	// TimeoutSeconds of one call; zero: the Gate's. At most [MaxTimeout].
	TimeoutSeconds int               `json:"timeout_seconds,omitempty"`
	Status         IntegrationStatus `json:"status"`
	Reason         string            `json:"reason,omitempty" bun:",nullzero"` // of a status other than active
	ExpiresAt      *time.Time        `json:"expires_at,omitempty"`
	Revision       int64             `json:"revision"` // counts changes that alter what a call does
	CreatedBy      string            `json:"created_by"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`

	Version int64  `json:"-"` // counts writes of the credential; zero: it is new
	Sealed  []byte `json:"-"` // the credential; nil where it is not read, or there is none
}

// MaxTimeout is the longest time that one call of a source may be given.
const MaxTimeout = 2 * time.Minute

// IntegrationKind is what a credential is.
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

// Broker is who keeps an OAuth token.
type Broker string

// The brokers.
const (
	BrokerOwn   Broker = ""      // the gateway itself
	BrokerNango Broker = "nango" // https://nango.dev, which is asked for it
)

// Visibility says who may see and use an integration.
type Visibility string

// The visibilities.
const (
	VisibleOrganization Visibility = "organization"
	VisiblePrivate      Visibility = "private" // only who made it
)

// Valid reports whether v is one of the two.
func (v Visibility) Valid() bool { return v == VisibleOrganization || v == VisiblePrivate }

// IntegrationStatus is whether a credential can be used.
type IntegrationStatus string

// The statuses.
const (
	IntegrationActive    IntegrationStatus = "active"
	IntegrationExpired   IntegrationStatus = "expired" // it ended by itself, and could not be renewed
	IntegrationRevoked   IntegrationStatus = "revoked" // the service does not take it any more
	IntegrationSuspended IntegrationStatus = "suspended"
	IntegrationDeleted   IntegrationStatus = "deleted" // disconnected; the row stays for the record
)

// Valid reports whether s is one of the statuses.
func (s IntegrationStatus) Valid() bool {
	return slices.Contains([]IntegrationStatus{IntegrationActive, IntegrationExpired, IntegrationRevoked, IntegrationSuspended, IntegrationDeleted}, s)
}

// Owner returns the only user that may see the integration; empty: everybody
// of the organization may.
func (in *Integration) Owner() string {
	switch {
	case in.User != "":
		return in.User
	case in.Visibility == VisiblePrivate:
		return in.CreatedBy
	}
	return ""
}

// AllConnections, alone in a session's Connections, binds it to every
// integration that the whole organization may see, now and later.
const AllConnections = "all"

// Bound returns those of an organization's integrations of a provider that the
// session is bound to, dead ones too, deleted ones not. One that became private
// to another user since is left out. A user connection is none of them: see
// [Session.OwnConnection].
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

// OwnConnection returns the active connection of the session's creator at the
// provider's service, for an action that bears his name. An unattended session
// acts in nobody's name.
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

// ProviderApp is an organization's registration of the gateway at a service:
// what it takes to have people sign in there, or to act as an app. Its secrets
// are sealed, written over the API and never read over it.
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

// IntegrationFlow is a connection that a person began to make in his browser.
type IntegrationFlow struct {
	StateHash    string // of the state parameter, in hex
	Organization string
	Provider     string
	By           string // the user
	Login        string // of the browser, or of the API key: nobody else can end it
	ExpiresAt    time.Time
	Sealed       []byte // what is wanted, verifier and endpoints
}

const (
	maxAccount  = 1000  // bytes of what identifies an account, or names it
	maxSettings = 65536 // bytes
)

// Check refuses what no connection of any service can be, and fills in the
// visibility. What the service takes is for its module to say.
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

// Check refuses what an integration cannot be, and makes a line of the name that
// the service has for the account. Whether a text shows a credential is for the
// rows to say.
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

// CheckChoices refuses what people cannot choose.
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

// truncateLine makes a line of a service's text.
func truncateLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Check refuses what a registration cannot be.
func (a *ProviderApp) Check() error {
	for field, text := range map[string]string{"/client_id": a.ClientID, "/slug": a.Slug, "/app_id": a.AppID} {
		if !PlainText(text) {
			return invalidField(field, "This must be plain text on one line, as the service gave it.")
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
