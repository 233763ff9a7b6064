package page_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// openIDProvider signs everybody in at once, as one person.
func openIDProvider(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var nonces sync.Map // by code
	var issuer string
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, args{"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token", "jwks_uri": issuer + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256"}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), rand.Text()
		nonces.Store(code, q.Get("nonce"))
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		nonce, _ := nonces.LoadAndDelete(r.FormValue("code"))
		token, err := jwt.Signed(signer).Claims(args{
			"iss": issuer, "aud": "sallyport", "sub": "7", "name": "Olive Open", "nonce": nonce, "exp": time.Now().Add(time.Minute).Unix(), "groups": []string{"approvers"},
		}).Serialize()
		if err != nil {
			t.Error(err)
		}
		answer(w, args{"access_token": "x", "token_type": "Bearer", "id_token": token})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	issuer = srv.URL
	return issuer
}

// People sign in with their provider and come to where they were going; one who
// signs out everywhere is out in every window at once, and reads why.
func TestPeopleSignInAndOut(t *testing.T) {
	s := beginAlone(t, "--oidc-issuer", openIDProvider(t), "--oidc-client-id", "sallyport", "--oidc-name", "Acme ID",
		"--oidc-role-claim", "groups", "--oidc-role-map", "approvers=admin")
	enter := func(who string) *window {
		w := s.open(who, nil)
		w.goTo("/people")
		w.waitFor(`location.pathname === "/login"`, "the page to sign in")
		w.sees("Sign in with Acme ID")
		w.photo("sign-in")
		w.click("Sign in with Acme ID")
		w.waitFor(`location.pathname === "/people" && document.readyState === "complete"`, "the page that was asked for")
		w.sees("Olive Open", "Acme ID", "(you)", "(this browser)")
		return w
	}
	one, two := enter("one"), enter("two")
	one.photo("people")

	one.click("Sign out everywhere")
	one.confirm()
	one.waitFor(`location.pathname === "/login"`, "the page to sign in, in the window that signed out")
	two.waitFor(`location.pathname === "/login"`, "the page to sign in, in the other window")
	two.sees("You signed out, here or from another browser")

	mintsASession(t, s)
}

// asksBeforeAnother has a link that somebody sent wait for a yes.
func asksBeforeAnother(s *story, w *window) {
	link := strings.TrimPrefix(s.link(w.user), s.URL)
	w.goTo(link)
	w.sees("You are signed in as")
	w.clickOn("#confirm[open] button[value=no]")
	w.waitFor(`location.pathname === "/"`, "the inbox of who was signed in")
	w.goTo(link)
	w.confirm()
	w.waitFor(`location.pathname === "/"`, "the inbox after the link, which was still good")
}

// mintsASession copies what an agent needs.
func mintsASession(t *testing.T, s *story) {
	t.Helper()
	admin := s.person("admin")
	admin.goTo("/sessions")
	admin.fill("#new-session [name=title]", "Fix the login page")
	admin.within("#new-session").click("Create session")
	admin.shows("#session-once")
	var env, snippet string
	admin.eval(`document.querySelector("#session-env").textContent`, &env)
	admin.eval(`document.querySelector("#session-snippet").textContent`, &snippet)
	var config struct {
		MCP map[string]struct{ Type, URL string } `json:"mcp"`
	}
	if err := json.Unmarshal([]byte(snippet), &config); err != nil || config.MCP["sallyport"].URL != s.MCPURL || config.MCP["sallyport"].Type != "remote" {
		t.Errorf("the snippet is %s: %v", snippet, err)
	}
	token, ok := strings.CutPrefix(env, "export SALLYPORT_TOKEN=")
	if !ok || s.as(token).status("GET", "/api/v1/me", nil) != http.StatusOK {
		t.Errorf("the line is %q", env)
	}
	admin.click("Copy configuration")
	// The notice hides after 6 s, which a busy machine may take to look; its text stays.
	admin.waitFor(`document.querySelector("#notice").textContent === "Copied"`, "the notice that it is copied")
	admin.within("#session-list").sees("Fix the login page")
	admin.photo("session-minted")
	admin.reload()
	admin.misses(token)

	admin.within("#session-list").click("Stop")
	admin.confirm()
	admin.waitFor(`document.querySelector("#session-list .empty") !== null`, "the list without the session")
	admin.goTo("/sessions?state=ended")
	admin.within("#session-list").sees("Fix the login page", "stopped")
	if got := s.as(token).status("GET", "/api/v1/me", nil); got != http.StatusUnauthorized {
		t.Errorf("the token of a revoked session: %d", got)
	}
	asksBeforeAnother(s, admin)
}
