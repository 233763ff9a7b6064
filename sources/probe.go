package sources

import (
	"context"
	"time"

	"sallyport/action"
)

// Probe reaches a connector now and returns its state, with the steps and the
// error of just that. It is opened for this once, so that neither a session that
// is there nor a circuit that is open stands in for the server. One that is saved
// and enabled is asked for its list then, too, unless it cannot be reached: the
// rest of the state is that of what agents use.
func (c *Catalog) Probe(ctx context.Context, con action.Connector) (State, error) {
	t := c.tenant(con.Organization)
	if err := t.load(ctx, true); err != nil {
		return State{}, err
	}
	now, fault, err := t.probe(ctx, con)
	f := t.saved(con)
	if err != nil || f == nil {
		return now, err
	}
	if fault != nil {
		f.blame(fault)
	} else {
		f.excuse()
		_ = f.since(ctx, 0) // its error is in the state
	}
	s := c.State(con)
	s.Steps = now.Steps
	if fault != nil || now.FetchedAt != nil && s.Error != nil && s.Error.Code == FaultOpen {
		s.Error = now.Error
	}
	return s, nil
}

// probe looks at a connector through a tenant of its own. The fault is why it
// cannot be listed; nil too when ctx ended before that was known.
func (t *tenant) probe(ctx context.Context, con action.Connector) (s State, fault, err error) {
	apart := newTenant(t.Catalog, con.Organization)
	apart.quiet = true
	defer apart.close()
	enabled := con.Enabled
	con.Enabled = true
	apart.adopt([]action.Connector{con}, nil, nil, 1, 0, t.Now())
	f, err := apart.feed(con.Source())
	if err != nil {
		return State{}, nil, err
	}
	_ = f.refreshed(ctx)
	s = apart.stateOf(con)
	s.Enabled = enabled
	return s, f.fault(), nil
}

// saved returns the feed of a connector as it is saved and enabled, or nil.
func (t *tenant) saved(con action.Connector) *feed {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.feeds[con.Source()]; f != nil && f.connector.Revision == con.Revision {
		return f
	}
	return nil
}

func (f *feed) fault() error {
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	return f.err
}

// blame notes what was found to be wrong with the source, while its list is not
// asked for.
func (f *feed) blame(fault error) {
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	f.err = fault
}

// excuse forgets that the source failed, so that it is asked again at once.
func (f *feed) excuse() {
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	f.err, f.retry = nil, time.Time{}
}
