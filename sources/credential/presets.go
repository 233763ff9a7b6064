package credential

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// preset is how a service gives tokens to the gateway itself.
type preset struct {
	authorize, token, revoke string // URLs; no revoke: it knows no such thing
	issuer                   string // as it names itself in answers (RFC 9207); empty: not known
	forget                   string // of the API, where tokens are given back in GitHub's way
	comma                    bool   // between scopes
	below                    bool   // the base URL is the server's own, with the path that it is under, not its API's
	authorizing              url.Values
	bearers                  []string // types of token that are bearer tokens under another name
}

// presetOf returns a service's preset by the name that a module's Need gives.
func presetOf(name string) (p preset, ok bool) {
	switch name {
	case "linear":
		p = preset{
			authorize: "https://linear.app/oauth/authorize", token: "https://api.linear.app/oauth/token",
			revoke: "https://api.linear.app/oauth/revoke", comma: true,
		}
	case "sentry":
		p = preset{authorize: "https://sentry.io/oauth/authorize/", token: "https://sentry.io/oauth/token/", below: true}
	case "slack":
		p = preset{
			authorize: "https://slack.com/oauth/v2/authorize", token: "https://slack.com/api/oauth.v2.access",
			comma: true, bearers: []string{"bot"},
		}
	case "github":
		p = preset{
			authorize: "https://github.com/login/oauth/authorize", token: "https://github.com/login/oauth/access_token", forget: "applications",
		}
	case "google":
		p = preset{
			authorize: "https://accounts.google.com/o/oauth2/v2/auth", token: "https://oauth2.googleapis.com/token",
			revoke: "https://oauth2.googleapis.com/revoke", issuer: "https://accounts.google.com",
			// Without them there is no refresh token, or only at the first sign-in.
			authorizing: url.Values{"access_type": {"offline"}, "prompt": {"consent"}},
		}
	default:
		return p, false
	}
	return p, true
}

// at returns the preset for a server of one's own: the same paths at its origin,
// or below the path that it is under, and whatever it calls itself.
func (p preset) at(base string) preset {
	own, err := url.Parse(base)
	if base == "" || err != nil {
		return p
	}
	p.issuer = ""
	root := &url.URL{Scheme: own.Scheme, Host: own.Host}
	if p.below {
		root.Path, root.RawPath = own.Path, own.RawPath
	}
	for _, endpoint := range []*string{&p.authorize, &p.token, &p.revoke} {
		if u, err := url.Parse(*endpoint); err == nil && *endpoint != "" {
			*endpoint = root.JoinPath(u.EscapedPath()).String()
		}
	}
	return p
}

// client returns whom the integration's tokens were issued to, and the
// endpoints: a refresh token goes nowhere else.
func (t *Tokens) client(ctx context.Context, h *owned) (*registration, preset, error) {
	p, ok := t.presetFor(h.in.Provider, action.KindOAuth2)
	if !ok {
		return nil, p, failing(sources.FaultConfig, nil, "The gateway does not sign in to %s any more; connect it in another way.", t.title(h.in.Provider))
	}
	app, err := t.registration(ctx, h.in.Organization, h.in.Provider)
	if err != nil {
		return nil, p, err
	}
	if p = p.at(app.BaseURL); app.ClientID != h.cred.Client || p.token != h.cred.Token {
		return nil, p, foreign("The gateway's registration at %s was changed since; connect it again.", t.title(h.in.Provider))
	}
	return app, p, nil
}

// errForeign is a credential that another registration than today's had.
var errForeign = errors.New("it was had by another registration")

func foreign(format string, args ...any) error {
	e := failing(sources.FaultReconnect, nil, format, args...)
	e.Err = errForeign
	return e
}

func (t *Tokens) presetFor(provider string, kind action.IntegrationKind) (preset, bool) {
	if m := t.modules[provider]; m != nil {
		for _, n := range m.Needs {
			if n.Kind == kind {
				return presetOf(n.Preset)
			}
		}
	}
	return preset{}, false
}

// exchange asks the token endpoint for tokens and puts them into k. Errors that
// wrap a *[refusal] are the service's no.
func (t *Tokens) exchange(ctx context.Context, app *registration, p preset, k *issued, form url.Values) error {
	form.Set("client_id", app.ClientID)
	secrets := []string{form.Get("refresh_token"), form.Get("code"), form.Get("code_verifier")}
	if secret := app.secrets[action.AppClientSecret]; secret != "" {
		form.Set("client_secret", secret)
		secrets = append(secrets, secret)
	}
	now := t.Now().UTC() // before it is sent: a token may not seem to live longer than it does
	a, err := t.post(ctx, app.Organization, p.token, form, secrets)
	if err != nil {
		return err
	}
	if err := k.take(a.Status, a.Body, now, p.bearers...); err != nil {
		var no *refusal
		if errors.As(err, &no) && no.client() {
			e := failing(sources.FaultAuth, nil, "%s does not take the gateway's client (%s); an owner or admin must set its id and secret again.", app.Provider, no.code)
			e.Err = no
			return e
		}
		return err
	}
	k.Granted = scopes(strings.FieldsFunc(joined(k.Granted), func(r rune) bool { return r == ' ' || r == ',' }))
	return nil
}

// post sends a form to an endpoint of a preset.
func (t *Tokens) post(ctx context.Context, organization, endpoint string, form url.Values, secrets []string) (*outbound.Response, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	return t.send(ctx, "oauth:"+organization, endpoint, &outbound.Request{Method: http.MethodPost, Header: header, Body: []byte(form.Encode())}, secrets...)
}

// send makes one request that has to do with credentials, to an absolute URL.
func (t *Tokens) send(ctx context.Context, whose, endpoint string, r *outbound.Request, secrets ...string) (*outbound.Response, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, failing(sources.FaultConfig, nil, "The service's URL cannot be used; set the base URL again.")
	}
	r.Path, r.Query, r.NoRedirect = u.EscapedPath(), u.Query(), true
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept", "application/json")
	ctx, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	var kept []string
	for _, s := range secrets {
		if s != "" {
			kept = append(kept, s)
		}
	}
	a, err := t.HTTP.Client(whose, &url.URL{Scheme: u.Scheme, Host: u.Host}, kept...).Do(ctx, r)
	return a, unanswered(u.Hostname(), err)
}
