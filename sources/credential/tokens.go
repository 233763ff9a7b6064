package credential

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// TokensConfig configures [Tokens].
type TokensConfig struct {
	Store Store        // required
	Vault action.Vault // seals credentials; required
	// Lock acquires the named lock across all instances, or fails when ctx
	// ends. Required.
	Lock    func(ctx context.Context, name string) (unlock func(), err error)
	Modules []*sources.Module
	HTTP    *outbound.Pool // required
	// RedirectURL is the callback URL, to which the provider's ID is appended:
	// each provider has a callback of its own, so that the answer of one
	// service is never accepted for another. Required.
	RedirectURL string
	// Changed is called with an organization after one of its integrations was
	// connected, disconnected or changed its status. Optional.
	Changed func(organization string)

	FlowLife      time.Duration // time limit of connecting; zero: 5 min
	RefreshBefore time.Duration // before a token expires; zero: 60 s
	AppTokenLife  time.Duration // how long a GitHub App's token is used; zero: 50 min
	Timeout       time.Duration // of one credential-related request, and of a whole check; zero: 10 s
	Now           func() time.Time
	Log           *slog.Logger
}

// Tokens provides the credentials of all integrations. It is the only source of
// bearer tokens, and safe for concurrent use.
type Tokens struct {
	TokensConfig

	*rowCache[storedIntegration]
	modules map[string]*sources.Module

	cachedMu     sync.Mutex
	cachedTokens map[rowKey]cachedToken // tokens that no row stores

	scopedTokens map[scopedKey]cachedToken // of installations, for one repository

	brokered brokeredConnections
}

// NewTokens returns Tokens. It fails if the configuration is incomplete.
func NewTokens(c TokensConfig) (*Tokens, error) {
	if c.Store == nil || c.Vault == nil || c.Lock == nil || c.HTTP == nil {
		return nil, errors.New("credential: TokensConfig.Store, Vault, Lock and HTTP are required")
	}
	if _, err := guard.CheckURL(c.RedirectURL); err != nil {
		return nil, errors.New("credential: TokensConfig.RedirectURL is not a URL")
	}
	c.FlowLife, c.RefreshBefore, c.Log = cmp.Or(c.FlowLife, 5*time.Minute), cmp.Or(c.RefreshBefore, time.Minute), cmp.Or(c.Log, slog.Default())
	c.AppTokenLife, c.Timeout = cmp.Or(c.AppTokenLife, 50*time.Minute), cmp.Or(c.Timeout, 10*time.Second)
	if c.Changed == nil {
		c.Changed = func(string) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	t := &Tokens{TokensConfig: c, modules: make(map[string]*sources.Module), cachedTokens: make(map[rowKey]cachedToken), scopedTokens: make(map[scopedKey]cachedToken)}
	for _, m := range c.Modules {
		if t.modules[m.ID] != nil {
			return nil, fmt.Errorf("credential: two modules are called %q", m.ID)
		}
		t.modules[m.ID] = m
	}
	t.rowCache = &rowCache[storedIntegration]{name: "integration", lock: c.Lock, read: t.readIntegration, timeout: c.Timeout, now: c.Now}
	t.start()
	return t, nil
}

// Close waits for renewals in progress. None starts afterwards.
func (t *Tokens) Close() error {
	t.close()
	return nil
}

// Token returns the integration's bearer token; empty: its module needs none.
// It renews the token before it expires; ctx bounds the wait for that, not the
// renewal. Errors are of kind ErrUnavailable, since the service was not called;
// with the code [sources.FaultReconnect] a person must connect it again.
func (t *Tokens) Token(ctx context.Context, in action.Integration) (string, error) {
	h, err := t.active(ctx, in)
	if err != nil {
		return "", err
	}
	return t.token(ctx, &h)
}

// Conn returns the connection that the integration's module uses for one call.
// Errors are those of [Tokens.Token].
func (t *Tokens) Conn(ctx context.Context, in action.Integration) (*sources.Conn, error) {
	h, err := t.active(ctx, in)
	if err != nil {
		return nil, err
	}
	h.in.Settings = in.Settings // the ones that policy evaluated
	return t.conn(ctx, &h)
}

func (t *Tokens) conn(ctx context.Context, h *storedIntegration) (*sources.Conn, error) {
	if _, err := t.boundBaseURL(h); err != nil {
		return nil, err
	}
	token, err := t.token(ctx, h)
	if err != nil {
		return nil, err
	}
	return t.connWithToken(h, token)
}

// connWithToken is conn with a known token.
func (t *Tokens) connWithToken(h *storedIntegration, token string) (*sources.Conn, error) {
	base, err := t.boundBaseURL(h)
	if err != nil {
		return nil, err
	}
	c := &sources.Conn{Kind: h.in.Kind, Token: token, Settings: h.in.Settings, Account: h.in.Account}
	if base != nil {
		c.HTTP = t.HTTP.Client(h.in.ID, base, token)
	}
	return c, nil
}

// boundBaseURL returns the base URL after checking that the credential is for
// its host; nil: there is neither.
func (t *Tokens) boundBaseURL(h *storedIntegration) (*url.URL, error) {
	base, err := t.base(&h.in)
	switch {
	case err != nil:
		return nil, unavailable(sources.FaultConfig, err, "The base URL of the integration is not valid. Connect it again.")
	case h.in.Kind != action.KindNone && (base == nil || guard.Host(base) != h.secrets.Host):
		return nil, unavailable(sources.FaultCredential, nil, "The integration's credential was issued for another host than that of its base URL. Connect it again.")
	}
	return base, nil
}

// active returns a usable integration, at most a second old.
func (t *Tokens) active(ctx context.Context, in action.Integration) (storedIntegration, error) {
	key := rowKey{in.Organization, in.ID}
	h, err := t.load(ctx, key)
	if err == nil && (h.in.BaseURL != in.BaseURL || h.in.Kind != in.Kind) {
		h, err = t.reload(ctx, key)
	}
	switch {
	case errors.Is(err, action.ErrNotFound):
		return h, unavailable(sources.FaultReconnect, err, "The integration was disconnected. A person must connect it again.")
	case err != nil:
		return h, storageError(err)
	case h.in.Status != action.IntegrationActive:
		return h, t.reconnectError(&h.in)
	case h.in.BaseURL != in.BaseURL || h.in.Kind != in.Kind:
		return h, changedError()
	}
	return h, nil
}

// token returns a token that is valid as far as known.
func (t *Tokens) token(ctx context.Context, h *storedIntegration) (string, error) {
	switch k := h.in.Kind; {
	case k == action.KindNone:
		return "", nil
	case k == action.KindOAuth2 && h.in.Broker == action.BrokerOwn:
		return t.access(ctx, h)
	case k == action.KindOAuth2 || k == action.KindApp:
		return t.issueToken(ctx, h, "")
	case h.secrets.Value == "":
		return "", unavailable(sources.FaultReconnect, nil, "The integration has no credential. A person must connect it again.")
	}
	return h.secrets.Value, nil
}

// reconnectError asks a person to reconnect, after the reason.
func (t *Tokens) reconnectError(in *action.Integration) *action.Error {
	reason := in.Reason
	if reason == "" {
		reason = fmt.Sprintf("The connection to %s is %s. Connect it again.", t.title(in.Provider), in.Status)
	}
	if in.User != "" { // otherwise people look for it among the organization's
		return unavailable(sources.FaultReconnect, errEnded, "%s It is a user's own connection: that user must do so on the integrations page.", reason)
	}
	return unavailable(sources.FaultReconnect, errEnded, "%s A person must do so on the integrations page.", reason)
}

// title returns the display name of a provider.
func (t *Tokens) title(provider string) string {
	if m := t.modules[provider]; m != nil {
		return m.Title
	}
	return provider
}

// unavailable returns an error that occurs before the service is called: the
// service did nothing. The cause is kept as text, so that its kind is not
// visible.
func unavailable(code string, cause error, format string, args ...any) *action.Error {
	e := action.Errorf(action.ErrUnavailable, code, format, args...)
	switch {
	case errors.Is(cause, errEnded):
		e.Err = errEnded
	case cause != nil:
		e.Err = errors.New(cause.Error())
	}
	return e
}

// requestError is asUnavailable for read requests: without a response, nothing
// is in doubt.
func requestError(who string, err error) error {
	if !errors.Is(err, action.ErrOutcomeUnknown) {
		return asUnavailable(err)
	}
	shown, what := action.Public(err), "gave no valid answer"
	if shown.Code == sources.FaultTimeout {
		what = "did not answer in time"
	}
	return unavailable(shown.Code, shown.Err, "%s %s. Retry later.", who, what)
}

// asUnavailable is unavailable for an error that says what to do.
func asUnavailable(err error) error {
	if err == nil {
		return nil
	}
	shown := action.Public(err)
	e := unavailable(shown.Code, shown.Err, "%s", shown.Message)
	e.RetryAfter = shown.RetryAfter
	return e
}
