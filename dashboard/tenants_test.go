package dashboard_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/token"
)

// canary stands in everything that the first organization has.
const canary = "CANARY"

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
	h.m.connectors[0].OAuth = &action.OAuthSettings{Kind: action.OAuthCode, Issuer: canary}
	h.m.signedIn = append(h.m.signedIn, action.OAuthGrant{Organization: org, Connector: "c1", Status: action.OAuthConnected, Scope: canary})
	h.m.heads = append(h.m.heads, action.AuditHead{Organization: org, Hash: canary})
	h.m.secrets["gh"] = action.Secret{Organization: org, Key: "gh", Host: canary}
	h.m.recordLocked(org, action.EventMode, canary, canary)
	return invocation
}

// there is the request of a route about something that fill gave.
func there(pattern, invocation, key string) (method, path string) {
	ids := strings.NewReplacer(
		"sessions/{id}", "sessions/s1", "connectors/{id}", "connectors/c1", "gates/{id}", "gates/gate-1", "grants/{id}", "grants/grant-1", "grant-requests/{id}", "grant-requests/request-1",
		"users/{id}", "users/u-ada", "api-keys/{id}", "api-keys/"+key, "secrets/{key}", "secrets/gh", "quotas/{key}", "quotas/connector:c1:create?per=group",
		"policy/explain", "policy/explain?session=s1&action=connector:c1:create", "{id}", invocation, "{session}", "s1",
		"{ref}", "c1", "{key}", "connector:c1:create", "{group}", "g", "{provider}", "c1", "{file}", "app.js", "{$}", "",
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
		m.sessions, m.invocations, m.connectors, m.users, m.keys, m.overrides, m.capabilities, m.gates, m.quotas, m.reviews, m.grants, m.requests, m.history, m.signedIn,
	} {
		for list, i := reflect.ValueOf(table), 0; i < list.Len(); i++ {
			if row := list.Index(i); row.FieldByName("Organization").String() == organization {
				fmt.Fprintf(&b, "%+v\n", row)
			}
		}
	}
	return b.String() + fmt.Sprintf("%v %v %v %v", m.secrets["gh"], m.settings[organization], m.revealed, m.flows)
}

// Another organization's owner and session try every route with the ids of
// things that are there: they see nothing of them, and change nothing.
func TestOrganizationsDoNotMeet(t *testing.T) {
	h := newHouse(t)
	invocation := h.fill()
	keyID, _, _ := token.ParseAPIKey(h.owner)
	_ = h.m.CreateUser(t.Context(), action.User{ID: "u-zed", Organization: "org2", Name: "zed", Role: action.RoleOwner})
	id, owner, hash := token.NewAPIKey()
	_ = h.m.CreateAPIKey(t.Context(), action.APIKey{ID: id, Organization: "org2", User: "u-zed", Role: action.RoleOwner}, hexOf(hash))
	_, _ = h.m.CreateSession(t.Context(), action.Session{ID: "foreign", Organization: "org2"})
	login := h.signInTo("org2", "u-zed")
	described, before := h.described(), h.m.rows(org)
	for pattern := range mayUse {
		method, path := there(pattern, invocation, keyID)
		if path == "/api/v1/events" || path == "/logout" {
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
			named := strings.Contains(pattern, "{") && !strings.Contains(pattern, "{file}") && !strings.Contains(pattern, "{$}")
			own := pattern == "GET /api/v1/capabilities/{group}" || strings.Contains(pattern, "secrets") // names, and its own to give
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
