package credential

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
