// Package sources provides actions. A [Source] lists tools and runs them; the
// [Catalog] collects the sources of each organization, compiles their tools to
// actions and caches them.
//
// It guarantees: what a source lists reaches agents unchanged except for the
// name or URI; unusable items are left out with a warning, and nothing that a
// source lists makes the gateway panic or hang; a failing source keeps its last
// good list, and one that never answered shows an error rather than an empty
// list; [Config.Observe] records what a connector lists before any agent sees
// it; names of tools and prompts and the URIs of resources are unique in an
// organization and the same on every instance; a source that keeps announcing
// changes costs a bounded number of requests; organizations share nothing.
//
// Resources, templates and prompts are not actions but lists of their own, see
// [Catalog.Offerings]. They are read through two actions of each source that
// has them; these two are the gateway's own code and are not tools.
//
// A [Module] is a service with built-in support. Its actions are in the catalog
// of every organization, connected or not, and are compiled like the tools of a
// server. The integration and the credential of a call are determined when it
// runs. A refusal of the service is a result, from which the credential is
// redacted.
//
// It makes no policy decisions, and only the Gate runs an action.
package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/defaults"
)

// Catalog holds the actions of every organization. It implements [gate.Catalog]
// and is safe for concurrent use.
type Catalog struct {
	Config

	readParams, getParams *checker // of resources/read and prompts/get
	services              []*service
	platform              *platformSource

	ctx        context.Context // of background work
	cancel     context.CancelFunc
	background sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	tenants map[string]*tenant
}

// New returns a catalog. It makes no requests.
func New(c Config) (*Catalog, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	cat := &Catalog{Config: c, tenants: map[string]*tenant{}}
	if cat.readParams, _, err = newChecker(json.RawMessage(readSchemaText), c.Budget); err != nil {
		return nil, err
	}
	if cat.getParams, _, err = newChecker(json.RawMessage(getSchemaText), c.Budget); err != nil {
		return nil, err
	}
	if cat.services, err = newServices(cat); err != nil {
		return nil, err
	}
	if cat.platform, err = newPlatformSource(c.Platform, c.Budget); err != nil {
		return nil, err
	}
	cat.ctx, cat.cancel = context.WithCancel(context.Background())
	return cat, nil
}

// Close cancels background work, closes the sources and waits for both.
func (c *Catalog) Close() error {
	c.mu.Lock()
	c.closed = true
	tenants := c.tenants
	c.tenants = map[string]*tenant{}
	c.mu.Unlock()
	c.cancel()
	for _, t := range tenants {
		t.close()
	}
	c.background.Wait()
	return nil
}

// goTracked runs f in a goroutine that Close waits for. It reports false after
// Close.
func (c *Catalog) goTracked(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.background.Go(f)
	return true
}

func (c *Catalog) tenant(organization string) *tenant {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[organization]
	if t == nil {
		t = newTenant(c, organization)
		if !c.closed {
			c.tenants[organization] = t
		}
	}
	return t
}

// Invalidate drops the cached connectors and integrations of the organization:
// the next call reads them again, and retries sources that failed. The lists of
// unchanged sources stay cached.
func (c *Catalog) Invalidate(organization string) {
	c.mu.Lock()
	t := c.tenants[organization]
	c.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.invalidations++
	t.loaded = time.Time{}
	t.freshUntil.Store(0)
	for _, f := range t.feeds {
		f.retryAt = time.Time{}
	}
}

// List implements [gate.Catalog]. It waits up to Config.Patience for sources
// that have no current list; their refresh continues in the background.
func (c *Catalog) List(ctx context.Context, organization string) ([]*action.Action, string, error) {
	v, err := c.view(ctx, organization)
	if err != nil {
		return nil, "", err
	}
	return v.actions, v.version, nil
}

// Offerings implements [gate.Catalog]. It waits as List does.
func (c *Catalog) Offerings(ctx context.Context, organization string) (*action.Offerings, error) {
	v, err := c.view(ctx, organization)
	if err != nil {
		return nil, err
	}
	return v.offerings, nil
}

// view returns the organization's current view and marks it as served, so that
// a change of it is published.
func (c *Catalog) view(ctx context.Context, organization string) (*view, error) {
	t := c.tenant(organization)
	v := t.cachedView()
	if v == nil {
		if err := t.load(ctx, false); err != nil {
			return nil, err
		}
		t.awaitRefreshes(ctx)
		v = t.view.Load()
	}
	// A builder of the next view reads served after it stores that view, so a
	// new view is either seen here or published as a change.
	for !v.served.Load() {
		v.served.Store(true)
		v = t.view.Load()
	}
	return v, nil
}

// Find implements [gate.Catalog].
func (c *Catalog) Find(ctx context.Context, organization, source, name string, fresh bool) (*action.Action, error) {
	t := c.tenant(organization)
	if source == action.Platform {
		name = cmp.Or(c.platform.resolveAlias(name), name)
	}
	key := action.Key{Source: source, Action: name}
	if i := slices.IndexFunc(c.Hidden, func(a *action.Action) bool { return a.Key() == key }); i >= 0 {
		return c.Hidden[i], nil
	}
	if !fresh {
		if v := t.cachedView(); v != nil && v.index[key] != nil {
			return v.index[key], nil
		}
	}
	if err := t.load(ctx, fresh); err != nil {
		return nil, err
	}
	called, err := t.awaitSource(ctx, source, fresh)
	if err != nil {
		return nil, err
	}
	if a := t.view.Load().index[key]; a != nil {
		return a, nil
	}
	return nil, action.Errorf(action.ErrNotFound, "action_not_found", "%s has no action %s. List the actions again.", quote(called), quote(name))
}

// awaitSource waits until the actions of a source are known, or refreshed if
// fresh is set, and returns the name of the source. Actions of modules are
// always known.
func (t *tenant) awaitSource(ctx context.Context, source string, fresh bool) (called string, err error) {
	if source == action.Platform && t.Platform != nil {
		return t.platform.Title, nil
	}
	for _, s := range t.services {
		if s.ID == source {
			return s.Title, nil
		}
	}
	f, err := t.feed(source)
	switch {
	case err != nil:
		return "", err
	case fresh:
		err = f.refreshIfStale(ctx)
	default:
		err = f.awaitFirst(ctx)
	}
	return f.name(), err
}

// Config configures a [Catalog].
type Config struct {
	// Connectors returns the organization's connectors, including disabled
	// ones. Required.
	Connectors func(ctx context.Context, organization string) ([]action.Connector, error)
	// Open returns the source of an enabled connector without making a request.
	// It is called once for each revision. Required.
	Open func(c action.Connector) (Source, error)
	// Observe records the tools that an enabled connector lists, by their names
	// at its server: once per process and again whenever the list changes,
	// always before an agent sees any of the tools. While it fails, the list
	// counts as failed to fetch. Nil: not recorded.
	Observe func(ctx context.Context, c action.Connector, tools map[string]action.ToolVersion) error
	// Hints publishes changed lists. Nil: not published.
	Hints action.Hints
	// Modules are the services with built-in support. If there are any, the
	// next four fields are required.
	Modules []*Module
	// Platform has the gateway's own tools. Nil: none.
	Platform *Platform
	// Hidden are actions of every organization that are not listed, because agents
	// do not make their calls by name.
	Hidden []*action.Action
	// Integrations returns an organization's integrations that are not deleted.
	Integrations func(ctx context.Context, organization string) ([]action.Integration, error)
	// Session returns a session by its ID. Callers do not modify it.
	Session func(ctx context.Context, id string) (*action.Session, error)
	// Connect returns the connection with which a module acts for an
	// integration.
	Connect func(ctx context.Context, in action.Integration) (*Conn, error)
	// CredentialRefused reports that the service refused the integration's
	// credential, which was token. Again: there is a new one to try once.
	CredentialRefused func(ctx context.Context, in action.Integration, token, why string) (again bool, err error)
	// Reserved are tool names that no source may use.
	Reserved []string
	// ReservedPrompts are prompt names that no source may use.
	ReservedPrompts []string

	Timing
	Reload   time.Duration // how long connectors are cached; zero: 1 s
	Fresh    time.Duration // and how long it counts as fresh; zero: 1 s
	Patience time.Duration // how long List waits for sources; zero: 3 s
	Retry    time.Duration // delay before a failed source is retried, doubled after each failure up to 2 min, and up to 10 min if the source asks for it; zero: 5 s
	Call     time.Duration // timeout of a module call if the integration sets none; zero: 30 s
	Budget   time.Duration // of one check against an expensive schema; zero: 250 ms

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: slog.Default
}

// Timing is the intervals of lists that are flags of the server. Zero means the
// default.
type Timing struct {
	Timeout time.Duration `default:"15s" help:"Timeout of listing a connector's tools (default: ${default})." name:"list-timeout" placeholder:"D"`
	TTL     time.Duration `default:"5m" help:"How long a connector's tool list is cached (default: ${default})." name:"list-for" placeholder:"D"`
}

// Upper bounds of the delay before a failed source is retried: by default, and
// at the source's request.
const (
	maxRetry = 2 * time.Minute
	maxAsked = 10 * time.Minute
)

// askTimeout bounds a call whose source may ask the caller a question: the
// answer takes a person's time.
const askTimeout = 2 * time.Minute

func (c Config) complete() (Config, error) {
	if c.Connectors == nil || c.Open == nil {
		return c, errors.New("sources: Config.Connectors and Config.Open are required")
	}
	if len(c.Modules) > 0 && (c.Integrations == nil || c.Session == nil || c.Connect == nil || c.CredentialRefused == nil) {
		return c, errors.New("sources: with Config.Modules, Config.Integrations, Session, Connect and Refused are required")
	}
	defaults.Set(&c.Timing)
	for _, d := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&c.Reload, time.Second},
		{&c.Fresh, time.Second},
		{&c.Patience, 3 * time.Second},
		{&c.Retry, 5 * time.Second},
		{&c.Call, 30 * time.Second},
		{&c.Budget, 250 * time.Millisecond},
	} {
		if *d.value <= 0 {
			*d.value = d.zero
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, nil
}
