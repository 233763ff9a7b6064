package credential

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
)

// Store stores the grants of connectors, integrations with their registrations,
// and pending flows.
type Store interface {
	// For [OAuth].

	// OAuthGrant returns a connector's grant, or ErrNotFound.
	OAuthGrant(ctx context.Context, organization, connector string) (action.OAuthGrant, error)
	// PutOAuthGrant overwrites the grant with the same Version, or inserts one
	// with Version zero. ErrConflict with code "oauth_moved": it was changed
	// meanwhile.
	PutOAuthGrant(ctx context.Context, g action.OAuthGrant) error
	// DeleteOAuthGrant deletes a grant on behalf of a person.
	DeleteOAuthGrant(ctx context.Context, organization, connector, by string) error
	// PutOAuthFlow stores a pending sign-in.
	PutOAuthFlow(ctx context.Context, f action.OAuthFlow) error
	// TakeOAuthFlow deletes and returns a flow, for one caller only;
	// ErrNotFound if there is no valid one.
	TakeOAuthFlow(ctx context.Context, stateHash string, now time.Time) (action.OAuthFlow, error)

	// For [Tokens].

	// IntegrationOf returns the integration of a provider's account with its
	// credential, including deleted ones; ErrNotFound. holder is its Owner;
	// own: it is the holder's own connection.
	IntegrationOf(ctx context.Context, organization, provider, holder, account string, own bool) (action.Integration, error)
	// Integrations returns an organization's integrations that are not deleted,
	// without credentials.
	Integrations(ctx context.Context, organization string) ([]action.Integration, error)
	// IntegrationCredential returns an integration with its credential;
	// ErrNotFound, also for a deleted one.
	IntegrationCredential(ctx context.Context, organization, id string) (action.Integration, error)
	// BrokeredIntegrations returns the integrations of all organizations whose
	// tokens the broker holds, with their credentials.
	BrokeredIntegrations(ctx context.Context, broker action.Broker) ([]action.Integration, error)
	// PutIntegration overwrites the integration with the same Version, or
	// inserts one with Version zero, and makes it active. ErrConflict: it was
	// changed meanwhile.
	PutIntegration(ctx context.Context, in action.Integration, by string) (action.Integration, error)
	// RenewIntegration writes Sealed, ExpiresAt, Scopes and UpdatedAt if the
	// Version is unchanged; ErrConflict.
	RenewIntegration(ctx context.Context, in action.Integration) error
	// SetIntegrationStatus writes the status and reason for the credential of
	// that version; zero: of any version. ErrConflict: the credential was
	// replaced. The deleted status removes the credential.
	SetIntegrationStatus(ctx context.Context, organization, id string, version int64, status action.IntegrationStatus, reason, by string) (changed bool, err error)
	// ProviderApp returns a registration with its secrets; ErrNotFound.
	ProviderApp(ctx context.Context, organization, provider string) (action.ProviderApp, error)
	// PutIntegrationFlow stores a pending connection.
	PutIntegrationFlow(ctx context.Context, f action.IntegrationFlow) error
	// TakeIntegrationFlow deletes and returns a flow that the user began with
	// that login, for one caller only; ErrNotFound if there is no valid one. A
	// flow of another login stays.
	TakeIntegrationFlow(ctx context.Context, organization, stateHash, by, login string, now time.Time) (action.IntegrationFlow, error)
}

// Config configures an [OAuth].
type Config struct {
	Store Store        // required
	Vault action.Vault // seals tokens; required
	// Lock acquires the named lock across all instances, or fails when ctx
	// ends. Required.
	Lock func(ctx context.Context, name string) (unlock func(), err error)
	// Guard restricts outbound connections. Loopback is only permitted for a
	// connector whose URL is on loopback.
	Guard guard.Config

	ClientName  string // shown to people who sign in; empty: "Sallyport"
	RedirectURL string // callback URL; required
	// MetadataURL is the https URL at which [OAuth.ClientMetadata] is served.
	// Empty: none, and the gateway registers itself instead.
	MetadataURL string

	// ClientSecret returns an organization's secret and the host, with its port
	// if any, that it was set for. Required.
	ClientSecret func(ctx context.Context, organization, key string) (value, host string, err error)

	RefreshBefore time.Duration // before a token expires; zero: 60 s
	FlowLife      time.Duration // time limit of a sign-in; zero: 10 min
	Timeout       time.Duration // of one request to an authorization server; zero: 10 s
	Now           func() time.Time
	Log           *slog.Logger
}

// OAuth provides the tokens of all connectors. It is safe for concurrent use.
type OAuth struct {
	Config

	*rowCache[grantRow]
}

// New returns an OAuth. It fails if the configuration is incomplete.
func New(c Config) (*OAuth, error) {
	if c.Store == nil || c.Vault == nil || c.Lock == nil || c.ClientSecret == nil {
		return nil, errors.New("credential: Config.Store, Vault, Lock and ClientSecret are required")
	}
	if _, err := guard.CheckURL(c.RedirectURL); err != nil {
		return nil, errors.New("credential: Config.RedirectURL is not a URL")
	}
	if u, err := url.Parse(c.MetadataURL); err != nil || c.MetadataURL != "" && (u.Scheme != "https" || len(u.Path) < 2) {
		return nil, errors.New("credential: Config.MetadataURL must be an https URL with a path, or empty")
	}
	if c.ClientName == "" {
		c.ClientName = "Sallyport"
	}
	if c.RefreshBefore <= 0 {
		c.RefreshBefore = time.Minute
	}
	if c.FlowLife <= 0 {
		c.FlowLife = 10 * time.Minute
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	o := &OAuth{Config: c}
	o.rowCache = &rowCache[grantRow]{name: "oauth", lock: c.Lock, read: o.loadGrant, timeout: c.Timeout, now: c.Now}
	o.start()
	return o, nil
}

// Close waits for renewals in progress, even if their callers left: a refresh
// token can be valid only once, so that its result must be stored. No renewal
// starts afterwards, not even one that is already waiting.
func (o *OAuth) Close() error {
	o.close()
	return nil
}
