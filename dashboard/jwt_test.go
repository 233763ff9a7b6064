package dashboard_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sallyport/dashboard"
)

func pemOf(t *testing.T, public any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// hostClaims are good ones, with changes; nil removes one.
func hostClaims(now time.Time, change map[string]any) map[string]any {
	c := map[string]any{
		"iss": "https://app.example.com", "aud": public, "sub": "7", "org": org, "role": "admin", "name": "Bob",
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func TestTokensOfAHostApplication(t *testing.T) {
	key := p256(t)
	pub := pemOf(t, key.Public())
	h := newHouse(t, func(c *dashboard.Config) {
		c.UserJWT = &dashboard.UserJWT{Issuer: "https://app.example.com", Audience: public, PublicKey: pub}
	})
	token := func(change map[string]any) string {
		return signed(t, jose.ES256, key, hostClaims(h.clock.now(), change))
	}
	me := h.want(200, token(nil), "GET", "/api/v1/me", "").json(t)
	if me["name"] != "Bob" || me["role"] != "admin" || me["organization_id"] != org {
		t.Errorf("the bearer is %v", me)
	}
	h.want(200, token(nil), "POST", "/api/v1/invocations/"+h.pending("s1")+"/approve", `{}`)
	h.problem(403, "role_required", token(map[string]any{"role": "member"}), "POST", "/api/v1/invocations/"+h.pending("s1")+"/approve", `{}`)
	if again := h.want(200, token(map[string]any{"org": "org2"}), "GET", "/api/v1/me", "").json(t); again["user_id"] == me["user_id"] {
		t.Error("one row is in two organizations")
	}

	stranger := p256(t)
	later := func(d time.Duration) int64 { return h.clock.now().Add(d).Unix() }
	for name, bad := range map[string]string{
		"no exp":                  token(map[string]any{"exp": nil}),
		"over":                    token(map[string]any{"exp": later(-2 * time.Minute)}),
		"for a day":               token(map[string]any{"exp": later(24 * time.Hour)}),
		"from tomorrow":           token(map[string]any{"iat": later(30 * time.Minute)}),
		"another audience":        token(map[string]any{"aud": "https://other.example.com"}),
		"no audience":             token(map[string]any{"aud": nil}),
		"another issuer":          token(map[string]any{"iss": "https://evil.example.com"}),
		"no subject":              token(map[string]any{"sub": nil}),
		"no organization":         token(map[string]any{"org": nil}),
		"an unknown organization": token(map[string]any{"org": "nobody"}),
		"no role":                 token(map[string]any{"role": nil}),
		"an unknown role":         token(map[string]any{"role": "root"}),
		"roles":                   token(map[string]any{"role": []string{"owner"}}),
		"alg none":                unsigned(hostClaims(h.clock.now(), nil)),
		"HS256 with the key":      signed(t, jose.HS256, pub, hostClaims(h.clock.now(), nil)),
		"a stranger":              signed(t, jose.ES256, stranger, hostClaims(h.clock.now(), nil)),
		"no token":                "ey.ey.ey",
	} {
		r := h.do(bad, "GET", "/api/v1/me", "")
		if r.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(r.json(t)["code"].(string), "bad_user_token") && name != "no subject" {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
		}
	}
	h2 := newHouse(t)
	h2.problem(401, "unauthenticated", token(nil), "GET", "/api/v1/me", "")
}

// Who keeps a token of before keeps no role of before.
func TestAnOlderTokenUndoesNothing(t *testing.T) {
	key := p256(t)
	h := newHouse(t, func(c *dashboard.Config) {
		c.UserJWT = &dashboard.UserJWT{Issuer: "https://app.example.com", Audience: public, PublicKey: pemOf(t, key.Public())}
	})
	token := func(role string, ago time.Duration) string {
		return signed(t, jose.ES256, key, hostClaims(h.clock.now(), map[string]any{"role": role, "iat": h.clock.now().Add(-ago).Unix()}))
	}
	old, undated := token("owner", time.Minute), signed(t, jose.ES256, key, hostClaims(h.clock.now(), map[string]any{"role": "owner", "iat": nil}))
	is := func(token, want, row string) {
		t.Helper()
		me := h.want(200, token, "GET", "/api/v1/me", "").json(t)
		if u, err := h.db.User(t.Context(), org, me["user_id"].(string)); err != nil || me["role"] != want || string(u.Role) != row {
			t.Errorf("the bearer is %v of a person that is %s (%v), want %s of %s", me["role"], u.Role, err, want, row)
		}
	}
	is(old, "owner", "owner")
	is(token("member", 0), "member", "member")
	is(old, "member", "member")
	is(undated, "member", "member")
	less := token("member", 0)
	h.clock.add(time.Second)
	is(token("admin", 0), "admin", "admin")
	is(old, "admin", "admin")
	is(less, "member", "admin")
	h.problem(401, "bad_user_token", less, "POST", "/api/v1/me/login-link", "")
}

// The application leads the browser to a link that it got for its user.
func TestALinkForAUserOfAHostApplication(t *testing.T) {
	key := p256(t)
	h := newHouse(t, func(c *dashboard.Config) {
		c.UserJWT = &dashboard.UserJWT{Issuer: "https://app.example.com", Audience: public, PublicKey: pemOf(t, key.Public())}
	})
	token := signed(t, jose.ES256, key, hostClaims(h.clock.now(), map[string]any{"role": "member"}))
	link := h.want(201, token, "POST", "/api/v1/me/login-link", "").json(t)
	code, pageKey := fragment(t, link["url"].(string))
	r := h.want(204, "", "POST", "/login", `{"code":"`+code+`"}`, "Origin", public)
	b := &browser{h: h, cookie: strings.SplitN(r.Header.Get("Set-Cookie"), ";", 2)[0], key: pageKey}
	if me := b.get("/api/v1/me").json(t); me["name"] != "Bob" || me["role"] != "member" {
		t.Errorf("signed in as %v", me)
	}
	if via := b.get("/api/v1/me/logins").json(t)["items"].([]any)[0].(map[string]any)["via"]; via != "host" {
		t.Errorf("via %v", via)
	}
	h.problem(403, "host_only", h.owner, "POST", "/api/v1/me/login-link", "")
	if r := b.change("POST", "/api/v1/me/login-link", ""); r.StatusCode != 403 {
		t.Errorf("a browser makes itself a link: %d", r.StatusCode)
	}
	if strings.Contains(h.log.String(), token) || strings.Contains(h.log.String(), pageKey) {
		t.Error("the log has a secret")
	}
}

// Keys that are read from an address are read again for one that is not among
// them, and seldom, whoever sends tokens.
func TestKeysOfAHostApplication(t *testing.T) {
	first, second := ed25519.NewKeyFromSeed(make([]byte, 32)), p256(t)
	var fetched atomic.Int32
	var keys atomic.Pointer[jose.JSONWebKeySet]
	keys.Store(&jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: first.Public(), KeyID: "1"}}})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_ = json.NewEncoder(w).Encode(keys.Load())
	}))
	t.Cleanup(srv.Close)
	h := newHouse(t, func(c *dashboard.Config) {
		c.UserJWT = &dashboard.UserJWT{Issuer: "https://app.example.com", Audience: public, JWKSURL: srv.URL}
	})
	one := signed(t, jose.EdDSA, jose.JSONWebKey{Key: first, KeyID: "1"}, hostClaims(h.clock.now(), nil))
	two := signed(t, jose.ES256, jose.JSONWebKey{Key: second, KeyID: "2"}, hostClaims(h.clock.now(), nil))
	h.want(200, one, "GET", "/api/v1/me", "")
	for range 20 {
		h.want(401, two, "GET", "/api/v1/me", "")
	}
	if n := fetched.Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
	keys.Store(&jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: second.Public(), KeyID: "2"}}})
	h.clock.add(10 * time.Second)
	// The library hands an answer out until its reader has put it away.
	for end := time.Now().Add(time.Minute); h.do(two, "GET", "/api/v1/me", "").StatusCode != 200 && time.Now().Before(end); {
		h.clock.add(10 * time.Second)
	}
	h.want(200, two, "GET", "/api/v1/me", "")
	h.want(401, one, "GET", "/api/v1/me", "")
}

func TestKeysThatAreTaken(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := dashboard.UserJWT{Issuer: "x", Audience: "y", PublicKey: pemOf(t, p256(t).Public())}
	if err := dashboard.CheckUserJWT(&good); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]dashboard.UserJWT{
		"a weak key":    {Issuer: "x", Audience: "y", PublicKey: pemOf(t, weak.Public())},
		"no key":        {Issuer: "x", Audience: "y"},
		"two":           {Issuer: "x", Audience: "y", JWKSURL: "https://a.example.com", PublicKey: good.PublicKey},
		"an open line":  {Issuer: "x", Audience: "y", JWKSURL: "http://a.example.com/keys"},
		"no issuer":     {Audience: "y", PublicKey: good.PublicKey},
		"no audience":   {Issuer: "x", PublicKey: good.PublicKey},
		"text":          {Issuer: "x", Audience: "y", PublicKey: []byte("secret")},
		"a private key": {Issuer: "x", Audience: "y", PublicKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})},
	} {
		if dashboard.CheckUserJWT(&bad) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
