package credential_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

// hub is GitHub as far as an App sees it.
type hub struct {
	b   *bank
	key *rsa.PrivateKey

	mu        sync.Mutex // the fields below
	issued    int
	lives     time.Duration
	suspended bool
	gone      bool
}

// startHub returns an instance whose organization has a GitHub App with one
// installation, number 42.
func (b *bank) startHub() (*hub, *credential.Tokens) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.t.Fatal(err)
	}
	h := &hub{b: b, key: key, lives: time.Hour}
	b.mux.HandleFunc("GET /api/v3/app/installations/{id}", h.signed(h.show))
	b.mux.HandleFunc("DELETE /api/v3/app/installations/{id}", h.signed(h.remove))
	b.mux.HandleFunc("POST /api/v3/app/installations/{id}/access_tokens", h.signed(h.token))
	m := b.module(func(m *sources.Module) {
		m.Needs = []sources.Need{{Kind: action.KindApp, Preset: "github"}}
		m.BaseURL, m.Settings = "https://api.github.example", nil
	})
	tokens := b.instance(m)
	b.register(tokens, action.ProviderApp{Provider: "acme", AppID: "7", Slug: "sallyport", BaseURL: b.url + "/api/v3"}, map[string]string{action.AppPrivateKey: h.pem()})
	return h, tokens
}

func (h *hub) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(h.key)}))
}

// signed lets requests through that the App signed, for not too long.
func (h *hub) signed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var claims jwt.Claims
		token, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.RS256})
		if err == nil {
			err = token.Claims(&h.key.PublicKey, &claims)
		}
		if err == nil {
			err = claims.ValidateWithLeeway(jwt.Expected{Issuer: "7", Time: h.b.clock()}, 0)
		}
		if err != nil || claims.Expiry == nil || claims.IssuedAt == nil || claims.Expiry.Time().After(h.b.clock().Add(9*time.Minute)) || claims.IssuedAt.Time().After(h.b.clock().Add(-20*time.Second)) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"message":"A JSON web token could not be decoded: %v"}`, err)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if r.PathValue("id") != "42" || h.gone {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`)
			return
		}
		next(w, r)
	}
}

func (h *hub) show(w http.ResponseWriter, _ *http.Request) {
	suspended := "null"
	if h.suspended {
		suspended = `"2026-11-01T00:00:00Z"`
	}
	fmt.Fprintf(w, `{"id":42,"account":{"login":"octo","id":583231,"type":"Organization"},"app_id":7,"app_slug":"sallyport","target_id":583231,`+
		`"repository_selection":"selected","permissions":{"issues":"write","metadata":"read"},"suspended_by":null,"suspended_at":%s}`, suspended)
}

func (h *hub) token(w http.ResponseWriter, _ *http.Request) {
	if h.suspended {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message":"This installation has been suspended","documentation_url":"https://docs.github.com/rest","status":"403"}`)
		return
	}
	h.issued++
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"token":"ghs_canary%d","expires_at":%q,"permissions":{"issues":"write"},"repository_selection":"selected"}`,
		h.issued, h.b.clock().Add(h.lives).Format(time.RFC3339))
}

func (h *hub) remove(w http.ResponseWriter, _ *http.Request) {
	h.gone = true
	w.WriteHeader(http.StatusNoContent)
}

func (h *hub) with(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func app() action.ConnectRequest {
	w := oauth()
	w.Kind = action.KindApp
	return w
}

func installed(t *testing.T, tokens *credential.Tokens) action.Integration {
	t.Helper()
	step := begin(t, tokens, app())
	in, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: step.State, Installation: "42"})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestInstallationIsGitHubsWord(t *testing.T) {
	b := newBank(t)
	_, tokens := b.startHub()
	step := begin(t, tokens, app())
	if want := b.url + "/github-apps/sallyport/installations/new?state=" + step.State; step.URL != want {
		t.Errorf("the person is sent to %s, not %s", step.URL, want)
	}
	_, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", Installation: "42"})
	fails(t, err, action.ErrInvalid, "oauth_flow", "no state")
	for _, id := range []string{"", "43", "../42", "42/access_tokens"} {
		step := begin(t, tokens, app())
		_, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: step.State, Installation: id})
		fails(t, err, action.ErrInvalid, "oauth_flow", "installation")
	}
	if len(b.rows) > 0 {
		t.Fatal("one was saved that GitHub does not know")
	}
	in := installed(t, tokens)
	if at := strings.TrimPrefix(b.url, "http://"); in.Account != at+"/api/v3#583231" || in.AccountName != "octo" || strings.Join(in.Scopes, " ") != "issues:write metadata:read" || in.BaseURL != b.url+"/api/v3" {
		t.Errorf("got %+v", in)
	}
	if again := installed(t, tokens); again.ID != in.ID {
		t.Error("the same account became another integration")
	}
}

func TestInstallURLAtGitHub(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	b.register(tokens, action.ProviderApp{Provider: "acme", AppID: "7", Slug: "sallyport"}, map[string]string{action.AppPrivateKey: h.pem()})
	if got := begin(t, tokens, app()).URL; !strings.HasPrefix(got, "https://github.com/apps/sallyport/installations/new?state=") {
		t.Errorf("the person is sent to %s", got)
	}
}

// Who can write the row of a registration has its secrets sent nowhere else.
func TestSecretsOfARegistrationAreForItsHost(t *testing.T) {
	for name, base := range map[string]string{"another host": "https://thief.example", "without TLS": "http://%s", "the service's own": ""} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			h, tokens := b.startHub()
			b.register(tokens, action.ProviderApp{Provider: "acme", AppID: "7", Slug: "sallyport", BaseURL: "https://git.example/api/v3"}, map[string]string{action.AppPrivateKey: h.pem()})
			b.mu.Lock()
			row := b.apps["org/acme"]
			row.BaseURL = strings.ReplaceAll(base, "%s", "git.example:443")
			b.apps["org/acme"] = row
			b.mu.Unlock()
			_, err := tokens.Begin(t.Context(), app())
			fails(t, err, action.ErrInvalid, "no_app", "a base_url that its secrets were not set for. Set both again")
		})
	}
}

func TestInstallationTokenIsCached(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	in := installed(t, tokens)
	if got := fifty(t, in, tokens); got["ghs_canary1"] != 50 {
		t.Errorf("fifty callers got %v", got)
	}
	b.pass(50*time.Minute - time.Second)
	if got, err := tokens.Token(t.Context(), in); got != "ghs_canary1" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	h.with(func() { h.lives = 10 * time.Minute })
	b.pass(2 * time.Second)
	if got := fifty(t, in, tokens); got["ghs_canary2"] != 50 {
		t.Errorf("fifty callers got %v", got)
	}
	b.pass(9*time.Minute - time.Second)
	if got, err := tokens.Token(t.Context(), in); got != "ghs_canary2" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	b.pass(2 * time.Second) // a minute before it ends
	if got, err := tokens.Token(t.Context(), in); got != "ghs_canary3" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if n := b.requests("POST /api/v3/app/installations/42/access_tokens"); n != 3 {
		t.Errorf("%d tokens were had", n)
	}
	if again, err := tokens.Refused(t.Context(), in, "ghs_canary3", ""); again || err == nil {
		t.Errorf("a token of this moment is replaced: %v, %v", again, err)
	}
	b.pass(time.Minute)
	if again, err := tokens.Refused(t.Context(), in, "ghs_canary3", ""); !again || err != nil {
		t.Errorf("got %v, %v", again, err)
	}
	if got, err := tokens.Token(t.Context(), in); got != "ghs_canary4" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if again, err := tokens.Refused(t.Context(), in, "ghs_canary3", ""); !again || err != nil {
		t.Errorf("late: got %v, %v", again, err)
	}
}

func TestSuspendedAndRemovedInstallations(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	in := installed(t, tokens)
	h.with(func() { h.suspended = true })
	_, err := tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "suspended")
	if row := b.row(in.ID); row.Status != action.IntegrationSuspended {
		t.Errorf("it is %s", row.Status)
	}
	b.pass(time.Minute)
	if got, err := tokens.Check(t.Context(), in); err != nil || got.Status != action.IntegrationSuspended {
		t.Errorf("got %s, %v", got.Status, err)
	}
	h.with(func() { h.suspended = false })
	b.pass(time.Minute)
	b.good = func(token string) bool { return strings.HasPrefix(token, "ghs_") }
	b.mux.HandleFunc("GET /api/v3/me", b.me)
	if got, err := tokens.Check(t.Context(), in); err != nil || got.Status != action.IntegrationActive {
		t.Errorf("got %s, %v", got.Status, err)
	}
	h.with(func() { h.gone = true })
	b.pass(time.Hour)
	_, err = tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "no longer installed there")
	if row := b.row(in.ID); row.Status != action.IntegrationRevoked {
		t.Errorf("it is %s", row.Status)
	}
}

func TestAppKeyThatIsNotTaken(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	in := installed(t, tokens)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	h.with(func() { h.key = other })
	_, err = tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultAuth, "set its ID and private key again")
	if row := b.row(in.ID); row.Status != action.IntegrationActive {
		t.Errorf("it is %s, though the installation is as it was", row.Status)
	}
	_, err = tokens.SealApp(action.ProviderApp{Organization: "org", Provider: "acme"}, map[string]string{action.AppPrivateKey: "-----BEGIN canary"})
	fails(t, err, action.ErrInvalid, "invalid_integration", "not an RSA key")
	_, err = tokens.SealApp(action.ProviderApp{Organization: "org", Provider: "acme"}, map[string]string{"pasword": "canary"})
	fails(t, err, action.ErrInvalid, "invalid_integration", "client_secret")
}

// GitHub issues keys as PKCS #1; openssl converts them to PKCS #8.
func TestAppKeyEncodings(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	in := installed(t, tokens)
	b.register(tokens, action.ProviderApp{Provider: "acme", AppID: "7", Slug: "sallyport", BaseURL: b.url + "/api/v3"}, map[string]string{action.AppPrivateKey: pkcs8(h.key)})
	if got, err := tokens.Token(t.Context(), in); got != "ghs_canary1" || err != nil {
		t.Errorf("a PKCS #8 key yields %q, %v", got, err)
	}
	_, err = tokens.SealApp(action.ProviderApp{Organization: "org", Provider: "acme"}, map[string]string{action.AppPrivateKey: pkcs8(curve)})
	fails(t, err, action.ErrInvalid, "invalid_integration", "not an RSA key")
}

func TestDisconnectUninstalls(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	in := installed(t, tokens)
	revoked, err := tokens.Disconnect(t.Context(), in, "ann")
	if err != nil || !revoked || !h.gone || b.row(in.ID).Status != action.IntegrationDeleted {
		t.Errorf("got %v, %v", revoked, err)
	}
}
