package dashboard_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/token"
)

// Who may use a route.
const (
	world           = "everybody"
	anyCredential   = "Any credential."
	ownSession      = "The session's own token."
	sessionOrPeople = "The session's own token, or any person."
	sessionOrBosses = "The session's own token, an owner or an admin."
	people          = "Any person."
	bosses          = "An owner or an admin."
	owners          = "An owner."
	hosts           = "The bearer of a host application's token."
	listeners       = "Any credential but a key for workers."
	workers         = "A key for workers, an owner or an admin."
	runHolders      = "A key for workers, an owner, an admin, or the session that works on the run."
	anySession      = "A session's token."
	runReaders      = "Any person, or the session that works on the run."
)

// mayUse says again who may use each route that the server answers. A change
// of either table alone is a mistake.
var mayUse = map[string]string{
	"GET /healthz": world, "GET /readyz": world, "GET /login": world, "GET /login/oidc": world, "GET /login/oidc/callback": world, "POST /login": world, "POST /logout": world,
	"GET /assets/{file}": world, "GET /api/v1/openapi.json": world, "GET /oauth/client.json": world, "GET /oauth/callback": world, "GET /oauth/callback/{provider}": world,

	"GET /{$}": people, "GET /inbox/requests": people, "GET /inbox/{id}": people, "GET /inbox/{id}/params": bosses, "GET /inbox/{id}/grant": bosses,
	"GET /inbox/more": people, "GET /inbox/cards": people, "GET /inbox/count": people, "GET /inbox/waiters": people,
	"GET /activity": people, "GET /invocations/{id}": people, "GET /overview": people, "GET /api/v1/statistics": people,
	"GET /policy": people, "GET /grants": people, "GET /sessions": people, "GET /people": people, "GET /models": people, "GET /workspaces": people, "GET /workspaces/{id}": people,
	"GET /connectors": people, "GET /connectors/{id}": people, "GET /connectors/new": bosses, "GET /secrets": people, "GET /integrations": people, "GET /integrations/{provider}": people, "GET /settings/{rest...}": people, "GET /settings": people,
	"GET /policy/actions": people, "GET /policy/answer": people, "GET /policy/removed": people, "GET /audit": people,

	"GET /automations": people, "GET /automations/{id}": people, "GET /triggers": people, "GET /triggers/new": bosses, "GET /triggers/{id}": people,
	"GET /schedules": people, "GET /runs": people, "GET /runs/{id}": people, "GET /events": people, "GET /events/{id}": people,
	"GET /events/{id}/context": bosses, "GET /deliveries": bosses, "GET /deliveries/{id}": bosses,

	"GET /api/v1/me": anyCredential, "GET /api/v1/events": listeners,

	"GET /api/v1/sessions/{session}/actions/available":                 sessionOrPeople,
	"GET /api/v1/sessions/{session}/actions/guide":                     sessionOrPeople,
	"GET /api/v1/sessions/{session}/actions/guide/{source}":            sessionOrPeople,
	"GET /api/v1/sessions/{session}/prompt":                            sessionOrPeople,
	"GET /api/v1/sessions/{session}/actions/capabilities":              sessionOrPeople,
	"GET /api/v1/sessions/{session}/actions/grants":                    sessionOrPeople,
	"POST /api/v1/sessions/{session}/actions/grants":                   ownSession,
	"POST /api/v1/sessions/{session}/actions/invoke":                   ownSession,
	"GET /api/v1/sessions/{session}/actions/invocations":               sessionOrPeople,
	"GET /api/v1/sessions/{session}/actions/invocations/{id}":          sessionOrPeople,
	"GET /api/v1/sessions/{session}/actions/invocations/{id}/result":   sessionOrBosses,
	"POST /api/v1/sessions/{session}/actions/invocations/{id}/approve": bosses,
	"POST /api/v1/sessions/{session}/actions/invocations/{id}/deny":    bosses,
	"PUT /api/v1/sessions/{session}/evidence/{upload}/{name}":          ownSession,
	"GET /api/v1/sessions/{session}/evidence":                          sessionOrPeople,
	"GET /api/v1/sessions/{session}/evidence/{upload}":                 sessionOrPeople,
	"GET /api/v1/sessions/{session}/evidence/{upload}/{name}":          sessionOrPeople,
	"GET /api/v1/sessions/{session}/env":                               sessionOrPeople,
	"POST /api/v1/sessions/{session}/env/pull":                         ownSession,
	"GET /api/v1/env-requests":                                         people, "GET /api/v1/env-requests/{id}": people,
	"POST /api/v1/env-requests/{id}/answer": bosses, "POST /api/v1/env-requests/{id}/refuse": bosses,
	"GET /sessions/{id}/evidence": people, "GET /env-requests/{id}": people,
	"POST /internal/tools/{tool}": anySession,
	"GET /api/v1/workspaces":      people, "POST /api/v1/workspaces": bosses, "GET /api/v1/workspaces/{workspace}": people, "PATCH /api/v1/workspaces/{workspace}": bosses, "DELETE /api/v1/workspaces/{workspace}": bosses,
	"GET /api/v1/sessions/{session}/workspace": sessionOrPeople, "POST /api/v1/sessions/{session}/variables": ownSession,
	"GET /api/v1/repositories": people, "POST /api/v1/repositories": bosses, "POST /api/v1/repositories/sync": bosses, "GET /api/v1/repositories/{id}": people, "POST /api/v1/repositories/{id}/check": bosses, "DELETE /api/v1/repositories/{id}": bosses,
	"GET /api/v1/variables": people, "PUT /api/v1/variables/{name}": bosses, "DELETE /api/v1/variables/{name}": bosses,
	"GET /api/v1/sessions": people, "POST /api/v1/sessions": people,
	"GET /api/v1/sessions/{id}": people, "DELETE /api/v1/sessions/{id}": bosses, "PATCH /api/v1/sessions/{id}": people,
	"POST /api/v1/sessions/{id}/pause": bosses, "POST /api/v1/sessions/{id}/resume": bosses, "POST /api/v1/sessions/{id}/stop": bosses, "POST /api/v1/sessions/{id}/fail": bosses,

	"GET /api/v1/invocations": people, "GET /api/v1/invocations/{id}": people, "GET /api/v1/invocations/{id}/events": people,
	"GET /api/v1/invocations/{id}/params": bosses, "POST /api/v1/invocations/{id}/approve": bosses, "POST /api/v1/invocations/{id}/deny": bosses,

	"GET /api/v1/secrets": people, "PUT /api/v1/secrets/{key}": bosses, "DELETE /api/v1/secrets/{key}": bosses, "POST /api/v1/secrets/rotate": owners,

	"GET /api/v1/connectors": people, "GET /api/v1/connectors/{ref}": people, "GET /api/v1/connectors/{ref}/tools": people,
	"POST /api/v1/connectors": bosses, "POST /api/v1/connectors/validate": bosses, "POST /api/v1/connectors/{ref}/review": bosses,
	"PATCH /api/v1/connectors/{ref}": bosses, "DELETE /api/v1/connectors/{ref}": bosses, "POST /api/v1/connectors/{ref}/enable": bosses,
	"GET /api/v1/connectors/presets": people, "POST /api/v1/connectors/{ref}/onboard": bosses, "POST /api/v1/connectors/{ref}/profile": bosses, "POST /api/v1/oauth/finish": people,
	"POST /api/v1/connectors/{ref}/sign-in": bosses, "POST /api/v1/connectors/{ref}/sign-out": bosses,
	"POST /api/v1/connectors/{ref}/disable": bosses, "POST /api/v1/connectors/{ref}/validate": bosses,

	"GET /api/v1/integrations": people, "POST /api/v1/integrations": people, "GET /api/v1/integrations/providers": people,
	"POST /api/v1/integrations/connect": people, "GET /api/v1/integrations/{id}": people, "PATCH /api/v1/integrations/{id}": people,
	"DELETE /api/v1/integrations/{id}": people, "POST /api/v1/integrations/{id}/check": people, "GET /api/v1/integrations/{id}/metadata": people,
	"GET /api/v1/integrations/apps": bosses, "PUT /api/v1/integrations/apps/{provider}": bosses, "DELETE /api/v1/integrations/apps/{provider}": bosses,
	"GET /api/v1/automations/{automation}/connections": people, "PUT /api/v1/automations/{automation}/connections": bosses,

	"GET /api/v1/automations": people, "POST /api/v1/automations": bosses, "GET /api/v1/automations/{automation}": people,
	"PATCH /api/v1/automations/{automation}": bosses, "DELETE /api/v1/automations/{automation}": bosses,
	"GET /api/v1/providers": people, "GET /api/v1/providers/{id}": people, "GET /api/v1/poll-groups": people,
	"GET /api/v1/triggers": people, "POST /api/v1/triggers": bosses, "GET /api/v1/triggers/{id}": people, "PATCH /api/v1/triggers/{id}": bosses,
	"DELETE /api/v1/triggers/{id}": bosses, "GET /api/v1/triggers/{id}/secrets": people, "POST /api/v1/triggers/{id}/rotate": bosses,
	"GET /api/v1/schedules": people, "POST /api/v1/schedules": bosses, "POST /api/v1/schedules/preview": people,
	"GET /api/v1/schedules/{id}": people, "PATCH /api/v1/schedules/{id}": bosses, "DELETE /api/v1/schedules/{id}": bosses,
	"GET /api/v1/inbound-events": people, "GET /api/v1/inbound-events/{id}": people,
	"GET /api/v1/inbound-events/{id}/context": bosses, "POST /api/v1/inbound-events/{id}/skip": bosses,
	"GET /api/v1/deliveries": bosses, "GET /api/v1/deliveries/{id}": bosses, "POST /api/v1/deliveries/{id}/redrive": bosses,
	"GET /api/v1/runs": people, "GET /api/v1/runs/{id}": runReaders, "POST /api/v1/runs/claim": workers,
	"POST /api/v1/runs/{id}/renew": runHolders, "POST /api/v1/runs/{id}/finish": runHolders,
	"POST /api/v1/runs/{id}/cancel": bosses, "POST /api/v1/runs/{id}/resolve": bosses, "POST /api/v1/runs/{id}/redrive": bosses,
	"GET /api/v1/outbox": bosses, "POST /api/v1/outbox/{id}/redrive": bosses, "GET /api/v1/run-endpoint": bosses,
	"PUT /api/v1/run-endpoint": bosses, "DELETE /api/v1/run-endpoint": bosses, "POST /api/v1/run-endpoint/rotate": bosses,
	"GET /api/v1/notify": bosses, "PUT /api/v1/notify/{kind}": bosses, "DELETE /api/v1/notify/{kind}": bosses, "POST /api/v1/notify/{kind}/test": bosses,
	"POST /api/v1/notify/webhook/rotate": bosses, "GET /api/v1/notifications": bosses,

	"GET /api/v1/models": people, "PUT /api/v1/models": bosses, "GET /api/v1/models/usage": people, "GET /api/v1/models/requests": people,
	"PUT /api/v1/models/providers/{name}": bosses, "DELETE /api/v1/models/providers/{name}": bosses,
	"PUT /api/v1/models/aliases/{name}": bosses, "DELETE /api/v1/models/aliases/{name}": bosses,
	"PUT /api/v1/models/prices": bosses, "DELETE /api/v1/models/prices": bosses, "PUT /api/v1/models/limits": bosses, "DELETE /api/v1/models/limits": bosses,

	"GET /api/v1/policy/modes": people, "PUT /api/v1/policy/modes/{key}": bosses, "DELETE /api/v1/policy/modes/{key}": bosses,
	"GET /api/v1/policy/quotas": people, "PUT /api/v1/policy/quotas/{key}": bosses, "DELETE /api/v1/policy/quotas/{key}": bosses,
	"GET /api/v1/policy/settings": people, "PUT /api/v1/policy/settings": bosses,
	"GET /api/v1/policy/explain": people, "GET /api/v1/policy/events": people,

	"GET /api/v1/capabilities": people, "GET /api/v1/capabilities/{group}": people,
	"PUT /api/v1/capabilities/{group}/{provider}": bosses, "DELETE /api/v1/capabilities/{group}/{provider}": bosses,
	"GET /api/v1/group-templates": people, "POST /api/v1/groups": bosses,
	"GET /api/v1/gates": people, "POST /api/v1/gates": bosses, "DELETE /api/v1/gates/{id}": bosses,

	"GET /api/v1/grants": people, "GET /api/v1/grants/{id}": people, "POST /api/v1/grants": bosses, "DELETE /api/v1/grants/{id}": bosses,
	"GET /api/v1/grant-requests": people, "GET /api/v1/grant-requests/{id}": people,
	"POST /api/v1/grant-requests/{id}/approve": bosses, "POST /api/v1/grant-requests/{id}/deny": bosses,

	"GET /api/v1/audit/refusals": people,
	"GET /api/v1/audit/heads":    bosses, "POST /api/v1/audit/verify": bosses, "GET /api/v1/audit/export": bosses,

	"GET /api/v1/users": people, "POST /api/v1/users": bosses, "PATCH /api/v1/users/{id}": bosses,
	"DELETE /api/v1/users/{id}": bosses, "POST /api/v1/users/{id}/login-link": bosses,
	"GET /api/v1/me/logins": people, "DELETE /api/v1/me/logins": people, "DELETE /api/v1/me/logins/{id}": people, "POST /api/v1/me/login-link": hosts,
	"DELETE /api/v1/users/{id}/logins": bosses, "GET /api/v1/removed-users": bosses, "DELETE /api/v1/removed-users/{id}": bosses,
	"GET /api/v1/api-keys": people, "POST /api/v1/api-keys": bosses, "DELETE /api/v1/api-keys/{id}": bosses,
}

// credential is one way to ask.
type credential struct {
	as      string   // what it counts as; empty: nobody
	bearer  string   //
	headers []string // of a browser
	reads   bool     // it must not change anything
}

// standing says what each counts as.
var standing = map[string][]string{
	world:           {"", "own session", "other session", "run's session", "worker", "former worker", "member", "admin", "owner"},
	anyCredential:   {"own session", "other session", "run's session", "worker", "former worker", "member", "admin", "owner"},
	listeners:       {"own session", "other session", "run's session", "member", "admin", "owner"},
	workers:         {"worker", "admin", "owner"},
	runHolders:      {"run's session", "worker", "admin", "owner"},
	runReaders:      {"run's session", "member", "admin", "owner"},
	ownSession:      {"own session"},
	anySession:      {"own session", "other session", "run's session"},
	sessionOrPeople: {"own session", "member", "admin", "owner"},
	sessionOrBosses: {"own session", "admin", "owner"},
	people:          {"member", "admin", "owner"},
	bosses:          {"admin", "owner"},
	owners:          {"owner"},
}

// credentials are of every kind that there is. People who were demoted or
// removed got theirs before.
func (h *house) credentials() map[string]credential {
	browser := func(as, user string, withKey bool) credential {
		b := h.signIn(user)
		headers := []string{"Cookie", b.cookie, "Origin", public}
		if withKey {
			headers = append(headers, "X-Sallyport-Key", b.key)
		}
		return credential{as: as, headers: headers, reads: !withKey}
	}
	demotedKey, removedKey := h.key("dan", action.RoleAdmin), h.key("eve", action.RoleAdmin)
	all := map[string]credential{
		"none": {}, "garbage": {bearer: "garbage"},
		"forged session": {bearer: h.agent[:len(h.agent)-2] + "AA"}, "forged key": {bearer: h.owner[:len(h.owner)-2] + "AA"},
		"session of no row": {bearer: h.signer.Mint("nobody")}, "revoked session": {bearer: h.revokedSession()}, "expired session": {bearer: h.expiredSession()},
		"revoked key": {bearer: h.revokedKey()}, "expired key": {bearer: h.expiredKey()}, "key of a removed person": {bearer: removedKey},
		"login of a removed person": browser("", "u-eve", true), "expired login": h.expiredLogin(),

		"own session": {as: "own session", bearer: h.agent}, "other session": {as: "other session", bearer: h.other},
		"key of a member": {as: "member", bearer: h.member}, "key of an admin": {as: "admin", bearer: h.admin}, "key of an owner": {as: "owner", bearer: h.owner},
		"key for workers": {as: "worker", bearer: h.workerKey("u-ben")}, "key for workers of a demoted person": {as: "former worker", bearer: h.workerKey("u-dan")},
		"session of the run": {as: "run's session", bearer: h.claimed("run-1")}, "session of another run": {as: "other session", bearer: h.claimed("run-2")},
		"key of a demoted person": {as: "member", bearer: demotedKey}, "login of a demoted person": browser("member", "u-dan", true),
		"login of a member": browser("member", "u-cyd", true), "login of an admin": browser("admin", "u-ben", true), "login without the page's key": browser("admin", "u-ben", false),
	}
	if err := h.db.SetUserRole(h.t.Context(), org, "u-dan", action.RoleMember, "u-ada"); err != nil {
		h.t.Fatal(err)
	}
	if err := h.db.DeleteUser(h.t.Context(), org, "u-eve", "u-ada"); err != nil {
		h.t.Fatal(err)
	}
	return all
}

// Every route that the server answers is tried with every kind of credential,
// and does what the table says.
func TestEveryRouteWithEveryCredential(t *testing.T) {
	h := newHouse(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(mayUse)), h.srv.Patterns()); diff != "" {
		t.Fatalf("the table is not of what is served (-table +served):\n%s", diff)
	}
	described := h.described()
	all := h.credentials()
	for pattern, who := range mayUse {
		op, api := described[pattern]
		if api && op.who != who {
			t.Errorf("%s is described as for %q, and should be for %q", pattern, op.who, who)
		}
		if (strings.Contains(pattern, "/api/v1/") || strings.Contains(pattern, "/internal/")) != api && who != world {
			t.Errorf("%s is not described", pattern)
		}
		for name, c := range all {
			method, path, _ := strings.Cut(strings.NewReplacer(
				"runs/{id}", "runs/run-1", "{session}", "s1", "{id}", "none", "{upload}", uploadID, "{name}", "none", "{ref}", "none", "{key}", "none:x", "{group}", "none", "{provider}", "none", "{file}", "core.js", "{kind}", "webhook", "{tool}", "save_env_files", "{$}", "",
			).Replace(pattern), " ")
			h.try(pattern, who, method, path, op.body, name, c)
		}
	}
}

// With what is there, a route does the same, and finds it for those who may.
// Those who may not change nothing.
func TestEveryRouteWithWhatIsThere(t *testing.T) {
	h := newHouse(t)
	invocation := h.fill()
	keyID, _, _ := token.ParseAPIKey(h.owner)
	described, all := h.described(), h.credentials()
	before := h.rows(org)
	for _, reading := range []bool{false, true} {
		for pattern, who := range mayUse {
			method, path := there(pattern, invocation, keyID)
			if who == runReaders {
				path = strings.Replace(path, "run-9", "run-1", 1) // whose session is among them
			}
			for name, c := range all {
				may := slices.Contains(standing[who], c.as)
				if may && !c.reads && method != "GET" || reading != (may && method == "GET") {
					continue // what may be done would be; what is read may be noted
				}
				if c.as == "member" && strings.HasSuffix(pattern, "/metadata") {
					continue // of his own alone; see TestWhoseIntegrationsAre
				}
				got := h.try(pattern, who, method, path, described[pattern].example, name, c)
				page := !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/internal/") && c.headers == nil
				if reading && who != world && !page && got != 200 && got != 202 && got != 302 {
					t.Errorf("%s with %s does not find what is there: %d", pattern, name, got)
				}
			}
		}
		if diff := cmp.Diff(before, h.rows(org)); diff != "" && !reading {
			t.Errorf("somebody who may not changed something:\n%s", diff)
		}
	}
}

// try asks once, and compares the answer's status, which it returns, with what
// the credential may.
func (h *house) try(pattern, who, method, path, body, name string, c credential) (got int) {
	h.t.Helper()
	if (path == "/logout" || pattern == "DELETE /api/v1/me/logins") && c.as != "" {
		return 0 // it would end the sign-ins that are tried next
	}
	page := !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/internal/")
	patience := 5 * time.Second
	if path == "/api/v1/events" {
		patience = 20 * time.Millisecond // it would go on
	}
	got = h.doFor(patience, c.bearer, method, path, body, c.headers...).StatusCode
	as := c.as
	if page && c.headers == nil {
		as = "" // pages know browsers alone
	}
	may := slices.Contains(standing[who], as) && (!c.reads || method == "GET")
	switch {
	case who == world:
		if !strings.HasPrefix(path, "/login") && path != "/logout" && got != 200 {
			h.t.Errorf("%s with %s: %d", pattern, name, got)
		}
	case as == "" && page && got != 303, as == "" && !page && got != 401:
		h.t.Errorf("%s lets %s through: %d", pattern, name, got)
	case as != "" && !may && got != 403:
		h.t.Errorf("%s lets %s through: %d", pattern, name, got)
	case may && (got == 401 || got == 403 || got == 303 || got >= 500):
		h.t.Errorf("%s refuses %s: %d", pattern, name, got)
	}
	return got
}

// operation is what the description says of a route.
type operation struct{ who, body, example string }

func (h *house) described() map[string]operation {
	h.t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Description string
			RequestBody *struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
		Components struct {
			Schemas map[string]struct{ Examples []json.RawMessage }
		}
	}
	raw, err := h.srv.OpenAPI()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		h.t.Fatal(err)
	}
	out := map[string]operation{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			var o operation
			_, o.who, _ = strings.Cut(op.Description, "Who: ")
			if op.RequestBody != nil {
				o.body = `{"nothing":1}`
				name := strings.TrimPrefix(op.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")
				if examples := doc.Components.Schemas[name].Examples; len(examples) > 0 { // bytes have none
					o.example = string(examples[0])
				}
			}
			out[strings.ToUpper(method)+" "+path] = o
		}
	}
	return out
}

// claimed adds a run that somebody works on, and returns its session's token.
func (h *house) claimed(id string) string {
	h.run(id)
	work, err := h.db.ClaimRun(h.t.Context(), event.Claim{Organization: org, Run: id, By: "endpoint", Lease: time.Minute, Life: time.Hour})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.signer.Mint(work.Run.Session)
}

func (h *house) revokedKey() string {
	key := h.key("rex", action.RoleAdmin)
	id, _, err := token.ParseAPIKey(key)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.db.RevokeAPIKey(h.t.Context(), org, id, h.clock.now()); err != nil {
		h.t.Fatal(err)
	}
	return key
}

func (h *house) expiredKey() string {
	then := h.clock.now()
	return h.addKey(action.APIKey{User: "u-ada", Role: action.RoleOwner, ExpiresAt: &then})
}

func (h *house) expiredLogin() credential {
	b := h.signIn("u-ada")
	h.exec("UPDATE logins SET expires_at = ? WHERE user_id = 'u-ada'", h.clock.now())
	return credential{headers: []string{"Cookie", b.cookie, "Origin", public, "X-Sallyport-Key", b.key}}
}

func (h *house) revokedSession() string {
	t := h.session("revoked")
	if _, err := h.db.RevokeSession(h.t.Context(), org, "revoked"); err != nil {
		h.t.Fatal(err)
	}
	return t
}

func (h *house) expiredSession() string {
	then := h.clock.now()
	h.mint(action.Session{ID: "expired", Organization: org, ExpiresAt: &then})
	return h.signer.Mint("expired")
}
