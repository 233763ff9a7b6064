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

// Store keeps the grants of connectors, integrations with their registrations, and
// the flows by which both begin.
type Store interface {
	// For [OAuth].

	// OAuthGrant returns a connector's grant; ErrNotFound when it has none.
	OAuthGrant(ctx context.Context, organization, connector string) (action.OAuthGrant, error)
	// PutOAuthGrant writes a grant over the one of the same Version, or a new
	// one of Version zero. ErrConflict with code "oauth_moved" when another
	// came first.
	PutOAuthGrant(ctx context.Context, g action.OAuthGrant) error
	// DeleteOAuthGrant removes a grant for a person.
	DeleteOAuthGrant(ctx context.Context, organization, connector, by string) error
	// PutOAuthFlow writes a sign-in that began.
	PutOAuthFlow(ctx context.Context, f action.OAuthFlow) error
	// TakeOAuthFlow removes and returns a flow, to one caller only;
	// ErrNotFound when there is none that is still good.
	TakeOAuthFlow(ctx context.Context, stateHash string, now time.Time) (action.OAuthFlow, error)

	// For [Tokens].

	// IntegrationOf returns the integration of a provider's account, deleted
	// ones too, with its credential; ErrNotFound. Holder is its Owner; own: it is
	// the holder's own connection.
	IntegrationOf(ctx context.Context, organization, provider, holder, account string, own bool) (action.Integration, error)
	// Integrations returns all of an organization's that are not deleted, without
	// their credentials.
	Integrations(ctx context.Context, organization string) ([]action.Integration, error)
	// IntegrationCredential returns one with its credential; ErrNotFound, also
	// when it is deleted.
	IntegrationCredential(ctx context.Context, organization, id string) (action.Integration, error)
	// BrokeredIntegrations returns those of all organizations whose tokens the
	// broker keeps, with their credentials.
	BrokeredIntegrations(ctx context.Context, broker action.Broker) ([]action.Integration, error)
	// PutIntegration writes one over that of the same Version, or a new one of
	// Version zero, and makes it active. ErrConflict when another came first.
	PutIntegration(ctx context.Context, in action.Integration, by string) (action.Integration, error)
	// RenewIntegration writes Sealed, ExpiresAt, Scopes and UpdatedAt over the
	// same Version; ErrConflict.
	RenewIntegration(ctx context.Context, in action.Integration) error
	// SetIntegrationStatus writes the status of the credential of that version,
	// zero: of whichever there is, and why; ErrConflict when there is another by
	// now. With deleted the credential goes.
	SetIntegrationStatus(ctx context.Context, organization, id string, version int64, status action.IntegrationStatus, reason, by string) (changed bool, err error)
	// ProviderApp returns a registration with its secrets; ErrNotFound.
	ProviderApp(ctx context.Context, organization, provider string) (action.ProviderApp, error)
	// PutIntegrationFlow writes a connection that began.
	PutIntegrationFlow(ctx context.Context, f action.IntegrationFlow) error
	// TakeIntegrationFlow removes and returns one that the user began with the
	// login, to one caller only; ErrNotFound when there is none that is still
	// good. That of another stays.
	TakeIntegrationFlow(ctx context.Context, organization, stateHash, by, login string, now time.Time) (action.IntegrationFlow, error)
}

// Config says what an [OAuth] works with.
type Config struct {
	Store Store        // required
	Vault action.Vault // seals tokens; required
	// Lock waits for the lock of that name among all instances, or for the end
	// of ctx. Required.
	Lock func(ctx context.Context, name string) (unlock func(), err error)
	// Guard says what may be dialled. Loopback may be only on behalf of a
	// connector whose URL names it.
	Guard guard.Config

	ClientName  string // as people are shown it when they sign in; empty: "Sallyport"
	RedirectURL string // to which they are sent back; required
	// MetadataURL is where [OAuth.ClientMetadata] is served, by https. Empty:
	// nowhere, and the gateway is registered instead.
	MetadataURL string

	// ClientSecret returns an organization's secret and the host, with its port
	// if any, that it was set for. Required.
	ClientSecret func(ctx context.Context, organization, key string) (value, host string, err error)

	RefreshBefore time.Duration // the end of a token; zero: 60 s
	FlowLife      time.Duration // how long a sign-in may take; zero: 10 min
	Timeout       time.Duration // of one request to an authorization server; zero: 10 s
	Now           func() time.Time
	Log           *slog.Logger
}

// OAuth has the tokens of all connectors. It is safe for use by several
// goroutines.
type OAuth struct {
	Config

	*doors[held]
}

// New returns an OAuth, or says what the configuration lacks.
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
	o.doors = &doors[held]{name: "oauth", lock: c.Lock, read: o.held, timeout: c.Timeout, now: c.Now}
	o.open()
	return o, nil
}

// Close waits for renewals that are under way, which their callers need not do:
// a refresh token may be good once, and what came for it must be written down.
// None begins after it, not even one that waits for its turn.
func (o *OAuth) Close() error {
	o.close()
	return nil
}
