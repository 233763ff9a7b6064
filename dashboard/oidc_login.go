package dashboard

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sallyport/action"
	"sallyport/internal/guard"
)

// CallbackPath is where the OpenID provider sends the browser back to.
const CallbackPath = "/login/oidc/callback"

// BeginOIDC starts a sign-in with the OpenID provider and returns the URL for
// the browser. It changes only a cookie of that browser.
func (s *Server) BeginOIDC(w http.ResponseWriter, r *http.Request) (string, error) {
	if s.oidc == nil {
		return "", action.Errorf(action.ErrNotFound, "no_oidc", "OpenID Connect is not configured. The operator can set --oidc-issuer.")
	}
	if to := s.CanonicalURL(r); to != "" {
		return to, nil
	}
	found, err := s.oidc.discover()
	if err != nil {
		s.Log.Warn("the OpenID provider cannot be reached", "issuer", s.oidc.Issuer, "error", err)
		return "", action.NewError("provider_away")
	}
	f := flow{
		State: secret(), Nonce: secret(), Verifier: oauth2.GenerateVerifier(), Code: secret(), Key: secret(),
		Next: LocalPath(r.URL.Query().Get("next")), ExpiresAt: s.Now().Add(flowLife),
	}
	plain, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	sealed, err := s.Vault.Seal(flowRef(s.oidc.Organization), plain)
	if err != nil {
		return "", err
	}
	s.setFlow(w, base64.RawURLEncoding.EncodeToString(sealed), int(flowLife/time.Second))
	return s.oidc.oauth(found, s.PublicURL+CallbackPath).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// EndOIDC completes a sign-in after the provider's redirect and returns the
// next URL: a one-time sign-in link, so that only the page sees the key.
func (s *Server) EndOIDC(w http.ResponseWriter, r *http.Request) (string, error) {
	link, err := s.signInOIDC(r)
	if s.oidc != nil {
		s.setFlow(w, "", -1)
	}
	return link, err
}

// CanonicalURL returns where a browser that uses another name of this machine
// must sign in, or "". A cookie belongs to one host name, and localhost has
// several. Browsers keep the fragment in a redirect.
func (s *Server) CanonicalURL(r *http.Request) string {
	if !action.Loopback(s.public.Hostname()) || strings.EqualFold(r.Host, s.public.Host) {
		return ""
	}
	return s.PublicURL + r.URL.RequestURI()
}

// OIDCName returns the display name of the OpenID provider, or "".
func (s *Server) OIDCName() string {
	if s.oidc == nil {
		return ""
	}
	return s.oidc.Name
}

// signInOIDC returns the next URL.
func (s *Server) signInOIDC(r *http.Request) (string, error) {
	if s.oidc == nil {
		return "", action.Errorf(action.ErrNotFound, "no_oidc", "OpenID Connect is not configured.")
	}
	q := r.URL.Query()
	f, ok := s.openFlow(r)
	if !ok || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.State)) != 1 {
		return "", action.Errorf(action.ErrUnauthenticated, "sign_in_over",
			"This sign-in was started in another browser, was already used, or took longer than ten minutes. Sign in again.")
	}
	if iss := q.Get("iss"); iss != "" && iss != s.oidc.Issuer {
		return "", action.NewError("other_issuer")
	}
	if code := q.Get("error"); code != "" {
		s.Log.WarnContext(r.Context(), "the provider refused a sign-in", "error", code, "description", q.Get("error_description"))
		known := []string{
			"access_denied", "login_required", "consent_required", "interaction_required", "account_selection_required",
			"invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope", "server_error", "temporarily_unavailable",
		}
		if !slices.Contains(known, code) { // anyone may have written it
			code = "with a reason that the log has"
		}
		return "", action.NewError("refused_there", code)
	}
	who, err := s.oidc.identify(r.Context(), f, s.PublicURL+CallbackPath, q.Get("code"))
	if err != nil {
		// The reason is not shown, because it may contain anything.
		s.Log.WarnContext(r.Context(), "a sign-in with OpenID Connect failed", "error", err)
		return "", action.NewError("sign_in_failed")
	}
	return s.linkOIDC(r, f, who)
}

// linkOIDC creates the login link of an identified user, unless the user has no
// role.
func (s *Server) linkOIDC(r *http.Request, f flow, who action.Identity) (string, error) {
	ctx := r.Context()
	if who.Role == "" {
		id, err := s.People.CutOffUser(ctx, who.Organization, who.Issuer, who.Subject)
		if err != nil {
			return "", err
		}
		s.Log.WarnContext(ctx, "refused the sign-in of a user without a role", "issuer", who.Issuer, "user", id)
		if id != "" {
			s.Hint(action.HintLogin, who.Organization, "")
		}
		return "", action.NewError("no_role")
	}
	u, err := s.admitUser(ctx, who)
	if err != nil {
		return "", err
	}
	err = s.People.CreateLoginLink(ctx, action.LoginLink{
		Organization: u.Organization, User: u.ID, Via: action.ViaOIDC,
		CodeHash: hashSecret(f.Code), KeyHash: hashSecret(f.Key), ExpiresAt: s.Now().Add(linkLife),
	})
	if errors.Is(err, action.ErrConflict) {
		return "", action.NewError("callback_replayed")
	}
	if err != nil {
		return "", err
	}
	s.Log.InfoContext(ctx, "signed in with OpenID Connect", "user", u.ID, "role", u.Role)
	to := s.PublicURL + "/login"
	if f.Next != "" {
		to += "?next=" + url.QueryEscape(f.Next)
	}
	return to + "#" + f.Code + "." + f.Key, nil
}

// openFlow decrypts the flow in the browser's cookie. It returns false if the flow
// is missing, invalid or expired.
func (s *Server) openFlow(r *http.Request) (f flow, ok bool) {
	c, err := r.Cookie(s.flowName())
	if err != nil {
		return f, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return f, false
	}
	plain, err := s.Vault.Open(flowRef(s.oidc.Organization), sealed)
	return f, err == nil && json.Unmarshal(plain, &f) == nil && s.Now().Before(f.ExpiresAt)
}

// flowName returns the name of the cookie of a flow. Unlike a login's cookie,
// it is sent with a navigation from another site.
func (s *Server) flowName() string { return s.cookieName() + "-oidc" }

func (s *Server) setFlow(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.flowName(), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.public.Scheme == "https",
	})
}

// LocalPath returns next if it is a path of this origin's pages, or else "". It
// refuses paths that a browser would rewrite, such as /.//host.
func LocalPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" || strings.ContainsAny(next, "\\\r\n\t") || len(next) > 2000 {
		return ""
	}
	if path.Clean(u.Path) != u.Path || !strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, "\\") || strings.HasPrefix(u.Path, "/login") {
		return ""
	}
	return next
}

const (
	outsideTimeout = 10 * time.Second // of one request to an identity provider
	outsideBody    = 1 << 20
	outsidePause   = 10 * time.Second // between two fetches of an address
)

// restrictedTransport reaches identity providers. Providers keep their keys on
// other hosts, so any host is allowed, but only over https, without redirects,
// and loopback only if the configured URL is a loopback address.
type restrictedTransport struct {
	public, loopback *http.Transport // nil: not allowed
}

// newRestrictedClient returns a client for the provider at a configured URL.
func newRestrictedClient(g guard.Config, configured *url.URL) *http.Client {
	g.AllowLoopback = false
	o := restrictedTransport{public: guard.NewTransport(g)}
	if guard.Loopback(configured) {
		g.AllowLoopback = true
		o.loopback = guard.NewTransport(g)
	}
	return &http.Client{
		Transport: o, Timeout: outsideTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements [http.RoundTripper].
func (o restrictedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t := o.public
	switch {
	case o.loopback != nil && guard.Loopback(r.URL):
		t = o.loopback
	case r.URL.Scheme != "https":
		if r.Body != nil {
			_ = r.Body.Close() // it is not sent
		}
		return nil, action.NewError("upstream_blocked", r.URL.Host)
	}
	res, err := t.RoundTrip(r)
	if err == nil {
		res.Body = guard.LimitBody(res.Body, outsideBody)
	}
	return res, err
}

// cachingTransport fetches an address at most every ten seconds and repeats its
// last response meanwhile: anyone can send a token with an unknown key ID, and
// each would trigger a fetch.
type cachingTransport struct {
	next http.RoundTripper
	now  func() time.Time

	mu     sync.Mutex
	tried  time.Time
	status int
	header http.Header
	body   []byte
	err    error
}

// RoundTrip implements [http.RoundTripper].
func (s *cachingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.tried.IsZero() || now.Sub(s.tried) >= outsidePause || now.Before(s.tried) {
		s.tried = now
		res, err := s.next.RoundTrip(r)
		if s.err = err; err == nil {
			s.status, s.header = res.StatusCode, res.Header
			s.body, s.err = io.ReadAll(res.Body)
			_ = res.Body.Close() // it was read
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{
		Status: http.StatusText(s.status), StatusCode: s.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: s.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(s.body)), ContentLength: int64(len(s.body)), Request: r,
	}, nil
}

// checkIssuer refuses a provider URL without TLS, unless it is on this machine.
func checkIssuer(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !guard.Loopback(u)) {
		return nil, action.Errorf(action.ErrInvalid, "invalid_field", "%s must be an https URL, such as https://id.example.com, or http on this machine.", what)
	}
	return u, nil
}
