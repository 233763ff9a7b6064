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

// registration is how an organization's gateway is known at a service.
type registration struct {
	action.ProviderApp
	secrets map[string]string
}

func appRef(organization, provider string) action.Ref {
	return action.Ref{Organization: organization, Table: "provider_apps", Row: provider, Column: "sealed"}
}

// registration returns the organization's, with its secrets. Without one the
// error is of kind ErrInvalid and has the code "no_app".
func (t *Tokens) registration(ctx context.Context, organization, provider string) (*registration, error) {
	app, err := t.Store.ProviderApp(ctx, organization, provider)
	if errors.Is(err, action.ErrNotFound) {
		return nil, noApp(provider, "The gateway is not registered at %s for this organization.", provider)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the registration at %s: %w", provider, err)
	}
	return t.opened(app)
}

// opened returns a registration with its secrets, as its row has them.
func (t *Tokens) opened(app action.ProviderApp) (*registration, error) {
	r, provider := &registration{ProviderApp: app}, app.Provider
	if len(app.Sealed) > 0 {
		var s appSecrets
		if err := unseal(t.Vault, appRef(app.Organization, provider), app.Sealed, &s); err != nil {
			return nil, fmt.Errorf("opening the registration at %s: %w", provider, err)
		}
		if s.Origin != origin(app.BaseURL) {
			return nil, noApp(provider, "The registration at %s has another base_url than its secrets were given for; set both again.", provider)
		}
		r.secrets = s.Secrets
	}
	r.Sealed = nil
	return r, nil
}

// appSecrets is what is sealed of a registration.
type appSecrets struct {
	// Origin of the base URL that they were given for, empty: the service's own.
	// Who can write the row must not have them sent elsewhere.
	Origin  string            `json:"origin,omitempty"`
	Secrets map[string]string `json:"secrets"`
}

// origin returns the scheme and host of a URL; empty: it is none.
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

// need returns the named secret, or says that it is to be set.
func (r *registration) need(secret string) (string, error) {
	if r.secrets[secret] == "" {
		return "", noApp(r.Provider, "The registration at %s has no %s.", r.Provider, secret)
	}
	return r.secrets[secret], nil
}

// SealApp seals the secrets of a registration, by their names, for its base URL
// alone, and returns it with them. Errors name the field.
func (t *Tokens) SealApp(app action.ProviderApp, secrets map[string]string) (action.ProviderApp, error) {
	known := []string{action.AppClientSecret, action.AppPrivateKey, action.AppAPIKey}
	for name, value := range secrets {
		switch {
		case !slices.Contains(known, name):
			return app, invalid("/secrets/"+name, "There is no such secret of a registration; there are %s.", strings.Join(known, ", "))
		case value == "":
			return app, invalid("/secrets/"+name, "A secret cannot be empty; leave it out instead.")
		}
	}
	if key := secrets[action.AppPrivateKey]; key != "" {
		if _, err := privateKey(key); err != nil {
			return app, invalid("/secrets/"+action.AppPrivateKey, "This is no RSA key in PEM; give the whole file that the service made, with its first and last line.")
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

// privateKey reads an RSA key in PEM, as PKCS #1 or PKCS #8. Its errors may hold
// parts of the key.
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

// boundBase is wantedBase for what the gateway's registration is used for: its
// secrets, and the tokens had with them, are for the service's own host alone,
// or one below it (de.sentry.io).
func (t *Tokens) boundBase(m *sources.Module, w *action.Wanted, app *registration) (base, host string, err error) {
	base, host, err = t.wantedBase(m, w, app.BaseURL)
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
		return "", "", invalid("/base_url", "The gateway is registered at %s and connects to no other host; set the base_url of the registration first.", at.Host)
	}
	return base, host, nil
}
