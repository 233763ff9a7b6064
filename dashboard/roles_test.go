package dashboard_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/internal/token"
)

// who may, by the first words of a route's description in the OpenAPI. The
// walk reads the routes from there, so that none is forgotten.
var allowed = map[string][]string{
	"Any credential.":                                {"own session", "other session", "member", "admin", "owner"},
	"The session's own token.":                       {"own session"},
	"The session's own token, or any person.":        {"own session", "member", "admin", "owner"},
	"The session's own token, an owner or an admin.": {"own session", "admin", "owner"},
	"Any person.":                                    {"member", "admin", "owner"},
	"An owner or an admin.":                          {"admin", "owner"},
}

// Every route is tried with every kind of credential, and does what the table
// says: 401 without a good one, 403 without the right one, anything else with
// it.
func TestEveryRouteWithEveryCredential(t *testing.T) {
	h := newHouse(t)
	full, reader := h.signIn("u-ben"), h.signIn("u-cyd")
	browser := func(b *browser, key string) []string {
		return []string{"Cookie", b.cookie, "Origin", public, "X-Sallyport-Key", key}
	}
	bad := map[string]string{
		"none": "", "forged session": h.agent[:len(h.agent)-2] + "AA", "unknown session": h.signer.Mint("nobody"),
		"forged key": h.owner[:len(h.owner)-2] + "AA", "garbage": "garbage", "revoked key": h.revokedKey(), "revoked session": h.revokedSession(),
		"expired session": h.expiredSession(),
	}
	good := map[string]string{"own session": h.agent, "other session": h.other, "member": h.member, "admin": h.admin, "owner": h.owner}
	browsers := map[string][]string{"member": browser(reader, reader.key), "admin": browser(full, full.key), "admin without key": browser(full, "")}
	routes := h.routes()
	if len(routes) < 40 {
		t.Fatalf("only %d routes", len(routes))
	}
	for _, route := range routes {
		for name, credential := range bad {
			r := h.do(credential, route.method, route.path, route.body)
			if r.StatusCode != 401 || !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s %s with %s: %d", route.method, route.path, name, r.StatusCode)
			}
		}
		if route.who != due(route) {
			t.Errorf("%s %s is for %q, and should be for %q", route.method, route.path, route.who, due(route))
		}
		may := allowed[due(route)]
		if strings.HasSuffix(route.path, "/events") {
			continue // streams have a test of their own
		}
		for name, credential := range good {
			route.judge(t, name, slices.Contains(may, name), h.do(credential, route.method, route.path, route.body))
		}
		for name, headers := range browsers {
			role, _, keyless := strings.Cut(name, " without")
			ok := slices.Contains(may, role) && (!keyless || route.method == "GET")
			route.judge(t, name+" in a browser", ok, h.do("", route.method, route.path, route.body, headers...))
		}
	}
}

func (r tried) judge(t *testing.T, name string, may bool, got reply) {
	t.Helper()
	switch forbidden := got.StatusCode == 403; {
	case got.StatusCode == 401:
		t.Errorf("%s %s with %s: 401", r.method, r.path, name)
	case may && forbidden:
		t.Errorf("%s %s refuses %s: %s", r.method, r.path, name, got.body)
	case !may && !forbidden:
		t.Errorf("%s %s lets %s through: %d", r.method, r.path, name, got.StatusCode)
	}
}

// due says again, in other words than the table, who may use a route: those
// who decide change everything, but that members mint sessions and agents
// call; people read everything but full params; an agent reads its own.
func due(r tried) string {
	inSession := strings.Contains(r.path, "/actions/")
	switch {
	case r.path == "/api/v1/me", r.path == "/api/v1/events":
		return "Any credential."
	case strings.HasSuffix(r.path, "/actions/invoke"):
		return "The session's own token."
	case inSession && strings.HasSuffix(r.path, "/result"):
		return "The session's own token, an owner or an admin."
	case inSession && r.method == "GET":
		return "The session's own token, or any person."
	case r.method == "POST" && r.path == "/api/v1/sessions", r.method == "GET" && !strings.HasSuffix(r.path, "/params"):
		return "Any person."
	}
	return "An owner or an admin."
}

type tried struct{ method, path, who, body string }

// routes reads the operations of the description. Their path parameters name
// nothing that is there, but for the session, so that nothing is changed.
func (h *house) routes() (out []tried) {
	h.t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Description string
			RequestBody *json.RawMessage
		}
	}
	raw, err := h.srv.OpenAPI()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		h.t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			_, who, _ := strings.Cut(op.Description, "Who: ")
			path := strings.NewReplacer("{session}", "s1", "{id}", "none", "{ref}", "none", "{key}", "none:x").Replace(path)
			r := tried{method: strings.ToUpper(method), path: path, who: who}
			if op.RequestBody != nil {
				r.body = `{"nothing":1}`
			}
			out = append(out, r)
		}
	}
	return out
}

func (h *house) revokedKey() string {
	key := h.key("rex", action.RoleAdmin)
	id, _, err := token.ParseAPIKey(key)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.m.RevokeAPIKey(h.t.Context(), org, id, h.clock.now()); err != nil {
		h.t.Fatal(err)
	}
	return key
}

func (h *house) revokedSession() string {
	t := h.session("revoked")
	if _, err := h.m.RevokeSession(h.t.Context(), org, "revoked"); err != nil {
		h.t.Fatal(err)
	}
	return t
}

func (h *house) expiredSession() string {
	then := h.clock.now()
	_, _ = h.m.CreateSession(h.t.Context(), action.Session{ID: "expired", Organization: org, ExpiresAt: &then})
	return h.signer.Mint("expired")
}

// Another organization's things are not there.
func TestOrganizationsDoNotMeet(t *testing.T) {
	h := newHouse(t)
	id := h.pending("s1")
	_ = h.m.CreateUser(t.Context(), action.User{ID: "u-zed", Organization: "org2", Name: "zed", Role: action.RoleOwner})
	kid, key, hash := token.NewAPIKey()
	_ = h.m.CreateAPIKey(t.Context(), action.APIKey{ID: kid, Organization: "org2", User: "u-zed", Role: action.RoleOwner}, hexOf(hash))
	for _, path := range []string{
		"/api/v1/invocations/" + id, "/api/v1/invocations/" + id + "/params", "/api/v1/sessions/s1", "/api/v1/connectors/github",
		"/api/v1/sessions/s1/actions/invocations/" + id, "/api/v1/sessions/s1/actions/available", "/api/v1/policy/explain?session=s1&action=github:create",
	} {
		h.want(404, key, "GET", path, "")
	}
	h.want(404, key, "POST", "/api/v1/invocations/"+id+"/approve", "")
	if list := h.want(200, key, "GET", "/api/v1/invocations", "").json(t); len(list["items"].([]any)) != 0 {
		t.Errorf("list %v", list)
	}
}

func TestForeignOriginsAndHosts(t *testing.T) {
	h := newHouse(t)
	for _, origin := range []string{"http://evil.test", "http://gate.test", "http://gate.test:8788", "https://gate.test:8787", "null", "http://gate.test:8787.evil.test"} {
		for _, path := range []string{"/api/v1/me", "/api/v1/openapi.json", "/api/v1/sessions/s1/actions/invoke", "/login"} {
			for _, method := range []string{"GET", "POST", "OPTIONS"} {
				r := h.do(h.owner, method, path, "", "Origin", origin)
				if r.StatusCode != http.StatusForbidden || r.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %s from %s: %d", method, path, origin, r.StatusCode)
				}
			}
		}
	}
	h.want(200, h.owner, "GET", "/api/v1/me", "", "Origin", public)
	for _, host := range []string{"evil.test", "evil.test:8787", "127.0.0.1:8787", "gate.test.evil.test", ""} {
		h.problem(403, "foreign_host", h.owner, "GET", "/api/v1/me", "", "Host", host)
		h.problem(403, "foreign_host", "", "GET", "/login", "", "Host", host)
	}
}

// A gateway on this machine answers to all of its names, and sends browsers to
// the one that sign-ins are for. The fragment of a link follows.
func TestNamesOfThisMachine(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) { c.PublicURL = "http://127.0.0.1:8787" })
	h.want(200, h.owner, "GET", "/api/v1/me", "", "Host", "localhost:8787")
	h.want(200, h.owner, "GET", "/api/v1/me", "", "Host", "[::1]:8787")
	h.problem(403, "foreign_host", h.owner, "GET", "/api/v1/me", "", "Host", "localhost:9999")
	h.problem(403, "foreign_host", h.owner, "GET", "/api/v1/me", "", "Host", "localhost.evil.test:8787")
	r := h.want(303, "", "GET", "/login?next=%2Factivity", "", "Host", "localhost:8787")
	if to := r.Header.Get("Location"); to != "http://127.0.0.1:8787/login?next=%2Factivity" {
		t.Errorf("sent to %s", to)
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	h := newHouse(t)
	for _, path := range []string{"/", "/login", "/nope", "/api/v1/me", "/api/nope", "/assets/app.js", "/healthz"} {
		r := h.do("", "GET", path, "")
		csp := r.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Referrer-Policy") != "no-referrer" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, r.Header)
		}
	}
}

func TestBadRequests(t *testing.T) {
	h := newHouse(t)
	h.problem(413, "body_too_large", h.owner, "POST", "/api/v1/sessions", `{"title":"`+strings.Repeat("x", 1<<20)+`"}`)
	h.problem(400, "malformed_json", h.owner, "POST", "/api/v1/sessions", `{"title":`)
	h.problem(400, "malformed_json", h.owner, "POST", "/api/v1/sessions", `{} {}`)
	h.problem(400, "malformed_json", h.owner, "POST", "/api/v1/sessions", `[]`)
	h.problem(415, "unsupported_media_type", h.owner, "POST", "/api/v1/sessions", `title=x`, "Content-Type", "text/plain")
	h.problem(404, "no_such_route", h.owner, "GET", "/api/v1/nothing", "")
	h.problem(404, "no_such_route", h.owner, "PUT", "/api/v1/sessions", "{}")
	if p := h.problem(400, "unknown_field", h.owner, "POST", "/api/v1/sessions", `{"created_by":"me"}`); p["field"] != "/created_by" {
		t.Errorf("problem %v", p)
	}
}

func TestErrorsOfEveryKind(t *testing.T) {
	h := newHouse(t)
	const path, body = "/api/v1/sessions/s1/actions/invoke", `{"source":"github","action":"list"}`
	for _, row := range []struct {
		kind   error
		status int
	}{
		{action.ErrInvalid, 400},
		{action.ErrUnauthenticated, 401},
		{action.ErrForbidden, 403},
		{action.ErrNotFound, 404},
		{action.ErrConflict, 409},
		{action.ErrGone, 410},
		{action.ErrTooLarge, 413},
		{action.ErrTooMany, 429},
		{action.ErrUnavailable, 502},
		{action.ErrOutcomeUnknown, 502},
	} {
		h.gate.fail = &action.Error{Kind: row.kind, Code: "some_code", Message: "Do this.", Invocation: "inv-9", RetryAfter: 1500e6, Err: http.ErrAbortHandler}
		p := h.problem(row.status, "some_code", h.agent, "POST", path, body)
		if p["detail"] != "Do this." || p["invocation"] != "inv-9" || strings.Contains(p["detail"].(string), "abort") {
			t.Errorf("%v: %v", row.kind, p)
		}
	}
	h.gate.fail = &action.Error{Kind: action.ErrTooMany, Code: "c", Message: "m", RetryAfter: 1500e6}
	if r := h.do(h.agent, "POST", path, body); r.Header.Get("Retry-After") != "2" {
		t.Errorf("Retry-After %q", r.Header.Get("Retry-After"))
	}
	h.gate.fail = http.ErrBodyNotAllowed // any other error
	p := h.problem(500, "internal", h.agent, "POST", path, body)
	if strings.Contains(p["detail"].(string), "body") || !strings.Contains(h.log.String(), http.ErrBodyNotAllowed.Error()) {
		t.Errorf("problem %v, log %s", p, h.log)
	}
}
