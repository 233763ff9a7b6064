package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

// connectedRows are the rows of integrations, and what the services would say.
type connectedRows struct {
	integrations []action.Integration
	apps         []action.ProviderApp
	bindings     map[string][]string // by organization and automation
	wishes       []action.Wanted
	begun        map[string]action.Wanted // by state
	answers      []action.ConnectAnswer
	secretsSent  map[string]string // of the last registration that was sealed
	dead         map[string]bool   // credentials that their service takes no more, by account
	queried      url.Values        // of metadata
	ended        []string          // ids that were disconnected
	stubborn     bool              // services do not take credentials back
}

// rows are dashboard.Integrations over memory.
type rows struct{ *memory }

// services are dashboard.Connections: the account of a credential is what
// stands before its last dash.
type services struct{ *memory }

func providers() []dashboard.Provider {
	act := func(name string, r action.Risk) dashboard.ProviderAction {
		return dashboard.ProviderAction{Name: name, Title: name, Risk: r, Level: r.Level(), Input: json.RawMessage(`{"type":"object"}`)}
	}
	return []dashboard.Provider{
		{
			ID: "linear", Title: "Linear", About: "Issues.", Guide: "# Linear", BaseURL: "https://api.linear.app", Metadata: true,
			Needs: []dashboard.ProviderNeed{
				{Kind: action.KindOAuth2, Users: true, App: true, Scopes: []string{"read", "write"}, Hint: "Sign in."},
				{Kind: action.KindAPIKey, Users: true, Hint: "Make a key under Settings, API."},
			},
			Settings:      json.RawMessage(`{"type":"object","properties":{"team":{"type":"string","description":"The team whose issues are meant where none is named."}}}`),
			Actions:       []dashboard.ProviderAction{act("list_issues", action.RiskRead), act("create_issue", action.RiskWrite)},
			CheckSettings: onlyTeam,
		},
		{
			ID: "github", Title: "GitHub", About: "Code.", BaseURL: "https://api.github.com", Many: true,
			Needs:   []dashboard.ProviderNeed{{Kind: action.KindApp, App: true}, {Kind: action.KindAPIKey}},
			Actions: []dashboard.ProviderAction{act("merge_pr", action.RiskDanger)},
		},
		{
			ID: "cloudlogs", Title: "Cloud logs", About: "Logs.", Needs: []dashboard.ProviderNeed{{Kind: action.KindNone}},
			Actions: []dashboard.ProviderAction{act("query_logs", action.RiskRead)},
		},
		{ID: "gmail", Title: "Gmail", About: "Mail.", Needs: []dashboard.ProviderNeed{{Kind: action.KindOAuth2, Users: true, App: true}}},
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

func sees(in *action.Integration, viewer string) bool {
	return in.Owner() == "" || in.Owner() == viewer
}

func (r rows) ListIntegrations(_ context.Context, organization, viewer string) ([]action.Integration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return only(r.integrations, func(in action.Integration) bool {
		return in.Organization == organization && in.Status != action.IntegrationDeleted && sees(&in, viewer)
	}), nil
}

func (r rows) Integration(_ context.Context, organization, id, viewer string) (action.Integration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in, err := find("integration", r.integrations, func(in action.Integration) bool {
		return in.Organization == organization && in.ID == id && in.Status != action.IntegrationDeleted && sees(&in, viewer)
	})
	if err != nil {
		return action.Integration{}, err
	}
	return *in, nil
}

func (r rows) ChangeIntegration(_ context.Context, in action.Integration, by string) (action.Integration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, err := find("integration", r.integrations, func(o action.Integration) bool { return o.ID == in.ID && o.Organization == in.Organization })
	if err != nil {
		return in, err
	}
	if string(row.Settings) != string(in.Settings) {
		row.Revision++
	}
	row.Name, row.Visibility, row.Settings, row.TimeoutSeconds = in.Name, in.Visibility, in.Settings, in.TimeoutSeconds
	r.recordLocked(in.Organization, action.EventIntegration, in.ID, by)
	return *row, nil
}

func (r rows) Bindings(_ context.Context, organization, automation string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bindings[organization+" "+automation]), nil
}

func (r rows) SetBindings(_ context.Context, organization, automation string, ids []string, by string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bindings == nil {
		r.bindings = map[string][]string{}
	}
	r.bindings[organization+" "+automation] = ids
	r.recordLocked(organization, action.EventBinding, automation, by)
	return nil
}

func (r rows) ListProviderApps(_ context.Context, organization string) ([]action.ProviderApp, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return only(r.apps, func(a action.ProviderApp) bool { return a.Organization == organization }), nil
}

func (r rows) PutProviderApp(_ context.Context, app action.ProviderApp, by string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apps, _ = without(r.apps, func(a action.ProviderApp) bool {
		return a.Organization == app.Organization && a.Provider == app.Provider
	})
	r.apps = append(r.apps, app)
	r.recordLocked(app.Organization, action.EventApp, app.Provider, by)
	return nil
}

func (r rows) DeleteProviderApp(_ context.Context, organization, provider, by string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, some := without(r.apps, func(a action.ProviderApp) bool { return a.Organization == organization && a.Provider == provider })
	if !some {
		return missing("provider_app")
	}
	r.apps = left
	r.recordLocked(organization, action.EventApp, provider, by)
	return nil
}

func (s services) Connect(_ context.Context, w action.Wanted) (action.Integration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saveLocked(w, "account-"+w.Secret)
}

// saveLocked writes what is wanted, of the account that stands before the
// credential's last dash.
func (s services) saveLocked(w action.Wanted, credential string) (action.Integration, error) {
	s.wishes = append(s.wishes, w)
	account := credential[:strings.LastIndex(credential, "-")]
	if s.dead[credential] {
		return action.Integration{}, &action.Error{Kind: action.ErrInvalid, Code: "upstream_credential", Field: "/secret", Message: "The service does not take this key (401); make another."}
	}
	if w.Account != "" && w.Account != account {
		return action.Integration{}, &action.Error{Kind: action.ErrConflict, Code: "other_account", Message: "The credential is of another account."}
	}
	in := action.Integration{
		Organization: w.Organization, Provider: w.Provider, Kind: w.Kind, Broker: w.Broker, Account: account, AccountName: account,
		Name: or(w.Name, w.Provider+" of "+account), Visibility: action.Visibility(or(string(w.Visibility), "organization")), BaseURL: w.BaseURL,
		Settings: w.Settings, TimeoutSeconds: w.TimeoutSeconds, Status: action.IntegrationActive, Revision: 1, CreatedBy: w.By,
		CreatedAt: s.now(), UpdatedAt: s.now(), Sealed: []byte("sealed:" + w.Secret),
	}
	if w.Own {
		in.User, in.Visibility = w.By, action.VisiblePrivate
	}
	for i, o := range s.integrations {
		if o.Organization == in.Organization && o.Provider == in.Provider && o.Account == in.Account && o.Owner() == in.Owner() && (o.User == "") == (in.User == "") {
			in.ID, in.CreatedBy = o.ID, o.CreatedBy
			s.integrations[i] = in
			return in, nil
		}
	}
	in.ID = fmt.Sprintf("int-%d", len(s.integrations)+1)
	s.integrations = append(s.integrations, in)
	return in, nil
}

func (s services) Begin(_ context.Context, w action.Wanted) (action.ConnectStep, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun == nil {
		s.begun = map[string]action.Wanted{}
	}
	state := fmt.Sprintf("begun-%d", len(s.begun)+1)
	s.begun[state] = w
	step := action.ConnectStep{URL: "https://Service.example/authorize?state=" + state, State: state, ExpiresAt: s.now().Add(5 * time.Minute)}
	if w.Broker == action.BrokerNango {
		step.Token = "of the broker's page"
	}
	return step, nil
}

func (s services) Finish(_ context.Context, organization, by, login string, decides bool, a action.ConnectAnswer) (action.Integration, error) {
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
	return s.saveLocked(w, a.Code+a.Installation+a.Connection+"-token")
}

func (s services) Check(_ context.Context, in action.Integration) (action.Integration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, err := find("integration", s.integrations, func(o action.Integration) bool { return o.ID == in.ID })
	if err != nil {
		return in, err
	}
	if s.dead[row.Account] {
		row.Status, row.Reason = action.IntegrationRevoked, "The service does not take the key any more (401)."
	}
	return *row, nil
}

func (s services) Unusable(_ context.Context, in action.Integration) string {
	if s.dead[in.Account] {
		return "The service takes its token no longer; connect it again."
	}
	return ""
}

func (s services) Disconnect(_ context.Context, in action.Integration, by string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, err := find("integration", s.integrations, func(o action.Integration) bool { return o.ID == in.ID })
	if err != nil || s.away != nil {
		return false, errors.Join(err, s.away)
	}
	row.Status, row.Sealed = action.IntegrationDeleted, nil
	s.ended = append(s.ended, in.ID)
	s.recordLocked(in.Organization, action.EventIntegration, in.ID, by)
	return !s.stubborn, nil
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
