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

const callbackPath = "/login/oidc/callback"

// beginOIDC leads a browser to the provider. It changes nothing here but a
// cookie of that browser.
func (p *pages) beginOIDC(w http.ResponseWriter, r *http.Request) {
	if p.oidc == nil {
		p.notSignedIn(w, r, action.Errorf(action.ErrNotFound, "no_oidc", "Nobody signs in with OpenID Connect here: the operator can start the gateway with --oidc-issuer."))
		return
	}
	if p.elsewhere(w, r) {
		return
	}
	found, err := p.oidc.discover()
	if err != nil {
		p.notSignedIn(w, r, p.unreachable(err))
		return
	}
	f := flow{
		State: secret(), Nonce: secret(), Verifier: oauth2.GenerateVerifier(), Code: secret(), Key: secret(),
		Next: within(r.URL.Query().Get("next")), ExpiresAt: p.now().Add(flowLife),
	}
	sealed, err := p.sealFlow(f)
	if err != nil {
		p.failed(w, r, nil, err)
		return
	}
	p.setFlow(w, sealed, int(flowLife/time.Second))
	to := p.oidc.oauth(found, p.PublicURL+callbackPath).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// endOIDC takes a browser back from the provider. Who it is there becomes a
// one-time link of the known kind, whose key thus reaches the page alone.
func (p *pages) endOIDC(w http.ResponseWriter, r *http.Request) {
	link, err := p.signInOIDC(r)
	if p.oidc != nil {
		p.setFlow(w, "", -1)
	}
	if err != nil {
		p.notSignedIn(w, r, err)
		return
	}
	http.Redirect(w, r, link, http.StatusSeeOther)
}

// signInOIDC returns where the browser goes on.
func (p *pages) signInOIDC(r *http.Request) (string, error) {
	if p.oidc == nil {
		return "", action.Errorf(action.ErrNotFound, "no_oidc", "Nobody signs in with OpenID Connect here.")
	}
	q := r.URL.Query()
	c, err := r.Cookie(p.flowName())
	if err != nil {
		return "", errOtherBrowser()
	}
	f, ok := p.openFlow(c.Value)
	if !ok || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.State)) != 1 {
		return "", errOtherBrowser()
	}
	if iss := q.Get("iss"); iss != "" && iss != p.oidc.Issuer {
		return "", action.NewError("other_issuer")
	}
	if code := q.Get("error"); code != "" {
		p.log.WarnContext(r.Context(), "the provider signed nobody in", "error", code, "description", q.Get("error_description"))
		return "", errRefusedThere(code)
	}
	who, err := p.oidc.identify(r.Context(), f, p.PublicURL+callbackPath, q.Get("code"))
	if err != nil {
		return "", p.unproven(r, err)
	}
	return p.linkOIDC(r, f, who)
}

// linkOIDC makes the link of somebody whom the provider knows, unless nobody
// of that role comes in.
func (p *pages) linkOIDC(r *http.Request, f flow, who action.Identity) (string, error) {
	ctx := r.Context()
	if who.Role == "" {
		return "", p.withoutRole(ctx, who)
	}
	u, err := p.takeIn(ctx, who)
	if err != nil {
		return "", err
	}
	err = p.People.CreateLoginLink(ctx, action.LoginLink{
		Organization: u.Organization, User: u.ID, Via: action.ViaOIDC,
		CodeHash: hashSecret(f.Code), KeyHash: hashSecret(f.Key), ExpiresAt: p.now().Add(linkLife),
	})
	if errors.Is(err, action.ErrConflict) {
		return "", action.NewError("callback_replayed")
	}
	if err != nil {
		return "", err
	}
	p.log.InfoContext(ctx, "signed in with OpenID Connect", "user", u.ID, "role", u.Role)
	to := p.PublicURL + "/login"
	if f.Next != "" {
		to += "?next=" + url.QueryEscape(f.Next)
	}
	return to + "#" + f.Code + "." + f.Key, nil
}

func errOtherBrowser() error {
	return action.Errorf(action.ErrUnauthenticated, "sign_in_over",
		"This sign-in was begun in another browser, was used already, or took longer than ten minutes; sign in again.")
}

// errRefusedThere says what the provider said, if it is one of the words that
// there are for it. Its own text is in the log alone.
func errRefusedThere(code string) error {
	known := []string{
		"access_denied", "login_required", "consent_required", "interaction_required", "account_selection_required",
		"invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope", "server_error", "temporarily_unavailable",
	}
	if !slices.Contains(known, code) {
		code = "with a reason that the log has"
	}
	return action.NewError("refused_there", code)
}

// unproven is an error of what the provider said. Why stays in the log: it may
// be anything.
func (p *pages) unproven(r *http.Request, err error) error {
	p.log.WarnContext(r.Context(), "a sign-in with OpenID Connect failed", "error", err)
	return action.NewError("sign_in_failed")
}

func (p *pages) unreachable(err error) error {
	p.log.Warn("the OpenID provider cannot be asked", "issuer", p.oidc.Issuer, "error", err)
	return action.NewError("provider_away")
}

// notSignedIn shows the sign-in page with what went wrong.
func (p *pages) notSignedIn(w http.ResponseWriter, r *http.Request, err error) {
	problem := p.problem(r.Context(), err)
	w.WriteHeader(problem.Status)
	if err := p.render(w, "login", "layout", view{Page: "login", Title: "Sign in", Data: p.ways("", problem.Detail)}); err != nil {
		p.log.ErrorContext(r.Context(), "the sign-in page failed", "error", err)
	}
}

// flowName is of the cookie of a sign-in at the provider. It comes back with a
// navigation from there, as that of a login need not.
func (s *Server) flowName() string { return s.cookieName() + "-oidc" }

func (s *Server) setFlow(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.flowName(), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.public.Scheme == "https",
	})
}

// within returns an address of this origin's pages, or nothing. What a browser
// would make another path of, such as /.//host, is none of them.
func within(next string) string {
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
