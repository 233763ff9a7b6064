package dashboard_test

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sallyport/action"
	"sallyport/dashboard"
)

// oidcHouse is a house whose people sign in with a provider.
func oidcHouse(t *testing.T, change ...func(*dashboard.OIDC)) (*house, *idp) {
	t.Helper()
	var p *idp
	h := newHouse(t, func(c *dashboard.Config) {
		p = newIDP(t, c.Now)
		c.OIDC = &dashboard.OIDC{
			Issuer: p.URL, ClientID: "sallyport", ClientSecret: "s3cret", Name: "Acme ID", Organization: org,
			RoleClaim: "groups", RoleMap: map[string]action.Role{"approvers": action.RoleAdmin, "platform": action.RoleOwner, "all": action.RoleMember},
		}
		for _, f := range change {
			f(c.OIDC)
		}
	})
	return h, p
}

// begin leaves for the provider and returns the cookie of the flow and where
// the provider leads back.
func (h *house) begin(p *idp, next string) (cookie string, back *url.URL) {
	h.t.Helper()
	r := h.want(http.StatusSeeOther, "", "GET", "/login/oidc"+next, "")
	for _, c := range r.Cookies() {
		if strings.HasSuffix(c.Name, "-oidc") {
			if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 600 {
				h.t.Errorf("the flow's cookie is %s", c)
			}
			cookie = c.Name + "=" + c.Value
		}
	}
	return cookie, p.authorize(r.Header.Get("Location"))
}

// comeBack is the browser that the provider leads back.
func (h *house) comeBack(cookie string, back *url.URL) reply {
	h.t.Helper()
	return h.do("", "GET", back.RequestURI(), "", "Cookie", cookie)
}

// signInThere is the whole sign-in; it returns the browser and where the page
// goes on.
func (h *house) signInThere(p *idp, next string) (b *browser, to *url.URL) {
	h.t.Helper()
	r := h.comeBack(h.begin(p, next))
	if r.StatusCode != http.StatusSeeOther {
		h.t.Fatalf("the callback answered %d\n%s\n%s", r.StatusCode, r.body, h.log)
	}
	to, err := url.Parse(r.Header.Get("Location"))
	if err != nil {
		h.t.Fatal(err)
	}
	code, key, _ := strings.Cut(to.Fragment, ".")
	in := h.want(204, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public)
	return &browser{h: h, cookie: strings.SplitN(in.Header.Get("Set-Cookie"), ";", 2)[0], key: key}, to
}

func TestSignInWithOpenIDConnect(t *testing.T) {
	h, p := oidcHouse(t)
	if page := h.want(200, "", "GET", "/login?next=/activity", "").body; !strings.Contains(page, `href="/login/oidc?next=%2Factivity"`) || !strings.Contains(page, "Sign in with Acme ID") {
		t.Errorf("the sign-in page does not offer it:\n%s", page)
	}
	b, to := h.signInThere(p, "?next="+url.QueryEscape("/activity?status=pending"))
	if got := to.Scheme + "://" + to.Host + to.Path; got != public+"/login" || to.Query().Get("next") != "/activity?status=pending" {
		t.Errorf("the page goes on at %s", to)
	}
	me := b.get("/api/v1/me").json(t)
	if me["name"] != "Bob" || me["role"] != "admin" || me["organization_id"] != org {
		t.Errorf("signed in as %v", me)
	}
	if r := b.change("POST", "/api/v1/invocations/"+h.pending("s1")+"/approve", `{}`); r.StatusCode != 200 {
		t.Errorf("an admin of the provider approves: %d %s", r.StatusCode, r.body)
	}
	// The name is no identity, and neither is an e-mail address.
	p.claims = map[string]any{"sub": "8", "email": "bob@example.com", "groups": "all"}
	other, _ := h.signInThere(p, "")
	if o := other.get("/api/v1/me").json(t); o["user_id"] == me["user_id"] || o["role"] != "member" {
		t.Errorf("another subject of the same name is %v", o)
	}
	for _, word := range []string{b.key, b.cookie, "s3cret"} {
		if strings.Contains(h.log.String(), word) {
			t.Errorf("the log has %s", word)
		}
	}
}

// What may not come in, and leaves no login behind.
func TestForgedSignIns(t *testing.T) {
	h, p := oidcHouse(t)
	later := func(d time.Duration) int64 { return h.clock.now().Add(d).Unix() }
	stranger := p256(t)
	for name, lie := range map[string]func(){
		"nonce of another sign-in": func() { p.claims["nonce"] = "x" },
		"no nonce":                 func() { p.claims["nonce"] = nil },
		"expired":                  func() { p.claims["exp"] = later(-2 * time.Minute) },
		"no expiry":                func() { p.claims["exp"] = nil },
		"not yet":                  func() { p.claims["nbf"] = later(time.Hour) },
		"another audience":         func() { p.claims["aud"] = "other" },
		"issued to another client": func() { p.claims["aud"], p.claims["azp"] = []string{"sallyport", "other"}, "other" },
		"several audiences":        func() { p.claims["aud"] = []string{"sallyport", "other"} },
		"another issuer":           func() { p.claims["iss"] = "https://id.example.com" },
		"no subject":               func() { p.claims["sub"] = "" },
		"a long subject":           func() { p.claims["sub"] = strings.Repeat("x", 256) },
		"alg none":                 func() { p.sign = unsigned },
		"signed with the public key": func() {
			public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(p.key.Public()))})
			p.sign = func(c map[string]any) string { return signed(t, jose.HS256, public, c) }
		},
		"signed with the client's secret": func() {
			p.sign = func(c map[string]any) string {
				return signed(t, jose.HS256, []byte("s3cret"+strings.Repeat(" ", 32)), c)
			}
		},
		"signed by a stranger": func() {
			p.sign = func(c map[string]any) string {
				return signed(t, jose.ES256, jose.JSONWebKey{Key: stranger, KeyID: p.kid}, c)
			}
		},
		"no token at all": func() { p.sign = func(map[string]any) string { return "" } },
	} {
		p.claims, p.sign = map[string]any{}, p.rs256
		lie()
		r := h.comeBack(h.begin(p, ""))
		if r.StatusCode != http.StatusUnauthorized || !strings.Contains(r.body, `role="alert"`) || strings.Contains(r.Header.Get("Location"), "#") {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Header.Get("Location"))
		}
	}
	if h.count("login_links") != 0 || h.count("users") != 3 {
		t.Errorf("%d links and %d people were made", h.count("login_links"), h.count("users"))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A clock that is a little wrong keeps nobody out.
func TestProviderWithAnotherClock(t *testing.T) {
	h, p := oidcHouse(t)
	for name, skew := range map[string]time.Duration{"behind": -30 * time.Second, "ahead": 2 * time.Minute} {
		now := h.clock.now().Add(skew)
		p.claims = map[string]any{"iat": now.Unix(), "nbf": now.Unix(), "exp": h.clock.now().Add(skew).Unix() + 1}
		if r := h.comeBack(h.begin(p, "")); r.StatusCode != http.StatusSeeOther {
			t.Errorf("a provider whose clock is %s: %d", name, r.StatusCode)
		}
	}
}

// A sign-in ends in the browser that began it, and once.
func TestASignInBelongsToItsBrowser(t *testing.T) {
	h, p := oidcHouse(t)
	cookie, back := h.begin(p, "")
	otherCookie, _ := h.begin(p, "")
	refused := func(name, cookie string, back *url.URL) {
		t.Helper()
		if r := h.comeBack(cookie, back); r.StatusCode != http.StatusUnauthorized || r.Header.Get("Location") != "" {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Header.Get("Location"))
		}
	}
	refused("a browser that began nothing", "", back)
	refused("a browser that began another", otherCookie, back)
	refused("a cookie of one's own making", "sallyport-oidc=e30", back)
	without := *back
	without.RawQuery = url.Values{"code": {back.Query().Get("code")}}.Encode()
	refused("no state", cookie, &without)
	mixed := *back
	mixed.RawQuery += "&iss=" + url.QueryEscape("https://evil.example.com")
	refused("another provider", cookie, &mixed)
	if len(p.fetched) > 0 && p.fetched["/token"] > 0 {
		t.Error("a code was traded for a browser that did not begin")
	}

	r := h.comeBack(cookie, back)
	if r.StatusCode != http.StatusSeeOther {
		t.Fatalf("the right browser: %d", r.StatusCode)
	}
	gone := r.Header.Get("Set-Cookie")
	if !strings.Contains(gone, "Max-Age=0") {
		t.Errorf("the flow's cookie stays: %s", gone)
	}
	refused("again, with the cookie kept", cookie, back)
	late, backLate := h.begin(p, "")
	h.clock.add(10 * time.Minute)
	refused("ten minutes later", late, backLate)
}

// A cookie that somebody planted before is no login after.
func TestNoSessionFixation(t *testing.T) {
	h, p := oidcHouse(t)
	b, _ := h.signInThere(p, "")
	r := h.comeBack(h.begin(p, ""))
	to := must(url.Parse(r.Header.Get("Location")))
	code, _, _ := strings.Cut(to.Fragment, ".")
	in := h.want(204, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public, "Cookie", b.cookie)
	if strings.HasPrefix(in.Header.Get("Set-Cookie"), b.cookie) {
		t.Error("the cookie of before is that of the new login")
	}
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("the login of before, which nobody could end any more: %d", r.StatusCode)
	}
	planted := "sallyport=" + strings.Repeat("A", 43)
	code2, _ := fragment(t, must(h.srv.CreateLoginLink(t.Context(), org, "u-ben")).URL)
	h.want(204, "", "POST", "/login", `{"code":"`+code2+`"}`, "Origin", public, "Cookie", planted)
	h.want(401, "", "GET", "/api/v1/me", "", "Cookie", planted)
}

func TestNowhereElse(t *testing.T) {
	h, p := oidcHouse(t)
	for _, next := range []string{
		"https://evil.example.com", "//evil.example.com", "///evil.example.com", `/\evil.example.com`, `\\evil.example.com`, "/\t/evil.example.com", "javascript:alert(1)",
		"evil.example.com", "http:evil.example.com", "/login?next=//evil", "/login/oidc", "", "@evil.example.com", ":", "/%zz",
		"/.//evil.example.com", "/..//evil.example.com", "/%2e//evil.example.com", "/%2E%2e//evil.example.com", "/a/..//evil.example.com", "/%2fevil.example.com",
		"/%5cevil.example.com", `/.\\evil.example.com`, "/activity//x", "/./login", "/a/../login", "/\u0000/evil.example.com",
	} {
		_, to := h.signInThere(p, "?next="+url.QueryEscape(next))
		if to.Host != "gate.test:8787" || to.Query().Get("next") != "" {
			t.Errorf("%q leads to %s", next, to)
		}
	}
}

// What the provider says is data: words that are known are told, others not.
func TestWhatTheProviderSaysIsNoMarkup(t *testing.T) {
	h, p := oidcHouse(t)
	for code, shown := range map[string]bool{"access_denied": true, "<script>pwned()</script>": false, "pwned": false} {
		cookie, back := h.begin(p, "")
		q := url.Values{"state": {back.Query().Get("state")}, "error": {code}, "error_description": {"<script>pwned()</script> call 555-1234"}}
		r := h.comeBack(cookie, &url.URL{Path: back.Path, RawQuery: q.Encode()})
		if r.StatusCode != 401 || strings.Contains(r.body, "pwned") || strings.Contains(r.body, "555") || strings.Contains(r.body, code) != shown {
			t.Errorf("%s: %d\n%s", code, r.StatusCode, r.body)
		}
	}
	p.claims = map[string]any{"name": "<script>pwned()</script>\u202e\x00" + strings.Repeat("x", 500)}
	b, _ := h.signInThere(p, "")
	if page := b.get("/people").body; strings.Contains(page, "<script>pwned") {
		t.Error("a name is markup")
	}
	if me := b.get("/api/v1/me").json(t); len([]rune(me["name"].(string))) > 120 {
		t.Errorf("the name is %d long", len([]rune(me["name"].(string))))
	}
}

func TestRolesFollowTheProvider(t *testing.T) {
	nested := func(o *dashboard.OIDC) { o.RoleClaim = "resource_access.sallyport.roles" }
	dotted := func(o *dashboard.OIDC) { o.RoleClaim = "https://acme.example.com/roles" }
	admins := func(o *dashboard.OIDC) { o.DefaultRole = action.RoleAdmin }
	anyone := func(o *dashboard.OIDC) { o.DefaultRole = action.RoleMember }
	for _, test := range []struct {
		name   string
		change func(*dashboard.OIDC)
		claims map[string]any
		want   string
	}{
		{"a list", nil, map[string]any{"groups": []any{"staff", 7, nil, "approvers"}}, "admin"},
		{"a text", nil, map[string]any{"groups": "all"}, "member"},
		{"the mightiest", nil, map[string]any{"groups": []string{"all", "platform", "approvers"}}, "owner"},
		{"not mapped", nil, map[string]any{"groups": []string{"staff"}}, ""},
		{"part of a name", nil, map[string]any{"groups": "approvers,platform"}, ""},
		{"no claim", nil, map[string]any{"groups": nil}, ""},
		{"an object", nil, map[string]any{"groups": map[string]any{"approvers": true}}, ""},
		{"a path", nested, map[string]any{"resource_access": map[string]any{"sallyport": map[string]any{"roles": []string{"approvers"}}}}, "admin"},
		{"a path that ends", nested, map[string]any{"resource_access": "approvers"}, ""},
		{"a name with dots", dotted, map[string]any{"https://acme.example.com/roles": "approvers"}, "admin"},
		{"the default", anyone, map[string]any{"groups": nil}, "member"},
		{"under the default", admins, map[string]any{"groups": []string{"all", "staff"}}, "member"},
		{"beside the default", admins, map[string]any{"groups": "staff"}, "admin"},
		{"over the default", anyone, map[string]any{"groups": "platform"}, "owner"},
	} {
		h, p := oidcHouse(t, func(o *dashboard.OIDC) {
			if test.change != nil {
				test.change(o)
			}
		})
		p.claims = test.claims
		if test.want == "" {
			if r := h.comeBack(h.begin(p, "")); r.StatusCode != 403 || !strings.Contains(r.body, "gives you no role") {
				t.Errorf("%s: %d", test.name, r.StatusCode)
			}
			continue
		}
		b, _ := h.signInThere(p, "")
		if me := b.get("/api/v1/me").json(t); me["role"] != test.want {
			t.Errorf("%s: %v, want %s", test.name, me["role"], test.want)
		}
	}
}

// A role that is taken away ends what somebody has.
func TestARoleThatIsGone(t *testing.T) {
	h, p := oidcHouse(t)
	p.claims["groups"] = "platform"
	b, _ := h.signInThere(p, "")
	id := b.get("/api/v1/me").json(t)["user_id"].(string)
	p.claims["groups"] = "approvers"
	h.signInThere(p, "")
	if me := b.get("/api/v1/me").json(t); me["role"] != "admin" {
		t.Errorf("the login of before is %v", me["role"])
	}
	if r := h.do(h.owner, "PATCH", "/api/v1/users/"+id, `{"role":"owner"}`); r.StatusCode != 409 || r.json(t)["code"] != "role_from_elsewhere" {
		t.Errorf("a role given here: %d", r.StatusCode)
	}
	h.problem(409, "signs_in_elsewhere", h.owner, "POST", "/api/v1/users/"+id+"/login-link", "")
	p.claims["groups"] = "staff"
	if r := h.comeBack(h.begin(p, "")); r.StatusCode != 403 {
		t.Errorf("without a role: %d", r.StatusCode)
	}
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("the login of before: %d", r.StatusCode)
	}
	if page := b.get("/login").body; !strings.Contains(page, "You no longer have a role in this organization.") {
		t.Error("the page does not say why")
	}
}

func TestWhoWasRemovedStaysAway(t *testing.T) {
	h, p := oidcHouse(t)
	b, _ := h.signInThere(p, "")
	id := b.get("/api/v1/me").json(t)["user_id"].(string)
	h.want(204, h.owner, "DELETE", "/api/v1/users/"+id, "")
	if r := h.comeBack(h.begin(p, "")); r.StatusCode != 403 {
		t.Errorf("removed: %d", r.StatusCode)
	}
	h.problem(403, "role_required", h.member, "GET", "/api/v1/removed-users", "")
	if list := h.want(200, h.admin, "GET", "/api/v1/removed-users", "").json(t); len(list["items"].([]any)) != 1 {
		t.Errorf("removed: %v", list)
	}
	h.want(204, h.admin, "DELETE", "/api/v1/removed-users/"+id, "")

	p.claims["groups"] = "platform"
	b, _ = h.signInThere(p, "")
	id = b.get("/api/v1/me").json(t)["user_id"].(string)
	h.want(204, h.owner, "DELETE", "/api/v1/users/"+id, "")
	h.problem(403, "owner_required", h.admin, "DELETE", "/api/v1/removed-users/"+id, "")
	h.want(204, h.owner, "DELETE", "/api/v1/removed-users/"+id, "")
	h.signInThere(p, "")
}

// The last owner does not become less by signing in, and is let in as nothing
// more than the provider says.
func TestTheLastOwnerIsNotDemoted(t *testing.T) {
	h, p := oidcHouse(t)
	p.claims["groups"] = "platform"
	b, _ := h.signInThere(p, "")
	if err := h.db.SetUserRole(t.Context(), org, "u-ada", action.RoleMember, "x"); err != nil {
		t.Fatal(err)
	}
	p.claims["groups"] = "approvers"
	if r := h.comeBack(h.begin(p, "")); r.StatusCode != 403 || !strings.Contains(r.body, "the last owner") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.get("/api/v1/me"); r.StatusCode != 401 {
		t.Errorf("the login of before: %d", r.StatusCode)
	}
}

func TestKeysOfTheProviderAreReplaced(t *testing.T) {
	h, p := oidcHouse(t)
	h.signInThere(p, "")
	p.mu.Lock()
	p.rotate("second")
	p.mu.Unlock()
	h.signInThere(p, "")
	if n := p.fetched["/keys"]; n != 2 {
		t.Errorf("the keys were read %d times", n)
	}
}

// A provider that is down keeps nobody else out, and is asked seldom.
func TestAProviderThatIsDown(t *testing.T) {
	h, p := oidcHouse(t)
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	for range 5 {
		if r := h.do("", "GET", "/login/oidc", ""); r.StatusCode != 503 || !strings.Contains(r.body, "is unreachable") || r.Header.Get("Set-Cookie") != "" {
			t.Fatalf("%d\n%s", r.StatusCode, r.body)
		}
	}
	if n := p.fetched["/.well-known/openid-configuration"]; n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	h.signIn("u-ben")
	p.mu.Lock()
	p.down = false
	p.mu.Unlock()
	h.clock.add(5 * time.Second)
	h.signInThere(p, "")
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	h.clock.add(2 * time.Hour)
	h.begin(p, "") // what it said before stands in
}

// Many sign in at the moment at which the provider is asked again.
func TestManyAskTheProvider(t *testing.T) {
	h, p := oidcHouse(t)
	h.begin(p, "")
	h.clock.add(2 * time.Hour)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if r := h.do("", "GET", "/login/oidc", ""); r.StatusCode != 303 {
				t.Errorf("answered %d", r.StatusCode)
			}
		})
	}
	all.Wait()
	if n := p.fetched["/.well-known/openid-configuration"]; n != 2 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestWithoutAProvider(t *testing.T) {
	h := newHouse(t)
	h.want(404, "", "GET", "/login/oidc", "")
	h.want(404, "", "GET", "/login/oidc/callback?state=&code=x", "")
	if strings.Contains(h.want(200, "", "GET", "/login", "").body, "/login/oidc") {
		t.Error("the page offers it")
	}
}

func TestCookieOfAFlowOnHTTPS(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) {
		p := newIDP(t, c.Now)
		c.PublicURL = "https://gate.test:8787"
		c.OIDC = &dashboard.OIDC{Issuer: p.URL, ClientID: "sallyport", Organization: org, DefaultRole: action.RoleMember}
	})
	r := h.want(303, "", "GET", "/login/oidc", "")
	if c := r.Header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-sallyport-oidc=") || !strings.Contains(c, "; Secure") || !strings.Contains(c, "Path=/;") {
		t.Errorf("cookie %q", c)
	}
}

func TestOpenIDConnectThatLetsAnybodyIn(t *testing.T) {
	good := dashboard.OIDC{Issuer: "https://id.example.com", ClientID: "x", Organization: org, RoleClaim: "groups", RoleMap: map[string]action.Role{"a": action.RoleAdmin}}
	for name, change := range map[string]func(*dashboard.OIDC){
		"an open line":    func(o *dashboard.OIDC) { o.Issuer = "http://id.example.com" },
		"no issuer":       func(o *dashboard.OIDC) { o.Issuer = "" },
		"no client":       func(o *dashboard.OIDC) { o.ClientID = "" },
		"no role at all":  func(o *dashboard.OIDC) { o.RoleMap = nil },
		"no claim":        func(o *dashboard.OIDC) { o.RoleClaim = "" },
		"everybody owns":  func(o *dashboard.OIDC) { o.DefaultRole = action.RoleOwner },
		"an unknown role": func(o *dashboard.OIDC) { o.RoleMap = map[string]action.Role{"a": "root"} },
	} {
		o := good
		o.RoleMap = maps.Clone(good.RoleMap)
		change(&o)
		if dashboard.CheckOIDC(&o) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := dashboard.CheckOIDC(&good); err != nil {
		t.Error(err)
	}
}
