package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-oauth2/oauth2/v4"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/models"
	"github.com/go-oauth2/oauth2/v4/server"
	tokenstore "github.com/go-oauth2/oauth2/v4/store"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/internal/vault"
	"sallyport/sources"
	"sallyport/sources/credential"
	"sallyport/store"
)

const callback = "http://localhost:3000/callback"

// authority is an authorization server of the library, which insists on PKCE with
// S256 and issues each refresh token once.
type authority struct {
	*httptest.Server
	manager *manage.Manager
	issued  atomic.Int64
}

// Token implements oauth2.AccessGenerate: tokens that a test can look for.
func (a *authority) Token(_ context.Context, _ *oauth2.GenerateBasic, refresh bool) (string, string, error) {
	n := a.issued.Add(1)
	if !refresh {
		return fmt.Sprintf("access-canary-%d", n), "", nil
	}
	return fmt.Sprintf("access-canary-%d", n), fmt.Sprintf("refresh-canary-%d", n), nil
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{manager: manage.NewDefaultManager()}
	a.manager.MustTokenStorage(tokenstore.NewMemoryTokenStore())
	a.manager.MapAccessGenerate(a)
	clients := tokenstore.NewClientStore()
	if err := clients.Set("client", &models.Client{ID: "client", Secret: "secret-canary", Domain: callback + "/acme"}); err != nil {
		t.Fatal(err)
	}
	a.manager.MapClientStorage(clients)
	a.manager.SetValidateURIHandler(func(registered, asked string) error {
		if registered != asked {
			return fmt.Errorf("%s is not registered", asked)
		}
		return nil
	})
	config := server.NewConfig()
	config.ForcePKCE, config.AllowedCodeChallengeMethods = true, []oauth2.CodeChallengeMethod{oauth2.CodeChallengeS256}
	s := server.NewServer(config, a.manager)
	s.SetClientInfoHandler(server.ClientFormHandler)
	s.SetUserAuthorizationHandler(func(http.ResponseWriter, *http.Request) (string, error) { return "ann", nil })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /oauth/authorize", func(w http.ResponseWriter, r *http.Request) { _ = s.HandleAuthorizeRequest(w, r) })
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) { _ = s.HandleTokenRequest(w, r) })
	mux.HandleFunc("POST /oauth/revoke", func(_ http.ResponseWriter, r *http.Request) {
		_ = a.manager.RemoveAccessToken(r.Context(), r.FormValue("token"))
		_ = a.manager.RemoveRefreshToken(r.Context(), r.FormValue("token"))
	})
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, r *http.Request) {
		if !a.takes(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func (a *authority) takes(token string) bool {
	_, err := a.manager.LoadAccessToken(context.Background(), token)
	return err == nil
}

// acme is the service whose authority it is: whoever has a token may ask for /me.
func (a *authority) acme() *sources.Module {
	return &sources.Module{
		ID: "acme", Title: "Acme", BaseURL: a.URL, Needs: []sources.Need{{Kind: action.KindOAuth2, Users: true, Preset: "linear", Scopes: []string{"read", "write"}}},
		Account: func(ctx context.Context, c *sources.Conn) (sources.Account, error) {
			got, err := c.HTTP.Do(ctx, &outbound.Request{Method: "GET", Path: "/me", Header: http.Header{"Authorization": {"Bearer " + c.Token}}})
			if err == nil && got.Status != http.StatusOK {
				err = &sources.Refusal{Code: "bad_token", Status: got.Status, Credential: true}
			}
			return sources.Account{ID: "acme-1", Name: "Acme"}, err
		},
	}
}

// connecting is a gateway's integrations, on rows of a real database, and a clock.
type connecting struct {
	*credential.Tokens
	t   *testing.T
	now atomic.Pointer[time.Time]
}

func connect(t *testing.T, a *authority) *connecting {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "data.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.EnsureOrganization(t.Context(), "org", "Acme"); err != nil {
		t.Fatal(err)
	}
	keys, err := vault.New(bytes.Repeat([]byte{7}, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{})
	t.Cleanup(pool.Close)
	c := &connecting{t: t}
	c.pass(0)
	var lock sync.Mutex
	c.Tokens, err = credential.NewTokens(credential.TokensConfig{
		Store: db, Vault: keys, Modules: []*sources.Module{a.acme()}, HTTP: pool, RedirectURL: callback, Timeout: 5 * time.Second,
		Now:  func() time.Time { return *c.now.Load() },
		Lock: func(context.Context, string) (func(), error) { lock.Lock(); return lock.Unlock, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	app, err := c.SealApp(action.ProviderApp{Organization: "org", Provider: "acme", ClientID: "client", BaseURL: a.URL}, map[string]string{action.AppClientSecret: "secret-canary"})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.PutProviderApp(t.Context(), app, "ann"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *connecting) pass(d time.Duration) {
	now := time.Now().UTC()
	if was := c.now.Load(); was != nil {
		now = was.Add(d)
	}
	c.now.Store(&now)
}

// visit begins a connection, follows the URL as a browser does, and returns what
// it comes back with.
func (c *connecting) visit() action.ConnectCallback {
	c.t.Helper()
	step, err := c.Begin(c.t.Context(), action.ConnectRequest{Organization: "org", Provider: "acme", Kind: action.KindOAuth2, By: "ann", Login: "l1"})
	if err != nil {
		c.t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(step.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil || !strings.HasPrefix(back.String(), callback+"/acme?") {
		c.t.Fatalf("sent back to %v: %v", back, err)
	}
	q := back.Query()
	return action.ConnectCallback{Provider: "acme", State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error")}
}

func (c *connecting) finish(answer action.ConnectCallback) (action.Integration, error) {
	return c.Finish(c.t.Context(), "org", "ann", "l1", true, answer)
}

// TestAnAuthorizationServerOfOthers plays the life of a connection: made,
// renewed twice, refused and renewed, and revoked.
func TestAnAuthorizationServerOfOthers(t *testing.T) {
	a := newAuthority(t)
	c := connect(t, a)
	mine, injected := c.visit(), c.visit()
	injected.State = mine.State // a code of another flow, which has another verifier
	if _, err := c.finish(injected); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("a code of another flow is taken: %v", err)
	}
	in, err := c.finish(c.visit())
	if err != nil || in.Account != "acme-1" || strings.Join(in.Scopes, " ") != "read write" {
		t.Fatalf("connected as %+v, %v", in, err)
	}
	token := func(want string) {
		t.Helper()
		if got, err := c.Token(t.Context(), in); got != want || err != nil || !a.takes(got) {
			t.Fatalf("the token is %q, %v; not %s", got, err, want)
		}
	}
	token("access-canary-1")
	for n := 2; n <= 3; n++ {
		c.pass(2 * time.Hour)
		token(fmt.Sprintf("access-canary-%d", n))
	}
	c.pass(time.Minute)
	if again, err := c.Refused(t.Context(), in, "access-canary-3", "expired"); !again || err != nil {
		t.Fatalf("a refused token is replaced: %v, %v", again, err)
	}
	token("access-canary-4")
	if revoked, err := c.Disconnect(t.Context(), in, "ann"); err != nil || !revoked || a.takes("access-canary-4") {
		t.Errorf("given back: %v, %v", revoked, err)
	}
	if raw, _ := json.Marshal(in); bytes.Contains(raw, []byte("canary")) {
		t.Errorf("a secret is in %s", raw)
	}
}
