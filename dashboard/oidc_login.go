package dashboard

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sallyport/action"
)

// CallbackPath is where the OpenID provider sends the browser back to.
const CallbackPath = "/login/oidc/callback"

// BeginOIDC starts a sign-in with the OpenID provider and returns the URL for
// the browser. It changes only a cookie of that browser.
func (s *Server) BeginOIDC(w http.ResponseWriter, r *http.Request) (string, error) {
	if s.oidc == nil {
		return "", action.Errorf(action.ErrNotFound, "no_oidc", "Nobody signs in with OpenID Connect here: the operator can start the gateway with --oidc-issuer.")
	}
	if to := s.CanonicalURL(r); to != "" {
		return to, nil
	}
	found, err := s.oidc.discover()
	if err != nil {
		return "", s.errProviderUnreachable(err)
	}
	f := flow{
		State: secret(), Nonce: secret(), Verifier: oauth2.GenerateVerifier(), Code: secret(), Key: secret(),
		Next: LocalPath(r.URL.Query().Get("next")), ExpiresAt: s.Now().Add(flowLife),
	}
	sealed, err := s.sealFlow(f)
	if err != nil {
		return "", err
	}
	s.setFlow(w, sealed, int(flowLife/time.Second))
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
		return "", action.Errorf(action.ErrNotFound, "no_oidc", "Nobody signs in with OpenID Connect here.")
	}
	q := r.URL.Query()
	c, err := r.Cookie(s.flowName())
	if err != nil {
		return "", errNoFlow()
	}
	f, ok := s.openFlow(c.Value)
	if !ok || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.State)) != 1 {
		return "", errNoFlow()
	}
	if iss := q.Get("iss"); iss != "" && iss != s.oidc.Issuer {
		return "", action.NewError("other_issuer")
	}
	if code := q.Get("error"); code != "" {
		s.Log.WarnContext(r.Context(), "the provider signed nobody in", "error", code, "description", q.Get("error_description"))
		return "", errProviderRefused(code)
	}
	who, err := s.oidc.identify(r.Context(), f, s.PublicURL+CallbackPath, q.Get("code"))
	if err != nil {
		return "", s.errNotProven(r, err)
	}
	return s.linkOIDC(r, f, who)
}

// linkOIDC creates the login link of an identified user, unless the user has no
// role.
func (s *Server) linkOIDC(r *http.Request, f flow, who action.Identity) (string, error) {
	ctx := r.Context()
	if who.Role == "" {
		return "", s.cutOffUser(ctx, who)
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

func errNoFlow() error {
	return action.Errorf(action.ErrUnauthenticated, "sign_in_over",
		"This sign-in was begun in another browser, was used already, or took longer than ten minutes; sign in again.")
}

// errProviderRefused reports the provider's error code if it is a standard one.
// The description is only logged.
func errProviderRefused(code string) error {
	known := []string{
		"access_denied", "login_required", "consent_required", "interaction_required", "account_selection_required",
		"invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope", "server_error", "temporarily_unavailable",
	}
	if !slices.Contains(known, code) {
		code = "with a reason that the log has"
	}
	return action.NewError("refused_there", code)
}

// errNotProven logs why a sign-in failed. The reason is not shown, because it
// may contain anything.
func (s *Server) errNotProven(r *http.Request, err error) error {
	s.Log.WarnContext(r.Context(), "a sign-in with OpenID Connect failed", "error", err)
	return action.NewError("sign_in_failed")
}

func (s *Server) errProviderUnreachable(err error) error {
	s.Log.Warn("the OpenID provider cannot be asked", "issuer", s.oidc.Issuer, "error", err)
	return action.NewError("provider_away")
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

func encode64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func decode64(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }
