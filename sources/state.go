package sources

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

// State is the state of a source, for people.
type State struct {
	Source       string       `json:"source_id"`
	Name         string       `json:"name"`
	Slug         string       `json:"slug"`
	Enabled      bool         `json:"enabled"`
	Tools        int          `json:"tools"`
	Resources    int          `json:"resources"`
	Templates    int          `json:"resource_templates"`
	Prompts      int          `json:"prompts"`
	Capabilities Capabilities `json:"offers"`
	Warnings     []string     `json:"warnings,omitempty"`
	Error        *Diagnosis   `json:"error,omitempty"`      // of the last attempt; the tools are from the last successful one
	FetchedAt    *time.Time   `json:"fetched_at,omitempty"` // of the tools; absent: never fetched
	Protocol     string       `json:"protocol_version,omitempty"`
	// SharedState says why agents should not share a session with the server;
	// empty: nothing suggests it, or each has its own.
	SharedState string     `json:"shared_state,omitempty"`
	Server      string     `json:"server,omitempty"`   // name that the server gives itself; untrusted
	Checking    bool       `json:"checking,omitempty"` // a refresh is in progress
	RetryAt     *time.Time `json:"retry_at,omitempty"` // no attempt before that time
	// CircuitOpen says that calls fail immediately until RetryAt.
	CircuitOpen bool   `json:"circuit_open,omitempty"`
	Steps       []Step `json:"steps,omitempty"` // of the last handshake and list

	Actions []*action.Action `json:"-"` // tools ordered by name, then other actions; read-only
}

// Diagnosis is a problem of a source: one of the Fault codes, and a sentence.
type Diagnosis struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// States returns the state of every connector of the organization, ordered by
// name. It waits for sources as List does.
func (c *Catalog) States(ctx context.Context, organization string) ([]State, error) {
	t := c.tenant(organization)
	if err := t.load(ctx, true); err != nil {
		return nil, err
	}
	t.awaitRefreshes(ctx)
	t.mu.Lock()
	connectors := t.connectors
	t.mu.Unlock()
	list := make([]State, 0, len(connectors))
	for _, con := range connectors {
		list = append(list, t.stateOf(con))
	}
	slices.SortStableFunc(list, func(a, b State) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// State returns the current state of one connector without making a request.
func (c *Catalog) State(con action.Connector) State {
	t := c.tenant(con.Organization)
	return t.stateOf(con)
}

func (t *tenant) stateOf(con action.Connector) State {
	t.mu.Lock()
	s, source := t.stateLocked(con)
	t.mu.Unlock()
	// Not under the mutex: a source may hold its own while it calls back.
	if source != nil {
		s.open(source.Circuit())
		s.Steps = source.Steps()
	}
	return s
}

// open records an open circuit. An earlier error stays, since it says what to
// do; CircuitOpen already says that calls fail immediately.
func (s *State) open(open bool, until time.Time) {
	if !open {
		return
	}
	until = until.UTC()
	s.CircuitOpen, s.RetryAt = true, &until
	if s.Error == nil {
		s.Error = &Diagnosis{Code: FaultOpen, Message: fmt.Sprintf(
			"The server failed repeatedly, so calls fail immediately until %s and are then retried automatically. If this continues, check that the server is running.",
			until.Format("15:04:05 UTC"))}
	}
}

func (t *tenant) stateLocked(con action.Connector) (s State, source Source) {
	s = State{Source: con.Source(), Name: con.Name, Slug: con.Slug, Enabled: con.Enabled}
	f := t.feeds[con.Source()]
	if f == nil || f.connector.URL != con.URL { // the feed is of another server
		return s, nil
	}
	s.Tools, s.Warnings, s.Protocol, s.Server, s.Checking = len(f.tools), slices.Clone(f.warnings), f.protocol, f.server, f.refresh != nil
	s.Resources, s.Templates, s.Prompts, s.Capabilities = len(f.offerings.resources.items), len(f.offerings.templates.items), len(f.offerings.prompts.items), f.offerings.capabilities
	if !con.PerAgent && len(con.MayAsk) == 0 {
		s.SharedState = sharedState(f.tools)
	}
	if !f.fetchedAt.IsZero() {
		asked := f.fetchedAt.UTC()
		s.FetchedAt = &asked
	}
	if f.err != nil {
		e := diagnose(f.err)
		s.Error = &Diagnosis{Code: e.Code, Message: strings.TrimSpace(e.Message + " " + advice(e.Code))}
	}
	if f.err != nil && f.retryAt.After(t.Now()) {
		retry := f.retryAt.UTC()
		s.RetryAt = &retry
	}
	for _, tl := range f.tools {
		if n := tl.checker.rejected.Load(); n > 0 {
			s.Warnings = append(s.Warnings, fmt.Sprintf("Tool %s has a schema that is expensive to check; %d calls were rejected because of it.", quote(tl.name), n))
		}
	}
	for _, a := range t.view.Load().actions {
		if a.Source == con.Source() {
			s.Actions = append(s.Actions, a)
		}
	}
	return s, f.source
}

// advice is what an admin can do about a fault, in addition to its message.
// Agents see the message, too, but cannot follow this advice.
func advice(code string) string {
	switch code {
	case FaultTimeout:
		return "Check that the server is running and not overloaded, then validate the connector again."
	case FaultFailed:
		return "Check the server's own log, then validate the connector again."
	case FaultProtocol:
		return "Check that the URL is that of the MCP endpoint and that the server is up to date."
	case FaultTooLarge:
		return "Make the server list less, or use smaller pages."
	case FaultRefused:
		return "Check the connector's URL and headers, and the server's own log."
	}
	return ""
}

// Outages returns the connectors of the organization that did not answer when
// their tools were last requested, by name. It makes no requests.
func (c *Catalog) Outages(organization string) (list []action.Outage) {
	t := c.tenant(organization)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.feeds {
		if f.err != nil {
			list = append(list, action.Outage{
				Source: f.connector.Source(), Name: f.connector.Name, Reason: diagnose(f.err).Message, Since: f.failingSince.UTC(), Listed: !f.fetchedAt.IsZero(),
			})
		}
	}
	slices.SortFunc(list, func(a, b action.Outage) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Health is the health of a connector as this process sees it.
type Health struct {
	Source  string
	Healthy bool // the last list succeeded and the circuit is closed
}

// Health returns the health of every enabled connector that was used, in all
// organizations, ordered by source ID. It makes no requests.
func (c *Catalog) Health() []Health {
	c.mu.Lock()
	tenants := slices.Collect(maps.Values(c.tenants))
	c.mu.Unlock()
	var all []Health
	for _, t := range tenants {
		all = append(all, t.health()...)
	}
	slices.SortFunc(all, func(a, b Health) int { return strings.Compare(a.Source, b.Source) })
	return all
}

func (t *tenant) health() []Health {
	var asked []Health
	var of []Source
	t.mu.Lock()
	for _, con := range t.connectors {
		if f := t.feeds[con.Source()]; f != nil && con.Enabled && (f.err != nil || !f.fetchedAt.IsZero()) {
			asked, of = append(asked, Health{Source: con.Source(), Healthy: f.err == nil}), append(of, f.source)
		}
	}
	t.mu.Unlock()
	for i, source := range of { // not under the mutex: see stateOf
		if source == nil {
			continue
		}
		if open, _ := source.Circuit(); open {
			asked[i].Healthy = false
		}
	}
	return asked
}

// Probe connects to a connector now and returns its state, with the steps and
// the error of that attempt. It opens a new source, so that neither an existing
// session nor an open circuit hides the state of the server. If the connector
// is saved, enabled and reachable, its list is refreshed, too: the rest of the
// state is that of the source in use.
func (c *Catalog) Probe(ctx context.Context, con action.Connector) (State, error) {
	t := c.tenant(con.Organization)
	if err := t.load(ctx, true); err != nil {
		return State{}, err
	}
	now, fault, err := t.probeConnector(ctx, con)
	t.mu.Lock()
	f := t.feeds[con.Source()]
	saved := err == nil && f != nil && f.connector.Revision == con.Revision
	if saved {
		if f.setErrorLocked(fault); fault == nil {
			f.retryAt = time.Time{} // the source is retried at once
		}
	}
	t.mu.Unlock()
	if !saved {
		return now, err
	}
	if fault == nil {
		_ = f.refreshOlderThan(ctx, 0) // the state has its error
	}
	s := c.State(con)
	s.Steps = now.Steps
	if fault != nil || now.FetchedAt != nil && s.Error != nil && s.Error.Code == FaultOpen {
		s.Error = now.Error
	}
	return s, nil
}

// probeConnector connects to a connector with a tenant of its own. fault is why
// it cannot be listed; it is nil, too, if ctx ended first.
func (t *tenant) probeConnector(ctx context.Context, con action.Connector) (s State, fault, err error) {
	apart := newTenant(t.Catalog, con.Organization)
	apart.ephemeral = true
	defer apart.close()
	enabled := con.Enabled
	con.Enabled = true
	apart.apply([]action.Connector{con}, nil, nil, 1, 0, t.Now())
	f, err := apart.feed(con.Source())
	if err != nil {
		return State{}, nil, err
	}
	_ = f.refreshIfStale(ctx)
	s = apart.stateOf(con)
	s.Enabled = enabled
	apart.mu.Lock()
	defer apart.mu.Unlock()
	return s, f.err, nil
}
