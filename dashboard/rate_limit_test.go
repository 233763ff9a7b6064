package dashboard_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Who tries codes that are none is kept waiting, and so is who has links made
// without end. Good links work meanwhile, also from the same address: many people
// may be behind it.
func TestSignInsAreBounded(t *testing.T) {
	h := newHouse(t)
	link, err := h.srv.CreateLoginLink(t.Context(), org, "u-ben")
	if err != nil {
		t.Fatal(err)
	}
	code, _ := fragment(t, link.URL)
	bad := `{"code":"` + strings.Repeat("x", 43) + `"}`
	for range 30 {
		h.want(401, "", "POST", "/login", bad, "Origin", public)
	}
	refused := h.want(429, "", "POST", "/login", bad, "Origin", public)
	if refused.Header.Get("Retry-After") == "" {
		t.Error("nobody says when to try again")
	}
	elsewhere := httptest.NewRequestWithContext(t.Context(), "POST", public+"/login", strings.NewReader(bad))
	elsewhere.Header.Set("Origin", public)
	elsewhere.RemoteAddr = "198.51.100.7:1234"
	w := httptest.NewRecorder()
	if h.srv.Handler().ServeHTTP(w, elsewhere); w.Code != 401 {
		t.Errorf("a bad code from elsewhere: %d %s", w.Code, w.Body)
	}
	h.want(429, "", "POST", "/login", bad, "Origin", public)
	h.want(204, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public)

	for range 20 {
		h.want(201, h.owner, "POST", "/api/v1/users/u-cyd/login-link", "")
	}
	h.want(429, h.owner, "POST", "/api/v1/users/u-cyd/login-link", "")
	h.want(201, h.owner, "POST", "/api/v1/users/u-ben/login-link", "")
	h.clock.add(time.Minute)
	h.want(201, h.owner, "POST", "/api/v1/users/u-cyd/login-link", "")
}
