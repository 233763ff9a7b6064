package dashboard_test

import (
	"encoding/json"
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
	now := h.clock.now()
	def := &action.ToolVersion{Definition: json.RawMessage(`{"name":"` + canary + `"}`)}
	h.exec("UPDATE open_calls SET source_name = ?", canary)
	h.exec("UPDATE connectors SET name = ?, oauth = ?", canary, action.OAuthSettings{Kind: action.OAuthCode, Issuer: canary})
	h.exec("UPDATE users SET name = ? WHERE id = 'u-ada'", canary)
	h.exec("UPDATE api_keys SET name = ? WHERE user_id = 'u-ada'", canary)
	h.connected(action.Integration{ID: "int-c", Provider: "linear", Account: canary, Name: canary})
	h.connected(action.Integration{ID: "int-private", Provider: "linear", Account: hush, Name: hush, Status: action.IntegrationExpired, Reason: hush, Visibility: action.VisiblePrivate, CreatedBy: "u-pat"})
	h.connected(action.Integration{ID: "int-own", Provider: "linear", Account: hush, Name: hush, User: "u-pat", CreatedBy: "u-pat"})
	h.exec("DROP TRIGGER sessions_fixed")
	h.exec("UPDATE sessions SET title = ?, connections = ? WHERE id = 's1'", canary, []string{"int-c", "int-private"})
	key := action.Key{Source: "connector:c1", Action: "create"}
	h.override("", key, action.ModeDeny, canary)
	h.insert("capabilities", "organization_id", org, "group_id", "g", "provider", "connector:c1", "level", 1, "granted_by", canary, "granted_at", now)
	h.insert("gate_approvals", "id", "gate-1", "organization_id", org, "group_id", "g", "task_id", canary, "gate", "deploy", "approved_by", "u-ada", "approved_at", now, "expires_at", now.Add(time.Hour))
	h.insert("quotas", "organization_id", org, "source_id", key.Source, "action", key.Action, "per", action.PerGroup, "calls", 1, "seconds", 60, "updated_by", canary, "updated_at", now)
	h.listed(canary, nil, def, "")
	h.granted("grant-1", action.Grant{Session: "s1", Terms: action.Terms{Scope: action.ScopeSession, Source: key.Source, Action: key.Action}, CreatedBy: canary})
	h.insert("grant_requests", "id", "request-1", "organization_id", org, "session_id", "s1", "status", action.RequestPending,
		"terms", action.Terms{Scope: action.ScopeSession, Source: key.Source, Action: key.Action}, "reason", canary, "created_at", now, "expires_at", now.Add(time.Hour))
	h.wantsEnv("env-1", action.EnvKey{Key: "TOKEN", Description: canary})
	h.sent("report.txt", canary)
	h.exec("UPDATE evidence_uploads SET folder = ?", canary)
	h.signedIn(action.OAuthGrant{Scope: canary})
	h.insert("provider_apps", "organization_id", org, "provider", "linear", "client_id", canary, "updated_by", "u-ada", "updated_at", now)
	h.bind("int-c", "int-private")
	h.exec("UPDATE automations SET instructions = ?", canary)
	for _, trigger := range []struct {
		id, kind, provider, integration string
		seconds                         *int64
	}{{id: "trigger-1", kind: string(event.Webhooks), provider: "github"}, {"trigger-2", string(event.Polling), "linear", "int-private", ptr(int64(60))}} {
		h.insert("triggers", "id", trigger.id, "organization_id", org, "automation_id", "nightly", "name", canary, "kind", trigger.kind, "provider", trigger.provider, "type", "issue", "enabled", true,
			"config", "{}", "integration_id", trigger.integration, "poll_seconds", trigger.seconds, "created_by", "u-ada", "created_at", now, "updated_at", now)
	}
	for _, owner := range []string{"trigger-1", dashboard.EndpointSecrets} {
		h.insert("signing_secrets", "id", canary+owner, "organization_id", org, "owner_id", owner, "sealed", []byte("sealed"), "created_at", now)
	}
	h.polled(event.PollGroup{ID: "group-1", Provider: "linear", Integration: "int-private", LastError: canary})
	h.insert("schedules", "id", "schedule-1", "organization_id", org, "automation_id", "nightly", "name", canary, "cron", "0 7 * * *", "time_zone", "UTC", "enabled", false, "missed", "once",
		"created_by", "u-ada", "created_at", now, "updated_at", now)
	h.record(event.Record{ID: "event-1", Trigger: "trigger-1", Automation: "nightly", Receipt: "delivery-1", Title: canary, Redacted: []byte(canary)}, `{"a":"`+canary+`"}`)
	h.received(event.Receipt{ID: "delivery-1", Endpoint: "direct/github/trigger-1", Trigger: "trigger-1", Status: event.ReceiptFailed, LastError: canary, Redacted: []byte(canary)})
	h.insert("repositories", "organization_id", org, "id", "repository-1", "host", canary+".example", "path", canary+"/x", "path_key", canary+"/x", "created_by", "u-ada", "created_at", now)
	h.insert("workspaces", "organization_id", org, "id", "workspace-1", "name", canary, "service_commands", "[]", "env_files", "[]", "created_by", canary, "updated_by", canary, "created_at", now, "updated_at", now)
	h.insert("variables", "organization_id", org, "workspace_id", "workspace-1", "name", "REPORT", "version", 1, "sealed", []byte("sealed"), "created_by", canary, "updated_by", canary, "created_at", now, "updated_at", now)
	h.insert("runs", "id", "run-9", "organization_id", org, "automation_id", "nightly", "event_id", "event-1", "trigger_id", "trigger-1", "status", event.RunQueued, "attempt", 0, "created_at", now)
	h.delivery("parcel-1", "run-9", event.DeliveryDead, canary)
	h.insert("run_endpoints", "organization_id", org, "url", "https://"+canary+".example", "enabled", true, "updated_by", "u-ada", "updated_at", now)
	h.insert("secrets", "organization_id", org, "key", "gh", "host", canary, "sealed", []byte("sealed"), "updated_by", "u-ada", "created_at", now, "updated_at", now)
	h.insert("policy_events", "id", canary, "organization_id", org, "kind", action.EventMode, "subject", canary, "by", canary, "at", now, "before", "null", "after", "{}")
	must(h.db.Seal(h.t.Context(), auditKey(), 1000))
	return invocation
}

// there is the request of a route about something that fill gave.
func there(pattern, invocation, key string) (method, path string) {
	ids := strings.NewReplacer(
		" /events/{id}", " /events/event-1", " /workspaces/{id}", " /workspaces/workspace-1", " /automations/{id}", " /automations/nightly", "{rest...}", "connectors/c1", "providers/{id}", "providers/github", "triggers/{id}", "triggers/trigger-1", "schedules/{id}", "schedules/schedule-1", "inbound-events/{id}", "inbound-events/event-1",
		"deliveries/{id}", "deliveries/delivery-1", "runs/{id}/renew", "runs/run-1/renew", "runs/{id}/finish", "runs/run-1/finish", "runs/{id}", "runs/run-9", "outbox/{id}", "outbox/parcel-1",
		"workspaces/{workspace}", "workspaces/workspace-1", "repositories/{id}", "repositories/repository-1", "variables/{name}", "variables/REPORT?workspace=workspace-1", "{tool}", "save_env_files",
		"env-requests/{id}", "env-requests/env-1", "{upload}", uploadID, "{name}", "report.txt",
		"sessions/{id}", "sessions/s1", "integrations/{id}", "integrations/int-c", "apps/{provider}", "apps/linear", "integrations/{provider}", "integrations/linear", "{automation}", "nightly", "connectors/{id}", "connectors/c1", "gates/{id}", "gates/gate-1", "grants/{id}", "grants/grant-1", "grant-requests/{id}", "grant-requests/request-1",
		"users/{id}", "users/u-ada", "api-keys/{id}", "api-keys/"+key, "secrets/{key}", "secrets/gh", "quotas/{key}", "quotas/connector:c1:create?per=group",
		"policy/explain", "policy/explain?session=s1&action=connector:c1:create", "{id}", invocation, "{session}", "s1", "{source}", "connector:c1",
		"{ref}", "c1", "{key}", "connector:c1:create", "{group}", "g", "{provider}", "c1", "{file}", "core.js", "{kind}", "webhook", "{$}", "",
	)
	method, path, _ = strings.Cut(ids.Replace(pattern), " ")
	return method, path
}

// Another organization's owner and session try every route with the ids of
// things that are there: they see nothing of them, and change nothing.
func TestOrganizationsDoNotMeet(t *testing.T) {
	h := newHouse(t)
	invocation := h.fill()
	keyID, _, _ := token.ParseAPIKey(h.owner)
	if err := h.db.CreateUser(t.Context(), action.User{ID: "u-zed", Organization: "org2", Name: "zed", Role: action.RoleOwner}, "u-zed"); err != nil {
		t.Fatal(err)
	}
	id, owner, hash := token.NewAPIKey()
	if err := h.db.CreateAPIKey(t.Context(), action.APIKey{ID: id, Organization: "org2", User: "u-zed", Role: action.RoleOwner}, hexOf(hash)); err != nil {
		t.Fatal(err)
	}
	h.mint(action.Session{ID: "foreign", Organization: "org2"})
	login := h.signInTo("org2", "u-zed")
	described, before := h.described(), h.rows(org)
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
			own := pattern == "GET /api/v1/capabilities/{group}" || strings.Contains(pattern, "api/v1/providers") || strings.Contains(pattern, "secrets") || strings.Contains(pattern, "/models/") || pattern == "PUT /api/v1/variables/{name}" || // names, and its own to give
				strings.Contains(pattern, "integrations/{provider}") || strings.Contains(pattern, "apps/{provider}") || strings.Contains(pattern, "notify/{kind}")
			unknown := name != "owner" || !strings.HasPrefix(path, "/api/") || mayUse[pattern] == ownSession || r.StatusCode == 404
			if named && !own && (r.StatusCode < 300 || !unknown) {
				t.Errorf("%s lets the other organization's %s through, or knows of it: %d %s", pattern, name, r.StatusCode, r.body)
			}
		}
	}
	if diff := cmp.Diff(before, h.rows(org)); diff != "" {
		t.Errorf("the other organization changed something:\n%s", diff)
	}
}

// What is private to somebody is nowhere for the others of the organization,
// whatever they may do there.
func TestWhatIsPrivateStaysSo(t *testing.T) {
	h := newHouse(t)
	invocation := h.fill()
	h.key("pat", action.RoleAdmin)
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
