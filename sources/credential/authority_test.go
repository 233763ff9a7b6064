package credential_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-oauth2/oauth2/v4"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/models"
	"github.com/go-oauth2/oauth2/v4/server"
	tokenstore "github.com/go-oauth2/oauth2/v4/store"

	"sallyport/action"
	"sallyport/sources/credential"
)

// authority is an authorization server that others wrote, which insists on
// PKCE with S256 and gives each refresh token once. It shares the bank's origin.
type authority struct {
	manager *manage.Manager
	server  *server.Server
	issued  atomic.Int64
	trouble atomic.Pointer[http.HandlerFunc] // in the token endpoint's place
}

// Token implements oauth2.AccessGenerate: tokens that a test can look for.
func (a *authority) Token(_ context.Context, _ *oauth2.GenerateBasic, refresh bool) (string, string, error) {
	n := a.issued.Add(1)
	if !refresh {
		return fmt.Sprintf("access-canary-%d", n), "", nil
	}
	return fmt.Sprintf("access-canary-%d", n), fmt.Sprintf("refresh-canary-%d", n), nil
}

func (b *bank) startAuthority() *authority {
	a := &authority{manager: manage.NewDefaultManager()}
	a.manager.MustTokenStorage(tokenstore.NewMemoryTokenStore())
	a.manager.MapAccessGenerate(a)
	clients := tokenstore.NewClientStore()
	if err := clients.Set("client", &models.Client{ID: "client", Secret: "secret-canary", Domain: callback + "/acme"}); err != nil {
		b.t.Fatal(err)
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
	a.server = server.NewServer(config, a.manager)
	a.server.SetClientInfoHandler(server.ClientFormHandler)
	a.server.SetUserAuthorizationHandler(func(http.ResponseWriter, *http.Request) (string, error) { return "ann", nil })
	b.mux.HandleFunc("GET /oauth/authorize", func(w http.ResponseWriter, r *http.Request) { _ = a.server.HandleAuthorizeRequest(w, r) })
	b.mux.HandleFunc("POST /oauth/token", a.token)
	b.mux.HandleFunc("POST /oauth/revoke", a.revoke)
	b.good = func(token string) bool {
		_, err := a.manager.LoadAccessToken(context.Background(), token)
		return err == nil
	}
	return a
}

func (a *authority) token(w http.ResponseWriter, r *http.Request) {
	if h := a.trouble.Load(); h != nil {
		(*h)(w, r)
		return
	}
	_ = a.server.HandleTokenRequest(w, r)
}

func (a *authority) revoke(_ http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	_ = a.manager.RemoveAccessToken(r.Context(), r.PostForm.Get("token"))
	_ = a.manager.RemoveRefreshToken(r.Context(), r.PostForm.Get("token"))
}

// answers has the token endpoint answer so from now on; status zero: as it does.
func (a *authority) answers(status int, body string) {
	if status == 0 {
		a.trouble.Store(nil)
		return
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	a.trouble.Store(&h)
}

// signing starts the bank's authority and an instance that is registered there.
func (b *bank) signing() (*authority, *credential.Tokens) {
	a, tokens := b.startAuthority(), b.instance(b.module())
	b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client", BaseURL: b.url}, map[string]string{action.AppClientSecret: "secret-canary"})
	return a, tokens
}

func oauth() action.Wanted {
	w := key()
	w.Kind, w.Secret = action.KindOAuth2, ""
	return w
}

// visit follows the URL as a browser does, and returns what it comes back with.
func visit(t *testing.T, authorize string) action.ConnectAnswer {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(authorize)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil || !strings.HasPrefix(back.String(), callback+"/acme?") {
		t.Fatalf("sent back to %v: %v", back, err)
	}
	q := back.Query()
	return action.ConnectAnswer{Provider: "acme", State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error")}
}

func begin(t *testing.T, tokens *credential.Tokens, w action.Wanted) action.ConnectStep {
	t.Helper()
	step, err := tokens.Begin(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// connected plays a whole connection of ann.
func connected(t *testing.T, tokens *credential.Tokens) action.Integration {
	t.Helper()
	in, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, visit(t, begin(t, tokens, oauth()).URL))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func query(t *testing.T, raw string) url.Values {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}
