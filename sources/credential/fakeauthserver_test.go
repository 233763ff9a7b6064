package credential_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is an MCP server with its authorization server. Both are real; what
// they do wrong is switched on by a test.
type service struct {
	t    *testing.T
	mcp  *httptest.Server
	auth *httptest.Server

	mu sync.Mutex // the fields below

	// How it behaves.
	path       string         // of the issuer
	meta       map[string]any // laid over the authorization server's metadata; nil values are left out
	metaAt     string         // where it is; empty: at the place of RFC 8414
	resource   map[string]any // laid over the resource metadata
	resourceAt string         // where it is; empty: at the place of the path
	challenge  string         // parameters of the challenge
	page       string         // what the MCP server answers in its body
	iss        *string        // in the answer; nil: the issuer
	problem    string         // in the answer instead of a code
	life       any            // expires_in; nil: absent
	fixed      bool           // refresh tokens are not replaced
	noRefresh  bool
	token      http.HandlerFunc // instead of the token endpoint
	register   http.HandlerFunc // instead of the registration endpoint
	delay      time.Duration    // of the token endpoint

	// What happened.
	codes      map[string]url.Values // authorization requests, by code
	refresh    string                // the one that is good
	issued     int
	asked      []url.Values // forms of the token endpoint
	proofs     []string     // how their clients proved themselves
	registered []map[string]any
	revoked    []string
	authorized []url.Values
}

func startService(t *testing.T) *service {
	s := &service{t: t, codes: map[string]url.Values{}, life: 3600, meta: map[string]any{}, resource: map[string]any{}}
	mcp, auth := http.NewServeMux(), http.NewServeMux()
	s.mcp, s.auth = httptest.NewServer(mcp), httptest.NewServer(auth)
	t.Cleanup(s.mcp.Close)
	t.Cleanup(s.auth.Close)
	mcp.HandleFunc("POST /mcp", s.serveMCP)
	mcp.HandleFunc("GET /.well-known/", s.serveResource)
	mcp.HandleFunc("POST /revoke", s.serveRevoke)
	auth.HandleFunc("GET /", s.serveMeta)
	auth.HandleFunc("GET /authorize", s.serveAuthorize)
	auth.HandleFunc("POST /token", s.serveToken)
	auth.HandleFunc("POST /register", s.serveRegister)
	auth.HandleFunc("POST /revoke", s.serveRevoke)
	return s
}

func (s *service) url() string    { return s.mcp.URL + "/mcp" }
func (s *service) issuer() string { return s.auth.URL + s.path }

func (s *service) serveMCP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	header := "Bearer"
	if s.challenge != "" {
		header += " " + s.challenge
	}
	w.Header().Set("WWW-Authenticate", header)
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprint(w, s.page)
}

func (s *service) serveResource(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.resourceAt
	if at == "" {
		at = "/.well-known/oauth-protected-resource/mcp"
	}
	if r.URL.Path != at {
		http.NotFound(w, r)
		return
	}
	document(w, map[string]any{"resource": s.url(), "authorization_servers": []string{s.issuer()}}, s.resource)
}

func (s *service) serveMeta(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.metaAt
	if at == "" {
		at = "/.well-known/oauth-authorization-server" + s.path
	}
	if r.URL.Path != at {
		http.NotFound(w, r)
		return
	}
	document(w, map[string]any{
		"issuer": s.issuer(), "authorization_endpoint": s.auth.URL + "/authorize", "token_endpoint": s.auth.URL + "/token",
		"registration_endpoint": s.auth.URL + "/register", "revocation_endpoint": s.auth.URL + "/revoke",
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		"response_types_supported": []string{"code"},
	}, s.meta)
}

func document(w http.ResponseWriter, base, over map[string]any) {
	for name, value := range over {
		base[name] = value
		if value == nil {
			delete(base, name)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(base)
}

func (s *service) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	s.authorized = append(s.authorized, q)
	code := fmt.Sprintf("code-%d", len(s.authorized))
	s.codes[code] = q
	back := url.Values{"state": {q.Get("state")}, "code": {code}, "iss": {s.issuer()}}
	if s.problem != "" {
		back.Del("code")
		back.Set("error", s.problem)
	}
	if s.iss != nil {
		back.Set("iss", *s.iss)
		if *s.iss == "" {
			back.Del("iss")
		}
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (s *service) serveToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	delay, instead := s.delay, s.token
	s.mu.Unlock()
	time.Sleep(delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	s.asked = append(s.asked, r.PostForm)
	s.proofs = append(s.proofs, proof(r))
	if instead != nil {
		instead(w, r)
		return
	}
	switch f := r.PostForm; {
	case f.Get("resource") != s.url():
		refuse(w, "invalid_target")
	case f.Get("grant_type") == "authorization_code" && !s.redeem(f),
		f.Get("grant_type") == "refresh_token" && (f.Get("refresh_token") != s.refresh || s.refresh == ""):
		refuse(w, "invalid_grant")
	default:
		s.issue(w, f.Get("grant_type") == "client_credentials")
	}
}

// redeem checks a code and its verifier, once.
func (s *service) redeem(f url.Values) bool {
	q, ok := s.codes[f.Get("code")]
	delete(s.codes, f.Get("code"))
	sum := sha256.Sum256([]byte(f.Get("code_verifier")))
	return ok && len(f.Get("code_verifier")) >= 43 && q.Get("code_challenge_method") == "S256" && q.Get("redirect_uri") == f.Get("redirect_uri") &&
		q.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:])
}

func (s *service) issue(w http.ResponseWriter, client bool) {
	s.issued++
	answer := map[string]any{"access_token": fmt.Sprintf("access-canary-%d", s.issued), "token_type": "bearer", "expires_in": s.life}
	if !client && !s.noRefresh && (!s.fixed || s.refresh == "") {
		s.refresh = fmt.Sprintf("refresh-canary-%d", s.issued)
		answer["refresh_token"] = s.refresh
	}
	if s.life == nil {
		delete(answer, "expires_in")
	}
	document(w, answer, nil)
}

func refuse(w http.ResponseWriter, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": code})
}

func proof(r *http.Request) string {
	if id, secret, ok := r.BasicAuth(); ok {
		return "basic " + id + " " + secret
	}
	if secret := r.PostForm.Get("client_secret"); secret != "" {
		return "post " + r.PostForm.Get("client_id") + " " + secret
	}
	return "none " + r.PostForm.Get("client_id")
}

func (s *service) serveRegister(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asked map[string]any
	_ = json.NewDecoder(r.Body).Decode(&asked)
	s.registered = append(s.registered, asked)
	if s.register != nil {
		s.register(w, r)
		return
	}
	w.WriteHeader(http.StatusCreated)
	document(w, map[string]any{
		"client_id": fmt.Sprintf("client-%d", len(s.registered)), "client_secret": "registered-canary", "client_secret_expires_at": 0,
		"token_endpoint_auth_method": asked["token_endpoint_auth_method"],
	}, nil)
}

func (s *service) serveRevoke(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	s.revoked = append(s.revoked, r.PostForm.Get("token_type_hint")+" "+r.PostForm.Get("token"))
}

// with changes how the service behaves.
func (s *service) with(f func(s *service)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// grants counts the requests to the token endpoint, by grant type.
func (s *service) grants(kind string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, form := range s.asked {
		if form.Get("grant_type") == kind {
			n++
		}
	}
	return n
}

// sees reports whether one of the forms has a value with the text in it.
func (s *service) sees(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.asked, func(f url.Values) bool { return strings.Contains(f.Encode(), text) }) ||
		slices.ContainsFunc(s.proofs, func(p string) bool { return strings.Contains(p, text) })
}

// echo is a token endpoint that answers with all that it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	said := r.PostForm.Encode() + r.Header.Get("Authorization")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": said, "error_description": said})
}
