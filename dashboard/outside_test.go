package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/store"
)

// outside plays what lies outside of the gateway: the servers of connectors,
// services, and where people sign in to both. What comes of it is in the rows.
type outside struct {
	db *store.DB
	mu sync.Mutex

	document []byte          // that describes the gateway
	server   string          // the name that all servers give themselves
	hostile  bool            // what the servers say of themselves is
	flows    map[string]flow // sign-ins to connectors, by state
	tried    []string        // secrets that were tried, and not kept
	issuer   string          // of the authorization server; empty: that of its own host
	left     []parting
	away     error // what services that are to take something back, and the rows of their tokens, answer
	lookedUp int   // tokens, one by one

	wishes      []action.ConnectRequest
	begun       map[string]action.ConnectRequest // by state
	answers     []action.ConnectCallback
	secretsSent map[string]string // of the last registration that was sealed
	dead        map[string]bool   // credentials that their service takes no more, by account
	queried     url.Values        // of metadata
	ended       []string          // ids that were disconnected
	stubborn    bool              // services do not take credentials back
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
func (m *outside) State(_ context.Context, c action.Connector) dashboard.ConnectorState {
	if m.hostile {
		return dashboard.ConnectorState{
			Error: hostile, Diagnosis: &api.Diagnosis{Code: "upstream_failed", Message: hostile}, Warnings: []string{hostile}, Protocol: hostile,
			Steps: []dashboard.Step{{Name: hostile, Took: time.Second, Detail: hostile}}, RetryAt: m.db.Now(), Tools: besideOf(c.Source()),
		}
	}
	switch c.URL {
	case "http://down.example/mcp":
		return dashboard.ConnectorState{
			Error: "The server did not answer.", Diagnosis: &api.Diagnosis{Code: "upstream_unreachable", Message: "The server did not answer."},
			RetryAt: m.db.Now().Add(time.Minute), Steps: []dashboard.Step{{Name: "dns", Took: 2 * time.Millisecond}},
		}
	case "http://open.example/mcp":
		return dashboard.ConnectorState{
			Error: "It failed again and again.", Diagnosis: &api.Diagnosis{Code: "upstream_circuit_open", Message: "It failed again and again."},
			RetryAt: m.db.Now().Add(time.Minute), CircuitOpen: true,
		}
	case "http://new.example/mcp": // until it is asked
		return dashboard.ConnectorState{}
	case "http://empty.example/mcp":
		return dashboard.ConnectorState{FetchedAt: m.db.Now()}
	}
	return dashboard.ConnectorState{
		Tools: append(actionsOf(c.Source()), besideOf(c.Source())...), Warnings: []string{"1 tool was dropped"}, FetchedAt: m.db.Now(),
		Protocol: "2025-11-25", Server: m.server, Resources: 3, Templates: 1, Prompts: 2,
		Steps: []dashboard.Step{{Name: "tls", Took: 1500 * time.Microsecond, Detail: "TLS 1.3"}, {Name: "tools", Took: 40 * time.Millisecond}},
	}
}

func (m *outside) Probe(ctx context.Context, c action.Connector) (dashboard.ConnectorState, error) {
	if c.URL == "http://new.example/mcp" {
		c.URL = "http://asked.example/mcp"
	}
	state := m.State(ctx, c)
	if c.URL == "http://failing.example/mcp" {
		state.Error = "The server did not answer just now."
	}
	return state, nil
}

func (m *outside) Try(ctx context.Context, c action.Connector, secret string) (dashboard.ConnectorState, error) {
	m.mu.Lock()
	m.tried = append(m.tried, c.Prefix+secret)
	m.mu.Unlock()
	return m.Probe(ctx, c)
}

// signIns are dashboard.Connectors: another of the methods of outside is called
// Disconnect.
type signIns struct{ *outside }

func (s signIns) BeginSignIn(_ context.Context, c action.Connector, by string) (authorizeURL, issuer string, err error) {
	if c.OAuth == nil {
		return "", "", action.Errorf(action.ErrInvalid, "no_oauth", "The connector has no OAuth.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flows == nil {
		s.flows = map[string]flow{}
	}
	state := "state-" + c.ID
	s.flows[state] = flow{c.Organization, c.ID, by}
	return "https://login.example/authorize?state=" + url.QueryEscape(state), or(s.issuer, "https://login.example"), nil
}

func (s signIns) FinishSignIn(ctx context.Context, organization, by, state, code, iss, problem string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.flows[state]
	if !ok || f.organization != organization || f.by != by {
		return "", action.Errorf(action.ErrNotFound, "no_such_sign_in", "This sign-in was not begun here, or is over; begin again.")
	}
	delete(s.flows, state)
	if problem != "" || code == "" {
		return "", action.Errorf(action.ErrForbidden, "sign_in_refused", "The service said no: %s. Begin again.", problem)
	}
	return f.connector, s.db.PutOAuthGrant(ctx, action.OAuthGrant{
		Organization: organization, Connector: f.connector, Issuer: or(iss, "https://login.example"), Scope: "read write", Status: action.OAuthConnected, By: by, Sealed: []byte("tokens"),
	})
}

func (s signIns) Disconnect(ctx context.Context, c action.Connector, by string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	connectors, err := s.db.ListConnectors(ctx, c.Organization)
	p := parting{url: c.URL, there: slices.ContainsFunc(connectors, func(o action.Connector) bool {
		return o.ID == c.ID && o.URL == c.URL && reflect.DeepEqual(o.OAuth, c.OAuth)
	})}
	if c.OAuth != nil {
		p.client = c.OAuth.ClientID
	}
	if end, ok := ctx.Deadline(); ok {
		p.deadline = time.Until(end).Round(5 * time.Second)
	}
	if s.left = append(s.left, p); s.away != nil || err != nil {
		return errors.Join(s.away, err)
	}
	return s.db.DeleteOAuthGrant(ctx, c.Organization, c.ID, by)
}

func (s signIns) Grant(ctx context.Context, organization, connector string) (action.OAuthGrant, error) {
	s.mu.Lock()
	s.lookedUp++
	s.mu.Unlock()
	return s.db.OAuthGrant(ctx, organization, connector)
}

func (s signIns) Grants(ctx context.Context, organization string) ([]action.OAuthGrant, error) {
	list, err := s.db.ListOAuthGrants(ctx, organization)
	return list, errors.Join(err, s.away)
}

func (s signIns) ClientMetadata() []byte { return s.document }

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// besideOf are the actions of a source that are no tools.
func besideOf(source string) []*action.Action {
	return []*action.Action{
		{Source: source, SourceName: "GitHub", Name: action.ActionPrompt, Risk: action.RiskRead, Hash: "prompts", Check: check},
		{Source: source, SourceName: "GitHub", Name: action.ActionRead, Risk: action.RiskRead, Hash: "resources", Check: check},
	}
}

// services are dashboard.Connections: the account of a credential is what
// stands before its last dash.
type services struct{ *outside }

func (s services) Connect(ctx context.Context, w action.ConnectRequest) (action.Integration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save(ctx, w, "account-"+w.Secret)
}

// save writes what is wanted, of the account that stands before the credential's
// last dash.
func (s services) save(ctx context.Context, w action.ConnectRequest, credential string) (action.Integration, error) {
	s.wishes = append(s.wishes, w)
	account := credential[:strings.LastIndex(credential, "-")]
	if s.dead[credential] {
		return action.Integration{}, &action.Error{Kind: action.ErrInvalid, Code: "upstream_credential", Field: "/secret", Message: "The service does not take this key (401); make another."}
	}
	if w.Account != "" && w.Account != account {
		return action.Integration{}, &action.Error{Kind: action.ErrConflict, Code: "other_account", Message: "The credential is of another account."}
	}
	in := action.Integration{
		ID: uuid.Must(uuid.NewV7()).String(), Organization: w.Organization, Provider: w.Provider, Kind: w.Kind, Broker: w.Broker, Account: account, AccountName: account,
		Name: or(w.Name, w.Provider+" of "+account), Visibility: action.Visibility(or(string(w.Visibility), "organization")), BaseURL: w.BaseURL,
		Settings: w.Settings, TimeoutSeconds: w.TimeoutSeconds, CreatedBy: w.By, Sealed: []byte("sealed"),
	}
	if w.Own {
		in.User, in.Visibility = w.By, action.VisiblePrivate
	}
	switch old, err := s.db.IntegrationOf(ctx, in.Organization, in.Provider, in.Owner(), in.Account, in.User != ""); {
	case err == nil:
		in.ID, in.Version = old.ID, old.Version
	case !errors.Is(err, action.ErrNotFound):
		return action.Integration{}, err
	}
	return s.db.PutIntegration(ctx, in, w.By)
}

func (s services) Begin(_ context.Context, w action.ConnectRequest) (action.ConnectStep, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun == nil {
		s.begun = map[string]action.ConnectRequest{}
	}
	state := fmt.Sprintf("begun-%d", len(s.begun)+1)
	s.begun[state] = w
	step := action.ConnectStep{URL: "https://Service.example/authorize?state=" + state, State: state, ExpiresAt: s.db.Now().Add(5 * time.Minute)}
	if w.Broker == action.BrokerNango {
		step.Token = "of the broker's page"
	}
	return step, nil
}

func (s services) Finish(ctx context.Context, organization, by, login string, decides bool, a action.ConnectCallback) (action.Integration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
	w, ok := s.begun[a.State]
	if !ok || w.Organization != organization || w.By != by || w.Login != login || w.Provider != a.Provider {
		return action.Integration{}, action.Errorf(action.ErrNotFound, "no_such_flow", "This connection was not begun here, or is over; begin again.")
	}
	delete(s.begun, a.State)
	if !decides && !w.Own {
		return action.Integration{}, action.Errorf(action.ErrForbidden, "role_required", "It is for the organization; ask an owner or admin.")
	}
	if a.Error != "" {
		return action.Integration{}, action.Errorf(action.ErrForbidden, "connect_refused", "The service said no: %s. Begin again.", a.Error)
	}
	return s.save(ctx, w, a.Code+a.Installation+a.Connection+"-token")
}

func (s services) Check(ctx context.Context, in action.Integration) (action.Integration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead[in.Account] {
		if _, err := s.db.SetIntegrationStatus(ctx, in.Organization, in.ID, in.Version, action.IntegrationRevoked, "The service does not take the key any more (401).", "gateway"); err != nil {
			return in, err
		}
	}
	return s.db.IntegrationCredential(ctx, in.Organization, in.ID)
}

func (s services) Unusable(_ context.Context, in action.Integration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead[in.Account] {
		return "The service takes its token no longer; connect it again."
	}
	return ""
}

func (s services) Disconnect(ctx context.Context, in action.Integration, by string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return false, s.away
	}
	_, err := s.db.SetIntegrationStatus(ctx, in.Organization, in.ID, 0, action.IntegrationDeleted, "", by)
	s.ended = append(s.ended, in.ID)
	return !s.stubborn, err
}

func (s services) Metadata(_ context.Context, in action.Integration, q url.Values) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queried = q
	if q.Get("what") == "bad" {
		return nil, &action.Error{Kind: action.ErrInvalid, Code: "invalid_query", Field: "/what", Message: "what is one of teams, labels."}
	}
	return json.Marshal(map[string]any{"of": in.Name, "big": json.Number("9007199254740993")})
}

func (s services) SealApp(app action.ProviderApp, secrets map[string]string) (action.ProviderApp, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secretsSent = secrets
	app.Sealed = []byte("sealed")
	return app, nil
}

func providers() []api.Provider {
	act := func(name string, r action.Risk) api.ProviderAction {
		return api.ProviderAction{Name: name, Title: name, Risk: r, Level: r.Level(), Input: json.RawMessage(`{"type":"object"}`)}
	}
	return []api.Provider{
		{
			ID: "linear", Title: "Linear", About: "Issues.", Guide: "# Linear", BaseURL: "https://api.linear.app", Metadata: true,
			Needs: []api.ProviderNeed{
				{Kind: action.KindOAuth2, Users: true, App: true, Scopes: []string{"read", "write"}, Hint: "Sign in."},
				{Kind: action.KindAPIKey, Users: true, Hint: "Make a key under Settings, API."},
			},
			Settings:      json.RawMessage(`{"type":"object","properties":{"team":{"type":"string","description":"The team whose issues are meant where none is named."}}}`),
			Actions:       []api.ProviderAction{act("list_issues", action.RiskRead), act("create_issue", action.RiskWrite)},
			CheckSettings: onlyTeam,
		},
		{
			ID: "github", Title: "GitHub", About: "Code.", BaseURL: "https://api.github.com", Many: true,
			Needs:   []api.ProviderNeed{{Kind: action.KindApp, App: true}, {Kind: action.KindAPIKey}},
			Actions: []api.ProviderAction{act("merge_pr", action.RiskDanger)},
		},
		{
			ID: "cloudlogs", Title: "Cloud logs", About: "Logs.", Needs: []api.ProviderNeed{{Kind: action.KindNone}},
			Actions: []api.ProviderAction{act("query_logs", action.RiskRead)},
		},
		{ID: "gmail", Title: "Gmail", About: "Mail.", Needs: []api.ProviderNeed{{Kind: action.KindOAuth2, Users: true, App: true}}},
	}
}

func onlyTeam(settings json.RawMessage) error {
	var v map[string]any
	_ = json.Unmarshal(settings, &v)
	for name := range v {
		if name != "team" {
			return &action.Error{Kind: action.ErrInvalid, Code: "invalid_settings", Field: "/settings/" + name, Message: "There is no such setting."}
		}
	}
	return nil
}

func eventProviders() []api.EventProvider {
	typ := func(id string) []api.EventType {
		return []api.EventType{{ID: id, Title: id, Config: json.RawMessage(`{"type":"object"}`)}}
	}
	return []api.EventProvider{
		{
			ID: "github", Title: "GitHub", Webhook: true, Endpoint: "/webhooks/direct/github/{trigger}", URL: public + "/webhooks/direct/github",
			Types: append(typ("issue"), typ("push")...), CheckConfig: noTypos,
		},
		{ID: "linear", Title: "Linear", Webhook: true, Polling: true, Gives: true, Secret: "Linear shows it as **Signing secret**.", Endpoint: "/webhooks/direct/linear/{trigger}", Types: typ("issue")},
		{ID: "gmail", Title: "Gmail", Polling: true, Types: typ("message")},
		{ID: "custom", Title: "Custom", Webhook: true, Endpoint: "/webhooks/custom/{trigger}", Types: typ("event")},
		{ID: "posthog", Title: "PostHog", Webhook: true, Endpoint: "/webhooks/posthog/{automation}", Types: typ("event")},
	}
}

func noTypos(_ string, config json.RawMessage) error {
	if strings.Contains(string(config), "lables") {
		return &action.Error{Kind: action.ErrInvalid, Code: "invalid_config", Field: "/config/lables", Message: "There is no such filter."}
	}
	return nil
}

// hourly is due at each full hour, whatever the expression, unless it is "never".
func hourly(cron, zone string, after time.Time, n int) ([]time.Time, error) {
	switch {
	case zone == "Mars/Olympus":
		return nil, &action.Error{Kind: action.ErrInvalid, Code: "invalid_field", Field: "/timezone", Message: "Give an IANA name."}
	case len(strings.Fields(cron)) != 5:
		return nil, &action.Error{Kind: action.ErrInvalid, Code: "invalid_field", Field: "/cron_expression", Message: "Give 5 fields."}
	}
	var all []time.Time
	for t := after.Truncate(time.Hour); len(all) < n; {
		t = t.Add(time.Hour)
		all = append(all, t)
	}
	return all, nil
}
