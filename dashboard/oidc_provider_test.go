package dashboard_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// idp is an OpenID provider on this machine, which signs whom it is told to in
// at once, and can be told to lie.
type idp struct {
	*httptest.Server
	t   *testing.T
	now func() time.Time

	mu      sync.Mutex
	key     *rsa.PrivateKey
	kid     string
	grants  map[string]grantOf // by code
	claims  map[string]any     // of the next ID token, over those that are right; nil removes one
	sign    func(claims map[string]any) string
	fetched map[string]int // requests by path
	down    bool
}

// grantOf is what a code was given for.
type grantOf struct{ challenge, nonce, redirect string }

func newIDP(t *testing.T, now func() time.Time) *idp {
	t.Helper()
	p := &idp{t: t, now: now, grants: map[string]grantOf{}, claims: map[string]any{}, fetched: map[string]int{}}
	p.key, p.kid = firstKey(), "first"
	p.sign = p.rs256
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.kid, Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fetched[r.URL.Path]++
		if p.down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// firstKey is that of every provider: making one takes a while.
var firstKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// rotate gives the provider another key.
func (p *idp) rotate(kid string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.t.Fatal(err)
	}
	p.key, p.kid = key, kid
}

// authorize is what the provider does when a browser comes: the address to
// which it leads it back.
func (p *idp) authorize(to string) *url.URL {
	p.t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		p.t.Fatal(err)
	}
	q := u.Query()
	if u.Path != "/authorize" || q.Get("response_type") != "code" || q.Get("client_id") != "sallyport" || q.Get("code_challenge_method") != "S256" ||
		len(q.Get("state")) < 43 || len(q.Get("nonce")) < 43 || q.Get("state") == q.Get("nonce") || q.Get("scope") != "openid profile email" {
		p.t.Errorf("the browser is led to %s", to)
	}
	code := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants[code] = grantOf{challenge: q.Get("code_challenge"), nonce: q.Get("nonce"), redirect: q.Get("redirect_uri")}
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		p.t.Fatal(err)
	}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	return back
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	code := r.FormValue("code")
	g, ok := p.grants[code]
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	id, password, _ := r.BasicAuth()
	if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge || r.FormValue("redirect_uri") != g.redirect || id != "sallyport" || password != "s3cret" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"<script>pwned()</script>"}`))
		return
	}
	now := p.now()
	all := map[string]any{
		"iss": p.URL, "aud": "sallyport", "sub": "7", "name": "Bob", "nonce": g.nonce, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"groups": []string{"staff", "approvers"},
	}
	maps.Copy(all, p.claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": p.sign(all)})
}

func (p *idp) rs256(claims map[string]any) string {
	return signed(p.t, jose.RS256, jose.JSONWebKey{Key: p.key, KeyID: p.kid}, claims)
}

func signed(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unsigned is a token that says of itself that nobody signed it.
func unsigned(claims map[string]any) string {
	body, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(body) + "."
}

func p256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
