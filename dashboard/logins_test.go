package dashboard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

func TestSignOutEverywhere(t *testing.T) {
	h := newHouse(t)
	one := h.signIn("u-ben")
	h.clock.add(time.Second)
	two, other := h.signIn("u-ben"), h.signIn("u-cyd")
	list := two.get("/api/v1/me/logins").json(t)["items"].([]any)
	first, second := list[0].(map[string]any), list[1].(map[string]any)
	if len(list) != 2 || first["current"] != true || second["current"] != false || first["via"] != "link" {
		t.Fatalf("logins: %v", list)
	}
	if r := other.change("DELETE", "/api/v1/me/logins/"+second["id"].(string), ""); r.StatusCode != 404 {
		t.Errorf("somebody else's login: %d", r.StatusCode)
	}
	if r := h.do("", "DELETE", "/api/v1/me/logins", "", "Cookie", two.cookie); r.StatusCode != 403 {
		t.Errorf("the cookie alone signs out: %d", r.StatusCode)
	}
	if r := two.change("DELETE", "/api/v1/me/logins/"+second["id"].(string), ""); r.StatusCode != 204 {
		t.Fatalf("ending the other: %d %s", r.StatusCode, r.body)
	}
	if r := one.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("the ended one: %d", r.StatusCode)
	}
	if page := one.get("/login").body; !strings.Contains(page, "You signed out, here or from another browser") {
		t.Error("the page does not say why")
	}
	link, err := h.srv.CreateLoginLink(t.Context(), org, "u-ben")
	if err != nil {
		t.Fatal(err)
	}
	if r := two.change("DELETE", "/api/v1/me/logins", ""); r.StatusCode != 200 || !strings.Contains(r.body, `"ended":1`) {
		t.Errorf("everywhere: %d %s", r.StatusCode, r.body)
	}
	code, _ := fragment(t, link.URL)
	h.want(401, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public)
	if r := two.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("this one: %d", r.StatusCode)
	}
	if r := other.get("/api/v1/me"); r.StatusCode != 200 {
		t.Errorf("another person: %d", r.StatusCode)
	}
}

func TestAdminsSignOthersOut(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-cyd")
	h.problem(403, "role_required", h.member, "DELETE", "/api/v1/users/u-cyd/logins", "")
	h.problem(403, "owner_required", h.admin, "DELETE", "/api/v1/users/u-ada/logins", "")
	h.want(200, h.admin, "DELETE", "/api/v1/users/u-cyd/logins", "")
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("signed out: %d", r.StatusCode)
	}
	if page := b.get("/login").body; !strings.Contains(page, "An owner or admin signed you out") {
		t.Error("the page does not say why")
	}
}

// A key that lies where agents read it says nothing of its person's browsers.
func TestALesserKeyIsNotItsPerson(t *testing.T) {
	h := newHouse(t)
	key := h.lesserKey("u-ada", action.RoleMember)
	h.problem(403, "role_required", key, "GET", "/api/v1/me/logins", "")
	h.problem(403, "role_required", key, "DELETE", "/api/v1/me/logins", "")
	h.problem(403, "role_required", key, "DELETE", "/api/v1/me/logins/x", "")
	h.want(200, h.owner, "GET", "/api/v1/me/logins", "")
}

// A stream of live events does not outlive the login that opened it.
func TestStreamsEndWithTheirLogin(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) { c.KeepAlive = time.Hour })
	one, two := h.signIn("u-ben"), h.signIn("u-cyd")
	ends := make(chan reply, 2)
	for _, b := range []*browser{one, two} {
		go func() { ends <- h.doFor(10*time.Second, "", "GET", "/api/v1/events", "", "Cookie", b.cookie) }()
	}
	for deadline := time.Now().Add(10 * time.Second); h.hints.listening() < 2 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	started := time.Now()
	h.want(200, h.admin, "DELETE", "/api/v1/users/u-cyd/logins", "")
	r := <-ends
	if !strings.Contains(r.body, "event: ended") || time.Since(started) > 9*time.Second {
		t.Errorf("the stream ended so:\n%s", r.body)
	}
	if h.hints.listening() != 1 {
		t.Error("somebody else's stream ended too")
	}
	h.srv.Close()
	<-ends
}

func TestLoginsLastAsLongAsConfigured(t *testing.T) {
	h := newHouseOf(t, time.Hour, func(c *dashboard.Config) { c.LoginLife = 2 * time.Hour })
	b := h.signIn("u-ben")
	h.clock.add(time.Hour + time.Second)
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("idle: %d", r.StatusCode)
	}
	b = h.signIn("u-ben")
	for range 3 {
		if r := b.get("/api/v1/me"); r.StatusCode != 200 {
			t.Errorf("in use: %d", r.StatusCode)
		}
		h.flush()
		h.clock.add(39 * time.Minute)
	}
	h.clock.add(4 * time.Minute)
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("over: %d", r.StatusCode)
	}
}

func TestKeysTellWhenTheyWereUsed(t *testing.T) {
	h := newHouse(t)
	h.want(200, h.admin, "GET", "/api/v1/me", "")
	h.want(200, h.owner, "GET", "/api/v1/me", "")
	h.flush()
	var used []any
	for _, k := range h.want(200, h.owner, "GET", "/api/v1/api-keys", "").json(t)["items"].([]any) {
		if k := k.(map[string]any); k["used_at"] != nil {
			used = append(used, k["name"])
		}
	}
	if len(used) != 2 || !slices.Contains(used, "ada") || !slices.Contains(used, "ben") {
		t.Errorf("used: %v", used)
	}
}

// listening is how many streams there are.
func (h *hints) listening() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs) - 1 // which is the Gate
}

// stuckLogins ends none.
type stuckLogins struct{ dashboard.People }

func (stuckLogins) DeleteLogin(context.Context, string) error {
	return errors.New("the database is away")
}

// A link that is used gives its login, whatever becomes of the one before.
func TestALinkIsNotUsedForNothing(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) { c.People = stuckLogins{c.People} })
	b := h.signIn("u-ben")
	code, _ := fragment(t, must(h.srv.CreateLoginLink(t.Context(), org, "u-ada")).URL)
	r := h.want(204, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public, "Cookie", b.cookie)
	if r.Header.Get("Set-Cookie") == "" || !strings.Contains(h.log.String(), "could not delete the previous login of a browser") {
		t.Errorf("cookie %q, log\n%s", r.Header.Get("Set-Cookie"), h.log)
	}
}
