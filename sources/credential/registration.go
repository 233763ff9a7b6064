package credential

import (
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// registration is an organization's registration (OAuth app, GitHub App, Nango)
// at a service.
type registration struct {
	action.ProviderApp
	secrets map[string]string
}

func appRef(organization, provider string) action.Ref {
	return action.Ref{Organization: organization, Table: "provider_apps", Row: provider, Column: "sealed"}
}

// registration returns the organization's registration with its secrets. If
// there is none, the error is of kind ErrInvalid with the code "no_app".
func (t *Tokens) registration(ctx context.Context, organization, provider string) (*registration, error) {
	app, err := t.Store.ProviderApp(ctx, organization, provider)
	if errors.Is(err, action.ErrNotFound) {
		return nil, noApp(provider, "The gateway is not registered at %s for this organization.", provider)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the registration at %s: %w", provider, err)
	}
	return t.unsealRegistration(app)
}

// unsealRegistration returns a registration with its unsealed secrets.
func (t *Tokens) unsealRegistration(app action.ProviderApp) (*registration, error) {
	r, provider := &registration{ProviderApp: app}, app.Provider
	if len(app.Sealed) > 0 {
		var s appSecrets
		if err := unseal(t.Vault, appRef(app.Organization, provider), app.Sealed, &s); err != nil {
			return nil, fmt.Errorf("opening the registration at %s: %w", provider, err)
		}
		if s.Origin != origin(app.BaseURL) {
			return nil, noApp(provider, "The registration at %s has a base_url that its secrets were not set for. Set both again.", provider)
		}
		r.secrets = s.Secrets
	}
	r.Sealed = nil
	return r, nil
}

// appSecrets is the sealed part of a registration.
type appSecrets struct {
	// Origin of the base URL that the secrets were set for; empty: the
	// service's own. A changed base URL in the row must not redirect them.
	Origin  string            `json:"origin,omitempty"`
	Secrets map[string]string `json:"secrets"`
}

// origin returns the scheme and host of a URL; empty: not a URL.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if raw == "" || err != nil {
		return ""
	}
	return u.Scheme + "://" + guard.Host(u)
}

func noApp(provider, format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, codeNoApp, format+" An owner or admin must register the gateway there.", args...)
	e.Values = []any{provider}
	return e
}

// secret returns the named secret, or an error that asks to set it.
func (r *registration) secret(secret string) (string, error) {
	if r.secrets[secret] == "" {
		return "", noApp(r.Provider, "The registration at %s has no %s.", r.Provider, secret)
	}
	return r.secrets[secret], nil
}

// SealApp seals the secrets of a registration, by name, for its base URL only,
// and returns the registration with them. Errors name the field.
func (t *Tokens) SealApp(app action.ProviderApp, secrets map[string]string) (action.ProviderApp, error) {
	known := []string{action.AppClientSecret, action.AppPrivateKey, action.AppAPIKey}
	for name, value := range secrets {
		switch {
		case !slices.Contains(known, name):
			return app, invalid("/secrets/"+name, "Unknown secret. Available: %s.", strings.Join(known, ", "))
		case value == "":
			return app, invalid("/secrets/"+name, "A secret cannot be empty. Omit it instead.")
		}
	}
	if key := secrets[action.AppPrivateKey]; key != "" {
		if _, err := privateKey(key); err != nil {
			return app, invalid("/secrets/"+action.AppPrivateKey, "This is not an RSA key in PEM. Provide the whole file from the service, including its first and last line.")
		}
	}
	app.Secrets, app.Sealed = slices.Sorted(maps.Keys(secrets)), nil
	if len(secrets) == 0 {
		return app, nil
	}
	plain, err := json.Marshal(appSecrets{origin(app.BaseURL), secrets})
	if err != nil {
		return app, errors.New("sealing a registration") // the cause would quote it
	}
	app.Sealed, err = t.Vault.Seal(appRef(app.Organization, app.Provider), plain)
	return app, err
}

// privateKey parses an RSA key in PEM, as PKCS #1 or PKCS #8. Its errors can
// contain parts of the key.
func privateKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("not an RSA key")
	}
	return key, nil
}

// registeredBaseURL is requestedBaseURL for connections that use the gateway's
// registration: its secrets and tokens are sent only to the service's own host
// or a subdomain (de.sentry.io).
func (t *Tokens) registeredBaseURL(m *sources.Module, w *action.ConnectRequest, app *registration) (base, host string, err error) {
	base, host, err = t.requestedBaseURL(m, w, app.BaseURL)
	if err != nil || w.BaseURL == "" {
		return base, host, err
	}
	at, errAt := url.Parse(cmp.Or(app.BaseURL, m.BaseURL))
	wanted, errWanted := url.Parse(w.BaseURL)
	if errAt != nil || errWanted != nil || guard.Host(at) != host && !strings.HasSuffix(strings.ToLower(wanted.Hostname()), "."+strings.ToLower(at.Hostname())) {
		return "", "", invalid("/base_url", "The gateway is registered at %s and connects to no other host. Set the base_url of the registration first.", at.Host)
	}
	return base, host, nil
}

// preset describes the OAuth endpoints of a service.
type preset struct {
	authorize, token, revoke string // URLs; revoke is empty if not supported
	issuer                   string // in authorization responses (RFC 9207); empty: unknown
	deletePath               string // API path of GitHub's token deletion
	commaScopes              bool   // scopes are separated by commas
	basePath                 bool   // the base URL is that of the server, including its path, rather than that of its API
	authorizeParams          url.Values
	bearerTypes              []string // token types that are used like bearer tokens
}

// presetOf returns a service's preset by the name in a module's Need.
func presetOf(name string) (p preset, ok bool) {
	switch name {
	case "linear":
		p = preset{
			authorize: "https://linear.app/oauth/authorize", token: "https://api.linear.app/oauth/token",
			revoke: "https://api.linear.app/oauth/revoke", commaScopes: true,
		}
	case "sentry":
		p = preset{authorize: "https://sentry.io/oauth/authorize/", token: "https://sentry.io/oauth/token/", basePath: true}
	case "slack":
		p = preset{
			authorize: "https://slack.com/oauth/v2/authorize", token: "https://slack.com/api/oauth.v2.access",
			commaScopes: true, bearerTypes: []string{"bot"},
		}
	case "github":
		p = preset{
			authorize: "https://github.com/login/oauth/authorize", token: "https://github.com/login/oauth/access_token", deletePath: "applications",
		}
	case "google":
		p = preset{
			authorize: "https://accounts.google.com/o/oauth2/v2/auth", token: "https://oauth2.googleapis.com/token",
			revoke: "https://oauth2.googleapis.com/revoke", issuer: "https://accounts.google.com",
			// Required for a refresh token at every sign-in.
			authorizeParams: url.Values{"access_type": {"offline"}, "prompt": {"consent"}},
		}
	default:
		return p, false
	}
	return p, true
}

// forServer returns the preset for a self-hosted server: the same paths at its
// origin, or below its base path, and any issuer.
func (p preset) forServer(base string) preset {
	own, err := url.Parse(base)
	if base == "" || err != nil {
		return p
	}
	p.issuer = ""
	root := &url.URL{Scheme: own.Scheme, Host: own.Host}
	if p.basePath {
		root.Path, root.RawPath = own.Path, own.RawPath
	}
	for _, endpoint := range []*string{&p.authorize, &p.token, &p.revoke} {
		if u, err := url.Parse(*endpoint); err == nil && *endpoint != "" {
			*endpoint = root.JoinPath(u.EscapedPath()).String()
		}
	}
	return p
}

// clientFor returns the registration that the integration's tokens were issued
// to, and the endpoints: a refresh token is sent nowhere else.
func (t *Tokens) clientFor(ctx context.Context, h *storedIntegration) (*registration, preset, error) {
	var p preset
	ok := false
	if m := t.modules[h.in.Provider]; m != nil {
		if i := slices.IndexFunc(m.Needs, func(n sources.Need) bool { return n.Kind == action.KindOAuth2 }); i >= 0 {
			p, ok = presetOf(m.Needs[i].Preset)
		}
	}
	if !ok {
		return nil, p, unavailable(sources.FaultConfig, nil, "The gateway no longer supports signing in to %s. Connect it in another way.", t.title(h.in.Provider))
	}
	app, err := t.registration(ctx, h.in.Organization, h.in.Provider)
	if err != nil {
		return nil, p, err
	}
	if p = p.forServer(app.BaseURL); app.ClientID != h.secrets.Client || p.token != h.secrets.Token {
		return nil, p, registrationChanged("The gateway's registration at %s has changed. Connect it again.", t.title(h.in.Provider))
	}
	return app, p, nil
}

// errRegistrationChanged reports a credential that was issued to a previous
// registration.
var errRegistrationChanged = errors.New("it was had by another registration")

func registrationChanged(format string, args ...any) error {
	e := unavailable(sources.FaultReconnect, nil, format, args...)
	e.Err = errRegistrationChanged
	return e
}

// exchange requests tokens and stores them in k. An error response of the
// service is wrapped as *[tokenError].
func (t *Tokens) exchange(ctx context.Context, app *registration, p preset, k *tokenSet, form url.Values) error {
	form.Set("client_id", app.ClientID)
	secrets := []string{form.Get("refresh_token"), form.Get("code"), form.Get("code_verifier")}
	if secret := app.secrets[action.AppClientSecret]; secret != "" {
		form.Set("client_secret", secret)
		secrets = append(secrets, secret)
	}
	now := t.Now().UTC() // before sending, so that the lifetime is not overestimated
	a, err := t.post(ctx, app.Organization, p.token, form, secrets)
	if err != nil {
		return err
	}
	if err := k.parse(a.Status, a.Body, now, p.bearerTypes...); err != nil {
		var no *tokenError
		if errors.As(err, &no) && no.clientRejected() {
			e := unavailable(sources.FaultAuth, nil, "%s does not accept the gateway's client (%s). An owner or admin must set its ID and secret again.", app.Provider, no.code)
			e.Err = no
			return e
		}
		return err
	}
	k.Granted = scopes(strings.FieldsFunc(joinScopes(k.Granted), func(r rune) bool { return r == ' ' || r == ',' }))
	return nil
}

// post sends a form to an endpoint of a preset.
func (t *Tokens) post(ctx context.Context, organization, endpoint string, form url.Values, secrets []string) (*outbound.Response, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	return t.send(ctx, "oauth:"+organization, endpoint, &outbound.Request{Method: http.MethodPost, Header: header, Body: []byte(form.Encode())}, secrets...)
}

// send sends one credential-related request to an absolute URL.
func (t *Tokens) send(ctx context.Context, whose, endpoint string, r *outbound.Request, secrets ...string) (*outbound.Response, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, unavailable(sources.FaultConfig, nil, "The service's URL is not valid. Set the base URL again.")
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
	return a, requestError(u.Hostname(), err)
}
