package sources

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// tenant caches the state of one organization.
type tenant struct {
	*Catalog
	organization string
	ephemeral    bool // for a probe: publishes and records nothing

	view       atomic.Pointer[view]
	freshUntil atomic.Int64 // the view is served without further checks until then, in Unix ns

	loading chan struct{} // semaphore of size one: reading connectors and integrations
	reads   atomic.Int64  // counts reads of them

	mu            sync.Mutex // guards the fields below, and the fields of the feeds
	loaded        time.Time  // when the connectors and integrations were read
	readSeq       int64      // number of that read
	connectors    []action.Connector
	modules       []moduleView         // nil: integrations were never read
	integrations  []action.Integration // as read last, without deleted ones; read-only
	invalidations int                  // counts calls of Invalidate
	feeds         map[string]*feed     // of enabled connectors, by source ID
	changes       changeCounts         // announced by sources
	closed        bool
}

func newTenant(c *Catalog, organization string) *tenant {
	t := &tenant{Catalog: c, organization: organization, loading: make(chan struct{}, 1), feeds: map[string]*feed{}}
	t.view.Store(&view{offerings: &action.Offerings{}, routes: &routes{}})
	return t
}

// cachedView returns the view if it needs no check, or nil.
func (t *tenant) cachedView() *view {
	if t.Now().UnixNano() < t.freshUntil.Load() {
		return t.view.Load()
	}
	return nil
}

// load reads the connectors and integrations if the last read is too old, or,
// with force, if no read has begun since the call.
func (t *tenant) load(ctx context.Context, force bool) error {
	asked := t.reads.Load()
	select {
	case t.loading <- struct{}{}:
		defer func() { <-t.loading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.mu.Lock()
	good := !t.loaded.IsZero() && (t.readSeq > asked || !force && t.Now().Sub(t.loaded) < t.Reload)
	forgot := t.invalidations
	t.mu.Unlock()
	if good {
		return nil
	}
	read, now := t.reads.Add(1), t.Now()
	list, err := t.Connectors(ctx, t.organization)
	if err != nil {
		return fmt.Errorf("reading the connectors of %s: %w", t.organization, err)
	}
	var present []moduleView
	var all []action.Integration
	if len(t.services) > 0 {
		all, err = t.Integrations(ctx, t.organization)
		if err != nil {
			return fmt.Errorf("reading the integrations of %s: %w", t.organization, err)
		}
		present = t.presentModules(all)
	}
	t.apply(list, all, present, read, forgot, now)
	return nil
}

// apply opens the sources of new connectors, closes those of removed ones and
// keeps the rest.
func (t *tenant) apply(list []action.Connector, all []action.Integration, present []moduleView, read int64, forgot int, now time.Time) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	if t.invalidations != forgot { // invalidated during the read: the next call reads again
		now = time.Time{}
	}
	t.loaded, t.readSeq, t.connectors = now, read, slices.Clone(list)
	feeds := make(map[string]*feed, len(list))
	differs := t.view.Load().version == "" || !slices.Equal(t.modules, present)
	t.modules, t.integrations = present, all
	for _, con := range list {
		if !con.Enabled {
			continue
		}
		f := t.feeds[con.Source()]
		if f == nil || f.connector.Revision != con.Revision {
			f = t.open(con)
		}
		differs = differs || visibleFields(f.connector) != visibleFields(con)
		f.connector = con
		feeds[con.Source()] = f
	}
	var old []*feed
	for id, f := range t.feeds {
		if feeds[id] != f {
			old = append(old, f)
		}
	}
	t.feeds = feeds
	changed := false
	if differs || len(old) > 0 {
		changed = t.rebuildLocked()
	}
	t.updateExpiryLocked()
	t.mu.Unlock()
	for _, f := range old { // in the background: closing waits for running calls
		if !t.goTracked(f.close) {
			f.close()
		}
	}
	t.publishChange(changed)
}

// visibleFields returns the fields of a connector that its actions show. A new
// revision opens a new feed anyway.
func visibleFields(c action.Connector) any {
	return struct {
		name, slug string
		risk       action.Risk
		risks      string
		review     action.ReviewRule
		asks       string
		timeout    int
		created    int64
	}{c.Name, c.Slug, c.DefaultRisk, fmt.Sprintf("%q", c.Risks), c.Review, fmt.Sprintf("%q", c.MayAsk), c.TimeoutSeconds, c.CreatedAt.UnixNano()}
}

// feed returns the feed of a source, or ErrNotFound.
func (t *tenant) feed(source string) (*feed, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.feeds[source]; f != nil {
		return f, nil
	}
	for _, con := range t.connectors {
		if con.Source() == source {
			return nil, action.NewError("source_disabled", quote(con.Name))
		}
	}
	return nil, action.Errorf(action.ErrNotFound, "source_not_found", "There is no source %s. List the actions again.", quote(source))
}

// awaitRefreshes starts due refreshes and waits for them, for each no longer
// than Patience after its start.
func (t *tenant) awaitRefreshes(ctx context.Context) {
	t.mu.Lock()
	var flights []*refreshRun
	for _, f := range t.feeds {
		if fl := f.refreshIfDueLocked(); fl != nil {
			flights = append(flights, fl)
		}
	}
	t.mu.Unlock()
	for _, fl := range flights {
		left := time.NewTimer(t.Patience - t.Now().Sub(fl.started))
		select {
		case <-fl.done:
		case <-left.C:
		case <-ctx.Done():
		}
		left.Stop()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.updateExpiryLocked()
}

// updateExpiryLocked sets how long the view is served without further checks.
func (t *tenant) updateExpiryLocked() {
	until := t.loaded.Add(t.Reload)
	for _, f := range t.feeds {
		if f.worthAwaitingLocked() {
			until = time.Time{}
		}
	}
	if t.loaded.IsZero() || until.IsZero() {
		t.freshUntil.Store(0)
		return
	}
	t.freshUntil.Store(until.UnixNano())
}

func (t *tenant) publishChange(changed bool) {
	if changed && t.Hints != nil && !t.ephemeral {
		t.Hints.Publish(action.Hint{Kind: action.HintCatalog, Organization: t.organization})
	}
}

func (t *tenant) close() {
	t.mu.Lock()
	t.closed = true
	old := make([]*feed, 0, len(t.feeds))
	for _, f := range t.feeds {
		old = append(old, f)
	}
	t.feeds = nil
	t.freshUntil.Store(0)
	t.mu.Unlock()
	// In parallel: closing the session of an unresponsive server takes seconds.
	var group sync.WaitGroup
	for _, f := range old {
		group.Go(f.close)
	}
	group.Wait()
}
