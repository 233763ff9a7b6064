package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/dashboard"
)

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
	for _, path := range []string{"/", "/login", "/nope", "/api/v1/me", "/api/nope", "/assets/core.js", "/healthz"} {
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
	h.problem(400, "invalid_request", h.owner, "POST", "/api/v1/sessions", "")
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
