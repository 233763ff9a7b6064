package credential

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/guard"
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
	own := app.BaseURL
	if own == "" {
		own = m.BaseURL
	}
	at, errAt := url.Parse(own)
	wanted, errWanted := url.Parse(w.BaseURL)
	if errAt != nil || errWanted != nil || guard.Host(at) != host && !strings.HasSuffix(strings.ToLower(wanted.Hostname()), "."+strings.ToLower(at.Hostname())) {
		return "", "", invalid("/base_url", "The gateway is registered at %s and connects to no other host. Set the base_url of the registration first.", at.Host)
	}
	return base, host, nil
}
