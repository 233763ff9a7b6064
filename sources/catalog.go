package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"

	"sallyport/action"
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
	if t != nil {
		t.invalidate()
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
