package credential

import (
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

// TokensConfig says what [Tokens] work with.
type TokensConfig struct {
	Store Store        // required
	Vault action.Vault // seals credentials; required
	// Lock waits for the lock of that name among all instances, or for the end
	// of ctx. Required.
	Lock    func(ctx context.Context, name string) (unlock func(), err error)
	Modules []*sources.Module
	HTTP    *outbound.Pool // required
	// RedirectURL is where people are sent back to after they signed in, but for
	// the provider's id, which is added to its path: each has a page of its own,
	// so that what one service answers is taken for no other's. Required.
	RedirectURL string
	// Changed is told of an organization one of whose integrations was connected,
	// disconnected or changed its status. Nil: nobody is.
	Changed func(organization string)

	FlowLife      time.Duration // how long a person may take to connect; zero: 5 min
	RefreshBefore time.Duration // the end of a token; zero: 60 s
	AppTokenLife  time.Duration // how long a GitHub App's token is used; zero: 50 min
	Timeout       time.Duration // of one request to do with credentials, and of a whole check; zero: 10 s
	Now           func() time.Time
	Log           *slog.Logger
}

// Tokens has the credentials of all integrations: the only way to a bearer
// token. It is safe for use by several goroutines.
type Tokens struct {
	TokensConfig

	*doors[owned]
	modules map[string]*sources.Module

	mintedMu sync.Mutex
	minted   map[place]minted // tokens that are in no row

	brokered brokered
}

// NewTokens returns Tokens, or says what the configuration lacks.
func NewTokens(c TokensConfig) (*Tokens, error) {
	if c.Store == nil || c.Vault == nil || c.Lock == nil || c.HTTP == nil {
		return nil, errors.New("credential: TokensConfig.Store, Vault, Lock and HTTP are required")
	}
	if _, err := guard.CheckURL(c.RedirectURL); err != nil {
		return nil, errors.New("credential: TokensConfig.RedirectURL is not a URL")
	}
	for value, zero := range map[*time.Duration]time.Duration{
		&c.FlowLife: 5 * time.Minute, &c.RefreshBefore: time.Minute, &c.AppTokenLife: 50 * time.Minute, &c.Timeout: 10 * time.Second,
	} {
		if *value <= 0 {
			*value = zero
		}
	}
	if c.Changed == nil {
		c.Changed = func(string) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	t := &Tokens{TokensConfig: c, modules: make(map[string]*sources.Module), minted: make(map[place]minted)}
	for _, m := range c.Modules {
		if t.modules[m.ID] != nil {
			return nil, fmt.Errorf("credential: two modules are called %q", m.ID)
		}
		t.modules[m.ID] = m
	}
	t.doors = &doors[owned]{name: "integration", lock: c.Lock, read: t.owned, timeout: c.Timeout, now: c.Now}
	t.open()
	return t, nil
}

// Close waits for renewals that are under way. None begins after it.
func (t *Tokens) Close() error {
	t.close()
	return nil
}

// Token returns the integration's bearer token; empty: its module needs none.
// It is renewed before it ends; ctx bounds the wait for that, and not the
// renewal. Errors are of kind ErrUnavailable, since nothing was asked of the
// service: with the code [sources.FaultReconnect] a person must connect it
// again.
func (t *Tokens) Token(ctx context.Context, in action.Integration) (string, error) {
	h, err := t.alive(ctx, in)
	if err != nil {
		return "", err
	}
	return t.token(ctx, &h)
}

// Conn returns what the integration's module works with for one call. Errors
// are those of [Tokens.Token].
func (t *Tokens) Conn(ctx context.Context, in action.Integration) (*sources.Conn, error) {
	h, err := t.alive(ctx, in)
	if err != nil {
		return nil, err
	}
	h.in.Settings = in.Settings // those that the call was decided with
	return t.conn(ctx, &h)
}

func (t *Tokens) conn(ctx context.Context, h *owned) (*sources.Conn, error) {
	if _, err := t.bound(h); err != nil {
		return nil, err
	}
	token, err := t.token(ctx, h)
	if err != nil {
		return nil, err
	}
	return t.connWith(h, token)
}

// connWith is conn with a token of the integration that is known.
func (t *Tokens) connWith(h *owned, token string) (*sources.Conn, error) {
	base, err := t.bound(h)
	if err != nil {
		return nil, err
	}
	c := &sources.Conn{Kind: h.in.Kind, Token: token, Settings: h.in.Settings, Account: h.in.Account}
	if base != nil {
		c.HTTP = t.HTTP.Client(h.in.ID, base, token)
	}
	return c, nil
}

// bound returns the base URL, which must be one that the credential is for; nil:
// there is neither.
func (t *Tokens) bound(h *owned) (*url.URL, error) {
	base, err := t.base(&h.in)
	switch {
	case err != nil:
		return nil, failing(sources.FaultConfig, err, "The base URL of the integration cannot be used; connect it again.")
	case h.in.Kind != action.KindNone && (base == nil || guard.Host(base) != h.cred.Host):
		return nil, failing(sources.FaultCredential, nil, "The integration's credential was had for another host than that of its base URL; connect it again.")
	}
	return base, nil
}

// alive returns an integration that can be used, as it was a second ago or
// later.
func (t *Tokens) alive(ctx context.Context, in action.Integration) (owned, error) {
	at := place{in.Organization, in.ID}
	h, err := t.look(ctx, at)
	if err == nil && (h.in.BaseURL != in.BaseURL || h.in.Kind != in.Kind) {
		h, err = t.reread(ctx, at)
	}
	switch {
	case errors.Is(err, action.ErrNotFound):
		return h, failing(sources.FaultReconnect, err, "The integration was disconnected; somebody must connect it again.")
	case err != nil:
		return h, unread(err)
	case h.in.Status != action.IntegrationActive:
		return h, t.over(&h.in)
	case h.in.BaseURL != in.BaseURL || h.in.Kind != in.Kind:
		return h, newer()
	}
	return h, nil
}

// token returns a token that is good as far as is known here.
func (t *Tokens) token(ctx context.Context, h *owned) (string, error) {
	switch k := h.in.Kind; {
	case k == action.KindNone:
		return "", nil
	case k == action.KindOAuth2 && h.in.Broker == action.BrokerOwn:
		return t.access(ctx, h)
	case k == action.KindOAuth2 || k == action.KindApp:
		return t.mint(ctx, h, "")
	case h.cred.Value == "":
		return "", failing(sources.FaultReconnect, nil, "The integration has no credential any more; somebody must connect it again.")
	}
	return h.cred.Value, nil
}

// over says that only a person can help, after why.
func (t *Tokens) over(in *action.Integration) *action.Error {
	reason := in.Reason
	if reason == "" {
		reason = fmt.Sprintf("The connection to %s is %s; connect it again.", t.title(in.Provider), in.Status)
	}
	if in.User != "" { // or it would be looked for among the organization's
		return failing(sources.FaultReconnect, errDead, "%s It is a user's own connection: that user must do it, on the page of integrations.", reason)
	}
	return failing(sources.FaultReconnect, errDead, "%s A person must do that, on the page of integrations.", reason)
}

// title is how people call a provider.
func (t *Tokens) title(provider string) string {
	if m := t.modules[provider]; m != nil {
		return m.Title
	}
	return provider
}

// failing is an error of what happens before the service is asked anything:
// whatever became of it, the service did nothing for the caller. So the cause is
// kept as text, and no kind of its own shines through.
func failing(code string, cause error, format string, args ...any) *action.Error {
	e := action.Errorf(action.ErrUnavailable, code, format, args...)
	switch {
	case errors.Is(cause, errDead):
		e.Err = errDead
	case cause != nil:
		e.Err = errors.New(cause.Error())
	}
	return e
}

// unanswered is unsent for what was merely asked: nothing was to be done at the
// service, so that nothing is in doubt when it does not answer.
func unanswered(who string, err error) error {
	if !errors.Is(err, action.ErrOutcomeUnknown) {
		return unsent(err)
	}
	shown, what := action.Public(err), "gave no answer that can be used"
	if shown.Code == sources.FaultTimeout {
		what = "did not answer in time"
	}
	return failing(shown.Code, shown.Err, "%s %s; try again later.", who, what)
}

// unsent is failing for an error that says what to do.
func unsent(err error) error {
	if err == nil {
		return nil
	}
	shown := action.Public(err)
	e := failing(shown.Code, shown.Err, "%s", shown.Message)
	e.RetryAfter = shown.RetryAfter
	return e
}
