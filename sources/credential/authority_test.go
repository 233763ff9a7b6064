package credential_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sallyport/action"
	"sallyport/sources/credential"
)

// authority is an authorization server that insists on PKCE with S256 and issues
// each refresh token once. It shares the bank's origin. conformance/interop has
// one that others wrote.
type authority struct {
	issued  atomic.Int64
	trouble atomic.Pointer[http.HandlerFunc] // in the token endpoint's place

	mu      sync.Mutex
	codes   map[string]url.Values // what each was asked for with
	access  map[string]bool
	refresh map[string]authorityGrant
}

// authorityGrant is what a refresh token stands for.
type authorityGrant struct{ scope, access string }

func (b *bank) startAuthority() *authority {
	a := &authority{codes: map[string]url.Values{}, access: map[string]bool{}, refresh: map[string]authorityGrant{}}
	b.mux.HandleFunc("GET /oauth/authorize", a.authorize)
	b.mux.HandleFunc("POST /oauth/token", a.token)
	b.mux.HandleFunc("POST /oauth/revoke", a.revoke)
	b.good = func(token string) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.access[token]
	}
	return a
}

func (a *authority) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != "client" || q.Get("redirect_uri") != callback+"/acme" ||
		q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 {
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}
	code := "code-canary-" + rand.Text()
	a.mu.Lock()
	a.codes[code] = q
	a.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (a *authority) token(w http.ResponseWriter, r *http.Request) {
	if h := a.trouble.Load(); h != nil {
		(*h)(w, r)
		return
	}
	a.grant(w, r)
}

// grant is the token endpoint without trouble.
func (a *authority) grant(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	w.Header().Set("Content-Type", "application/json")
	scope, fault := a.redeem(r.PostForm)
	if fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": fault})
		return
	}
	n := a.issued.Add(1)
	access, refresh := fmt.Sprintf("access-canary-%d", n), fmt.Sprintf("refresh-canary-%d", n)
	a.mu.Lock()
	a.access[access], a.refresh[refresh] = true, authorityGrant{scope, access}
	a.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 7200, "scope": scope,
	})
}

// redeem takes a code or a refresh token, once, and returns its scope, or the
// error of RFC 6749.
func (a *authority) redeem(form url.Values) (scope, fault string) {
	if form.Get("client_id") != "client" || form.Get("client_secret") != "secret-canary" {
		return "", "invalid_client"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch form.Get("grant_type") {
	case "authorization_code":
		asked, ok := a.codes[form.Get("code")]
		delete(a.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !ok || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("redirect_uri") != form.Get("redirect_uri") {
			return "", "invalid_grant"
		}
		return asked.Get("scope"), ""
	case "refresh_token":
		g, ok := a.refresh[form.Get("refresh_token")]
		if !ok {
			return "", "invalid_grant"
		}
		delete(a.refresh, form.Get("refresh_token"))
		delete(a.access, g.access)
		return g.scope, ""
	}
	return "", "unsupported_grant_type"
}

func (a *authority) revoke(_ http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.access, r.PostForm.Get("token"))
	delete(a.refresh, r.PostForm.Get("token"))
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

func oauth() action.ConnectRequest {
	w := key()
	w.Kind, w.Secret = action.KindOAuth2, ""
	return w
}

// visit follows the URL as a browser does, and returns what it comes back with.
func visit(t *testing.T, authorize string) action.ConnectCallback {
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
	return action.ConnectCallback{Provider: "acme", State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error")}
}

func begin(t *testing.T, tokens *credential.Tokens, w action.ConnectRequest) action.ConnectStep {
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
