package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

// browser is what a browser sends: its cookie, and from a page's script the
// origin and the key.
type browser struct {
	h      *house
	cookie string
	key    string
}

// signIn opens a link of the person, as the page's script would.
func (h *house) signIn(user string) *browser {
	h.t.Helper()
	return h.signInTo(org, user)
}

func (h *house) signInTo(organization, user string) *browser {
	h.t.Helper()
	link, err := h.srv.CreateLoginLink(h.t.Context(), organization, user)
	if err != nil {
		h.t.Fatal(err)
	}
	code, key := fragment(h.t, link.URL)
	r := h.want(204, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public)
	return &browser{h: h, cookie: strings.SplitN(r.Header.Get("Set-Cookie"), ";", 2)[0], key: key}
}

func fragment(t *testing.T, link string) (code, key string) {
	t.Helper()
	before, after, _ := strings.Cut(link, "#")
	code, key, ok := strings.Cut(after, ".")
	if before != public+"/login" || !ok || len(code) != 43 || len(key) != 43 {
		t.Fatalf("link %s", link)
	}
	return code, key
}

func (b *browser) get(path string) reply { return b.h.do("", "GET", path, "", "Cookie", b.cookie) }

// change is a request of the page's script.
func (b *browser) change(method, path, body string) reply {
	return b.h.do("", method, path, body, "Cookie", b.cookie, "Origin", public, "X-Sallyport-Key", b.key)
}

func TestSignInOnce(t *testing.T) {
	h := newHouse(t)
	link, err := h.srv.CreateLoginLink(t.Context(), org, "u-ben")
	if err != nil {
		t.Fatal(err)
	}
	code, _ := fragment(t, link.URL)
	h.problem(403, "foreign_origin", "", "POST", "/login", `{"code":"`+code+`"}`)
	h.problem(403, "foreign_origin", "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", "http://evil.test")
	h.want(200, "", "GET", "/login?code="+code, "") // only a POST redeems
	r := h.want(204, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public)
	cookie := r.Header.Get("Set-Cookie")
	for _, want := range []string{"sallyport=", "HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q lacks %s", cookie, want)
		}
	}
	spent := h.problem(401, "login_link_over", "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public)
	page := h.want(200, "", "GET", "/login", "").body
	for _, want := range []string{"People → Sign-in link", "restart the server"} {
		if !strings.Contains(spent["detail"].(string), want) || !strings.Contains(page, want) {
			t.Errorf("without a link, nobody reads of %s", want)
		}
	}

	late, err := h.srv.CreateLoginLink(t.Context(), org, "u-ben")
	if err != nil {
		t.Fatal(err)
	}
	h.clock.add(10 * time.Minute)
	code, _ = fragment(t, late.URL)
	h.problem(401, "login_link_over", "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public)
	h.problem(400, "malformed_json", "", "POST", "/login", `{"code":7}`, "Origin", public)
}

func TestCookieOfAnHTTPSOrigin(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) { c.PublicURL = "https://gate.test:8787" })
	link, err := h.srv.CreateLoginLink(t.Context(), org, "u-ben")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(link.URL, "#")
	code, _, _ := strings.Cut(after, ".")
	r := h.want(204, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", "https://gate.test:8787")
	if cookie := r.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-sallyport=") || !strings.Contains(cookie, "Secure") {
		t.Errorf("cookie %q", cookie)
	}
}

// The cookie reads; without the page's key and origin it changes nothing.
func TestTheCookieOnlyReads(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ben")
	id := h.pending("s1")
	path := "/api/v1/invocations/" + id + "/approve"
	h.want(200, "", "GET", "/api/v1/invocations", "", "Cookie", b.cookie)
	stranger := h.signIn("u-ada")
	for name, headers := range map[string][]string{
		"no key":        {"Cookie", b.cookie, "Origin", public},
		"no origin":     {"Cookie", b.cookie, "X-Sallyport-Key", b.key},
		"another key":   {"Cookie", b.cookie, "Origin", public, "X-Sallyport-Key", stranger.key},
		"foreign page":  {"Cookie", b.cookie, "Origin", "http://gate.test:9999", "X-Sallyport-Key", b.key},
		"opaque origin": {"Cookie", b.cookie, "Origin", "null", "X-Sallyport-Key", b.key},
	} {
		for _, route := range [][2]string{{"POST", path}, {"POST", "/api/v1/sessions"}, {"DELETE", "/api/v1/sessions/s1"}, {"PUT", "/api/v1/policy/modes/*"}} {
			if r := h.do("", route[0], route[1], `{"mode":"allow"}`, headers...); r.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s %s: %d", name, route[0], route[1], r.StatusCode)
			}
		}
	}
	h.want(401, "", "POST", path, `{}`, "Origin", public, "X-Sallyport-Key", b.key)
	if inv, _ := h.db.Invocation(t.Context(), org, id); inv.Status != action.StatusPending {
		t.Fatalf("the call is %s", inv.Status)
	}
	if r := b.change("POST", path, `{}`); r.StatusCode != 200 || !strings.Contains(r.body, `"approved_by":"u-ben"`) {
		t.Errorf("the page itself: %d %s", r.StatusCode, r.body)
	}
}

func TestALoginEnds(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ben")
	h.clock.add(7 * time.Hour)
	if r := b.get("/api/v1/me"); r.StatusCode != 200 {
		t.Fatalf("after 7 hours: %d", r.StatusCode)
	}
	h.flush()
	h.clock.add(8*time.Hour + time.Second)
	if r := b.get("/api/v1/me"); r.StatusCode != 401 || r.json(t)["code"] != "login_expired" {
		t.Errorf("idle: %d", r.StatusCode)
	}

	b = h.signIn("u-ben")
	for range 7 * 24 / 6 {
		if r := b.get("/api/v1/me"); r.StatusCode != 200 {
			t.Fatalf("in use: %d", r.StatusCode)
		}
		h.flush()
		h.clock.add(6 * time.Hour)
	}
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("after a week: %d", r.StatusCode)
	}

	b = h.signIn("u-ben")
	if r := b.change("POST", "/logout", ""); r.StatusCode != 204 || !strings.Contains(r.Header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("signing out: %d", r.StatusCode)
	}
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("signed out: %d", r.StatusCode)
	}
	b = h.signIn("u-cyd")
	if err := h.db.DeleteUser(t.Context(), org, "u-cyd", "u-ada"); err != nil {
		t.Fatal(err)
	}
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("removed: %d", r.StatusCode)
	}
}

// The sign-in link never reaches the log.
func TestNothingSecretIsLogged(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ada")
	link := b.change("POST", "/api/v1/users/u-ben/login-link", "").json(t)
	minted := b.change("POST", "/api/v1/sessions", `{}`).json(t)
	code, key := fragment(t, link["url"].(string))
	for _, secret := range []string{code, key, b.key, b.cookie, minted["token"].(string)} {
		if strings.Contains(h.log.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
	_, value, _ := strings.Cut(b.cookie, "=")
	if strings.Contains(h.rows(org), value) {
		t.Error("a cookie is stored as it is")
	}
}

// settings is all pages where things are set up.
func (b *browser) settings() string {
	var all strings.Builder
	for _, path := range []string{"/connectors", "/integrations", "/policy", "/grants", "/sessions", "/people"} {
		all.WriteString(b.get(path).body)
	}
	return all.String()
}
