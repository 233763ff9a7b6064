package dashboard_test

import (
	"context"
	"net/url"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

// servers are what the connectors' servers and their authorization servers do.
type servers struct {
	signedIn []action.OAuthGrant
	document []byte          // that describes the gateway
	hostile  bool            // what the servers say of themselves is
	asked    string          // by the source of every call
	flows    map[string]flow // by state
	tried    []string        // secrets that were tried, and not kept
	issuer   string          // of the authorization server; empty: that of its own host
	left     []parting
	away     error // what services that are to take something back, and the rows of their tokens, answer
	lookedUp int   // tokens, one by one
}

// parting is a connector whose tokens were given back, as it was then.
type parting struct {
	url      string
	client   string
	there    bool // the connector was still so
	deadline time.Duration
}

// flow is a sign-in that a person began.
type flow struct{ organization, connector, by string }

// State and Probe: every connector lists what the harness' catalog does.
func (m *memory) State(_ context.Context, c action.Connector) dashboard.ConnectorState {
	if m.hostile {
		return dashboard.ConnectorState{
			Error: hostile, Diagnosis: &dashboard.Diagnosis{Code: "upstream_failed", Message: hostile}, Warnings: []string{hostile}, Protocol: hostile,
			Steps: []dashboard.Step{{Name: hostile, Took: time.Second, Detail: hostile}}, RetryAt: m.now(), Tools: besideOf(c.Source()),
		}
	}
	switch c.URL {
	case "http://down.example/mcp":
		return dashboard.ConnectorState{
			Error: "The server did not answer.", Diagnosis: &dashboard.Diagnosis{Code: "upstream_unreachable", Message: "The server did not answer."},
			RetryAt: m.now().Add(time.Minute), Steps: []dashboard.Step{{Name: "dns", Took: 2 * time.Millisecond}},
		}
	case "http://open.example/mcp":
		return dashboard.ConnectorState{
			Error: "It failed again and again.", Diagnosis: &dashboard.Diagnosis{Code: "upstream_circuit_open", Message: "It failed again and again."},
			RetryAt: m.now().Add(time.Minute), CircuitOpen: true,
		}
	case "http://new.example/mcp": // until it is asked
		return dashboard.ConnectorState{}
	case "http://empty.example/mcp":
		return dashboard.ConnectorState{FetchedAt: m.now()}
	}
	return dashboard.ConnectorState{
		Tools: append(actionsOf(c.Source()), besideOf(c.Source())...), Warnings: []string{"1 tool was dropped"}, FetchedAt: m.now(),
		Protocol: "2025-11-25", Resources: 3, Templates: 1, Prompts: 2,
		Steps: []dashboard.Step{{Name: "tls", Took: 1500 * time.Microsecond, Detail: "TLS 1.3"}, {Name: "tools", Took: 40 * time.Millisecond}},
	}
}

func (m *memory) Probe(ctx context.Context, c action.Connector) (dashboard.ConnectorState, error) {
	if c.URL == "http://new.example/mcp" {
		c.URL = "http://asked.example/mcp"
	}
	state := m.State(ctx, c)
	if c.URL == "http://failing.example/mcp" {
		state.Error = "The server did not answer just now."
	}
	return state, nil
}

func (m *memory) Try(ctx context.Context, c action.Connector, secret string) (dashboard.ConnectorState, error) {
	m.mu.Lock()
	m.tried = append(m.tried, c.Prefix+secret)
	m.mu.Unlock()
	return m.Probe(ctx, c)
}

func (m *memory) Begin(_ context.Context, c action.Connector, by string) (authorizeURL, issuer string, err error) {
	if c.OAuth == nil {
		return "", "", action.Errorf(action.ErrInvalid, "no_oauth", "The connector has no OAuth.")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flows == nil {
		m.flows = map[string]flow{}
	}
	state := "state-" + c.ID
	m.flows[state] = flow{c.Organization, c.ID, by}
	return "https://login.example/authorize?state=" + url.QueryEscape(state), or(m.issuer, "https://login.example"), nil
}

func (m *memory) Finish(_ context.Context, organization, by, state, code, iss, problem string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.flows[state]
	if !ok || f.organization != organization || f.by != by {
		return "", action.Errorf(action.ErrNotFound, "no_such_sign_in", "This sign-in was not begun here, or is over; begin again.")
	}
	delete(m.flows, state)
	if problem != "" || code == "" {
		return "", action.Errorf(action.ErrForbidden, "sign_in_refused", "The service said no: %s. Begin again.", problem)
	}
	m.signedIn = append(m.signedIn, action.OAuthGrant{
		Organization: organization, Connector: f.connector, Issuer: iss, Scope: "read write", Status: action.OAuthConnected, By: by, UpdatedAt: m.now(),
	})
	m.recordLocked(organization, action.EventConnector, f.connector, by)
	return f.connector, nil
}

func (m *memory) Disconnect(ctx context.Context, c action.Connector, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := parting{url: c.URL, there: slices.ContainsFunc(m.connectors, func(o action.Connector) bool { return o.ID == c.ID && o.URL == c.URL && o.OAuth == c.OAuth })}
	if c.OAuth != nil {
		p.client = c.OAuth.ClientID
	}
	if end, ok := ctx.Deadline(); ok {
		p.deadline = time.Until(end).Round(5 * time.Second)
	}
	if m.left = append(m.left, p); m.away != nil {
		return m.away
	}
	m.signedIn, _ = without(m.signedIn, func(g action.OAuthGrant) bool { return g.Organization == c.Organization && g.Connector == c.ID })
	m.recordLocked(c.Organization, action.EventConnector, c.ID, by)
	return nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (m *memory) ClientMetadata() []byte { return m.document }

// signIns are the memory's: another of its methods is called Grant.
type signIns struct{ *memory }

func (s signIns) Grant(_ context.Context, organization, connector string) (action.OAuthGrant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookedUp++
	g, err := find("sign_in", s.signedIn, func(g action.OAuthGrant) bool { return g.Organization == organization && g.Connector == connector })
	if err != nil {
		return action.OAuthGrant{}, err
	}
	return *g, nil
}

func (s signIns) Grants(_ context.Context, organization string) (list []action.OAuthGrant, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.signedIn {
		if g.Organization == organization {
			list = append(list, g)
		}
	}
	return list, s.away
}

// besideOf are the actions of a source that are no tools.
func besideOf(source string) []*action.Action {
	return []*action.Action{
		{Source: source, SourceName: "GitHub", Name: action.ActionPrompt, Risk: action.RiskRead, Hash: "prompts", Check: check},
		{Source: source, SourceName: "GitHub", Name: action.ActionRead, Risk: action.RiskRead, Hash: "resources", Check: check},
	}
}
