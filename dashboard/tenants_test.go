package dashboard_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
	"sallyport/internal/token"
)

// canary stands in everything that the first organization has.
const canary = "CANARY"

// hush stands in what is private to one person of it.
const hush = "HUSH-HUSH"

// fill gives the organization one of everything.
func (h *house) fill() (invocation string) {
	h.t.Helper()
	invocation = h.pending("s1")
	def := json.RawMessage(`{"name":"` + canary + `"}`)
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.m.invocations[0].SourceName, h.m.sessions[0].Title, h.m.connectors[0].Name = canary, canary, canary
	h.m.users[0].Name, h.m.keys[0].Name = canary, canary
	key := action.Key{Source: "connector:c1", Action: "create"}
	h.m.overrides = append(h.m.overrides, action.Override{Organization: org, Key: key, Mode: action.ModeDeny, UpdatedBy: canary})
	h.m.capabilities = append(h.m.capabilities, action.Capability{Organization: org, Group: "g", Provider: "connector:c1", GrantedBy: canary})
	h.m.gates = append(h.m.gates, action.GateApproval{ID: "gate-1", Organization: org, Group: "g", Task: canary})
	h.m.quotas = append(h.m.quotas, action.Quota{Organization: org, Key: key, Per: action.PerGroup, UpdatedBy: canary})
	h.m.reviews = append(h.m.reviews, action.ToolReview{Organization: org, Connector: "c1", Tool: canary, State: action.ToolNew, Current: &action.ToolVersion{Definition: def}})
	h.m.grants = append(h.m.grants, action.Grant{ID: "grant-1", Organization: org, Session: "s1", CreatedBy: canary})
	h.m.requests = append(h.m.requests, action.GrantRequest{ID: "request-1", Organization: org, Session: "s1", Reason: canary, Status: action.RequestPending})
	h.m.env = append(h.m.env, action.EnvRequest{ID: "env-1", Organization: org, Session: "s1", Status: action.EnvPending, Keys: []action.EnvKey{{Key: "TOKEN", Description: canary}}})
	h.m.uploads = append(h.m.uploads, action.Upload{ID: uploadID, Organization: org, Session: "s1", Folder: canary, Files: []action.UploadFile{{Name: "report.txt", Size: 6, SHA256: canary, StoredAt: &time.Time{}}}})
	h.m.bytes[org+"/s1/"+uploadID+"/"+canary] = canary
	h.m.connectors[0].OAuth = &action.OAuthSettings{Kind: action.OAuthCode, Issuer: canary}
	h.m.signedIn = append(h.m.signedIn, action.OAuthGrant{Organization: org, Connector: "c1", Status: action.OAuthConnected, Scope: canary})
	h.m.integrations = append(h.m.integrations,
		action.Integration{ID: "int-c", Organization: org, Provider: "linear", Kind: action.KindAPIKey, Account: canary, Name: canary, Visibility: action.VisibleOrganization, Status: action.IntegrationActive, CreatedBy: "u-ada"},
		action.Integration{ID: "int-private", Organization: org, Provider: "linear", Kind: action.KindAPIKey, Account: hush, Name: hush, Reason: hush, Visibility: action.VisiblePrivate, Status: action.IntegrationActive, CreatedBy: "u-pat"},
		action.Integration{ID: "int-own", Organization: org, Provider: "linear", Kind: action.KindAPIKey, Account: hush, Name: hush, User: "u-pat", Visibility: action.VisiblePrivate, Status: action.IntegrationActive, CreatedBy: "u-pat"})
	h.m.apps = append(h.m.apps, action.ProviderApp{Organization: org, Provider: "linear", ClientID: canary})
	h.m.bindings = map[string][]string{org + " nightly": {"int-c", "int-private"}}
	h.m.sessions[0].Connections = []string{"int-c", "int-private"}
	h.m.automations[0].Instructions = canary
	h.m.triggers = append(h.m.triggers,
		event.Trigger{ID: "trigger-1", Organization: org, Automation: "nightly", Name: canary, Kind: event.Webhooks, Provider: "github", Type: "issue", Enabled: true, Config: []byte(`{}`)},
		event.Trigger{ID: "trigger-2", Organization: org, Automation: "nightly", Name: canary, Kind: event.Polling, Provider: "linear", Type: "issue", Enabled: true, Config: []byte(`{}`), Integration: "int-private", PollSeconds: 60})
	h.m.signing = map[string][]event.Secret{org + " trigger-1": {{ID: canary}}, org + " " + dashboard.EndpointSecrets: {{ID: canary}}}
	h.m.groups = append(h.m.groups, event.PollGroup{ID: "group-1", Organization: org, Provider: "linear", Integration: "int-private", LastError: canary})
	h.m.schedules = append(h.m.schedules, event.Schedule{ID: "schedule-1", Organization: org, Automation: "nightly", Name: canary, Cron: "0 7 * * *", TimeZone: "UTC"})
	h.m.records = append(h.m.records, event.Record{ID: "event-1", Organization: org, Trigger: "trigger-1", Automation: "nightly", Receipt: "delivery-1", Title: canary, Run: "run-9", RunStatus: event.RunQueued, Shown: []byte(canary)})
	h.m.contexts = map[string][]byte{"event-1": []byte(org + `/events/event-1/sealed:{"a":"` + canary + `"}`)}
	h.m.receipts = append(h.m.receipts, event.Receipt{ID: "delivery-1", Organization: org, Endpoint: "direct/github/trigger-1", Status: event.ReceiptFailed, LastError: canary, Shown: []byte(canary)})
	h.m.setups = append(h.m.setups, action.Setup{Organization: org, Name: "default", UpdatedBy: canary, ServiceCommands: []byte("[]"), EnvFiles: []byte("[]")})
	h.m.runs = append(h.m.runs, event.Run{ID: "run-9", Organization: org, Automation: "nightly", Event: "event-1", Status: event.RunQueued, Title: canary})
	h.m.parcels = append(h.m.parcels, event.Parcel{ID: "parcel-1", Organization: org, Run: "run-9", Status: event.ParcelDead, LastError: canary})
	h.m.endpoints = append(h.m.endpoints, event.Endpoint{Organization: org, URL: "https://" + canary + ".example", Enabled: true})
	h.m.heads = append(h.m.heads, action.AuditHead{Organization: org, Hash: canary})
	h.m.secrets["gh"] = action.Secret{Organization: org, Key: "gh", Host: canary}
	h.m.recordLocked(org, action.EventMode, canary, canary)
	return invocation
}

// there is the request of a route about something that fill gave.
func there(pattern, invocation, key string) (method, path string) {
	ids := strings.NewReplacer(
		" /events/{id}", " /events/event-1", " /automations/{id}", " /automations/nightly", "{rest...}", "connectors/c1", "providers/{id}", "providers/github", "triggers/{id}", "triggers/trigger-1", "schedules/{id}", "schedules/schedule-1", "inbound-events/{id}", "inbound-events/event-1",
		"deliveries/{id}", "deliveries/delivery-1", "runs/{id}/renew", "runs/run-1/renew", "runs/{id}/finish", "runs/run-1/finish", "runs/{id}", "runs/run-9", "outbox/{id}", "outbox/parcel-1",
		"setups/{name}", "setups/default", "{tool}", "save_env_files",
		"env-requests/{id}", "env-requests/env-1", "{upload}", uploadID, "{name}", "report.txt",
		"sessions/{id}", "sessions/s1", "integrations/{id}", "integrations/int-c", "apps/{provider}", "apps/linear", "integrations/{provider}", "integrations/linear", "{automation}", "nightly", "connectors/{id}", "connectors/c1", "gates/{id}", "gates/gate-1", "grants/{id}", "grants/grant-1", "grant-requests/{id}", "grant-requests/request-1",
		"users/{id}", "users/u-ada", "api-keys/{id}", "api-keys/"+key, "secrets/{key}", "secrets/gh", "quotas/{key}", "quotas/connector:c1:create?per=group",
		"policy/explain", "policy/explain?session=s1&action=connector:c1:create", "{id}", invocation, "{session}", "s1", "{source}", "connector:c1",
		"{ref}", "c1", "{key}", "connector:c1:create", "{group}", "g", "{provider}", "c1", "{file}", "core.js", "{kind}", "webhook", "{$}", "",
	)
	method, path, _ = strings.Cut(ids.Replace(pattern), " ")
	return method, path
}

// rows is all that an organization has, as text.
func (m *memory) rows(organization string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, table := range []any{
		m.sessions, m.invocations, m.connectors, m.users, m.keys, m.overrides, m.capabilities, m.gates, m.quotas, m.reviews, m.grants, m.requests, m.history, m.signedIn, m.integrations, m.apps,
		m.setups, m.automations, m.triggers, m.schedules, m.records, m.receipts, m.runs, m.parcels, m.endpoints, m.env, m.uploads,
	} {
		for list, i := reflect.ValueOf(table), 0; i < list.Len(); i++ {
			if row := list.Index(i); row.FieldByName("Organization").String() == organization {
				fmt.Fprintf(&b, "%+v\n", row)
			}
		}
	}
	return b.String() + fmt.Sprintf("%v %v %v %v %v %v %v", m.secrets["gh"], m.settings[organization], m.revealed, m.flows, m.bindings[organization+" nightly"], m.ended, only(slices.Sorted(maps.Keys(m.signing)), func(owner string) bool { return strings.HasPrefix(owner, organization+" ") }))
}

// Another organization's owner and session try every route with the ids of
// things that are there: they see nothing of them, and change nothing.
func TestOrganizationsDoNotMeet(t *testing.T) {
	h := newHouse(t)
	invocation := h.fill()
	keyID, _, _ := token.ParseAPIKey(h.owner)
	_ = h.m.CreateUser(t.Context(), action.User{ID: "u-zed", Organization: "org2", Name: "zed", Role: action.RoleOwner}, "u-ada")
	id, owner, hash := token.NewAPIKey()
	_ = h.m.CreateAPIKey(t.Context(), action.APIKey{ID: id, Organization: "org2", User: "u-zed", Role: action.RoleOwner}, hexOf(hash))
	_, _ = h.m.CreateSession(t.Context(), action.Session{ID: "foreign", Organization: "org2"})
	login := h.signInTo("org2", "u-zed")
	described, before := h.described(), h.m.rows(org)
	for pattern := range mayUse {
		method, path := there(pattern, invocation, keyID)
		if path == "/api/v1/events" || path == "/logout" || pattern == "DELETE /api/v1/me/logins" {
			continue // see TestEvents; and it would end the sign-in
		}
		body := described[pattern].example
		for name, c := range map[string]credential{
			"owner":   {bearer: owner},
			"session": {bearer: h.signer.Mint("foreign")},
			"login":   {headers: []string{"Cookie", login.cookie, "Origin", public, "X-Sallyport-Key", login.key}},
		} {
			r := h.doFor(5*time.Second, c.bearer, method, path, body, c.headers...)
			if strings.Contains(r.body, canary) || r.StatusCode >= 500 {
				t.Errorf("%s shows the other organization's %s: %d %s", pattern, name, r.StatusCode, r.body)
			}
			named := strings.Contains(pattern, "{") && mayUse[pattern] != world && !strings.Contains(pattern, "{$}")
			own := pattern == "GET /api/v1/capabilities/{group}" || strings.Contains(pattern, "api/v1/providers") || strings.Contains(pattern, "secrets") || // names, and its own to give
				strings.Contains(pattern, "integrations/{provider}") || strings.Contains(pattern, "apps/{provider}") || strings.Contains(pattern, "notify/{kind}")
			unknown := name != "owner" || !strings.HasPrefix(path, "/api/") || mayUse[pattern] == ownSession || r.StatusCode == 404
			if named && !own && (r.StatusCode < 300 || !unknown) {
				t.Errorf("%s lets the other organization's %s through, or knows of it: %d %s", pattern, name, r.StatusCode, r.body)
			}
		}
	}
	if diff := cmp.Diff(before, h.m.rows(org)); diff != "" {
		t.Errorf("the other organization changed something:\n%s", diff)
	}
}

// What is private to somebody is nowhere for the others of the organization,
// whatever they may do there.
func TestWhatIsPrivateStaysSo(t *testing.T) {
	h := newHouse(t)
	invocation := h.fill()
	_ = h.m.CreateUser(t.Context(), action.User{ID: "u-pat", Organization: org, Name: "pat", Role: action.RoleAdmin}, "u-ada")
	keyID, _, _ := token.ParseAPIKey(h.owner)
	b := h.signIn("u-ben")
	bodies := map[string]string{}
	for pattern := range mayUse {
		method, path := there(pattern, invocation, keyID)
		if method != "GET" || path == "/api/v1/events" {
			continue
		}
		for _, bearer := range []string{h.owner, h.member} {
			bodies[pattern] += h.do(bearer, method, path, "").body
		}
		bodies[pattern] += b.get(path).body
	}
	for pattern, body := range bodies {
		for _, what := range []string{hush, "int-private", "int-own"} {
			if strings.Contains(body, what) {
				t.Errorf("%s shows %s", pattern, what)
			}
		}
	}
	pat := h.signIn("u-pat")
	for _, path := range []string{"/integrations", "/sessions", "/integrations/linear", "/api/v1/integrations", "/api/v1/sessions/s1"} {
		if body := pat.get(path).body; !strings.Contains(body, "int-private") && !strings.Contains(body, hush) {
			t.Errorf("%s does not show it to its owner", path)
		}
	}
}
