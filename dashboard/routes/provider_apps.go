package routes

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

func (s *handlers) providerAppRoutes() {
	dashboard.Handle(s.Server, api.ListApps, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[action.ProviderApp], error) {
		apps, err := s.Sources.ListProviderApps(ctx, p.Organization)
		for i := range apps {
			apps[i].Secrets = dashboard.NonNil(apps[i].Secrets)
		}
		return view.ListOf(apps), err
	})
	dashboard.Handle(s.Server, api.PutApp, func(ctx context.Context, p *dashboard.Principal, in *api.ByProviderWith[api.NewApp]) (action.ProviderApp, error) {
		return s.putApp(ctx, p, in.Provider, in.Body)
	})
	dashboard.HandleNone(s.Server, api.DeleteApp, func(ctx context.Context, p *dashboard.Principal, in *api.ByProvider) error {
		if err := s.Sources.DeleteProviderApp(ctx, p.Organization, in.Provider, p.By()); err != nil {
			return errNotRegistered(in.Provider, err)
		}
		s.policyChanged(ctx, p, "provider app removed", "provider", in.Provider)
		return nil
	})
}

// errNotRegistered names the provider in a not-found error.
func errNotRegistered(provider string, err error) error {
	if !errors.Is(err, action.ErrNotFound) {
		return err
	}
	return action.NewError("provider_app_not_found", render.Plain(provider))
}

func (s *handlers) putApp(ctx context.Context, p *dashboard.Principal, provider string, n api.NewApp) (action.ProviderApp, error) {
	app := action.ProviderApp{
		Organization: p.Organization, Provider: provider, ClientID: n.ClientID, Slug: n.Slug, AppID: n.AppID, BaseURL: n.BaseURL,
		Keys: n.Keys, UpdatedBy: p.By(), UpdatedAt: s.Now(),
	}
	if err := s.checkApp(provider, &n); err != nil {
		return app, err
	}
	secrets := appSecrets(&n)
	app.Secrets = slices.AppendSeq([]string{}, maps.Keys(secrets))
	slices.Sort(app.Secrets)
	app, err := s.Connections.SealApp(app, secrets)
	if err != nil {
		return app, err
	}
	if err := s.Sources.PutProviderApp(ctx, app, p.By()); err != nil {
		return app, err
	}
	s.policyChanged(ctx, p, "provider app set", "provider", provider, "secrets", app.Secrets)
	return app, nil
}

// appSecrets returns the secrets in a request by name.
func appSecrets(n *api.NewApp) map[string]string {
	all := map[string]string{action.AppClientSecret: n.ClientSecret, action.AppPrivateKey: n.PrivateKey, action.AppAPIKey: n.APIKey}
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	return all
}

// checkApp refuses a registration that could not work.
func (s *handlers) checkApp(provider string, n *api.NewApp) error {
	p := s.Provider(provider)
	lacks := func(field, why string) error {
		return &action.Error{Kind: action.ErrInvalid, Code: "missing_field", Field: field, Message: why}
	}
	switch {
	case provider == string(action.BrokerNango):
		if n.APIKey == "" {
			return lacks("/api_key", "Send the key of the Nango environment with api_key.")
		}
		if n.ClientID != "" || n.ClientSecret != "" || n.AppID != "" || n.Slug != "" || n.PrivateKey != "" {
			return dashboard.Invalid("/client_id", "For Nango, send only api_key, base_url and `keys`; clients are registered there.")
		}
	case p != nil && connectMethod(p, "", action.KindOAuth2, action.KindApp) == nil:
		return dashboard.Invalid("/provider", fmt.Sprintf("%s has no need of a registration; connect it without.", p.Title))
	case p == nil:
		return dashboard.Invalid("/provider", fmt.Sprintf("The gateway is not registered at %q; providers are %s, of which it is at those of kind oauth2 and app_installation, and nango.", render.Plain(provider), s.providerIDs()))
	case n.APIKey != "" || len(n.Keys) > 0:
		return dashboard.Invalid("/api_key", "api_key and `keys` belong to the broker nango; leave them out.")
	case n.ClientID == "" && n.AppID == "":
		return lacks("/client_id", "Send the client_id that the service gave; for a GitHub App, app_id, `slug` and private_key.")
	case n.ClientSecret != "" && n.ClientID == "":
		return lacks("/client_id", "A client with a secret has an id; send client_id, too.")
	}
	if err := checkInstalledApp(n, p); err != nil {
		return err
	}
	if err := s.checkAppTexts(n); err != nil {
		return err
	}
	if p != nil && connectMethod(p, action.KindApp, action.KindApp) != nil {
		return checkAPIURL(n.BaseURL)
	}
	return nil
}

// checkInstalledApp validates the fields of an installable app.
func checkInstalledApp(n *api.NewApp, p *api.Provider) error {
	if n.AppID == "" && n.Slug == "" && n.PrivateKey == "" {
		return nil
	}
	if p != nil && connectMethod(p, action.KindApp, action.KindApp) == nil {
		return dashboard.Invalid("/app_id", fmt.Sprintf("%s has no apps to install; leave out app_id, `slug` and private_key.", p.Title))
	}
	for field, v := range map[string]string{"/app_id": n.AppID, "/slug": n.Slug, "/private_key": n.PrivateKey} {
		if v == "" {
			return &action.Error{Kind: action.ErrInvalid, Code: "missing_field", Field: field, Message: "An app that is installed takes app_id, `slug` and private_key; send all three."}
		}
	}
	if strings.Trim(n.AppID, "0123456789") != "" {
		return dashboard.Invalid("/app_id", "app_id is a number, which the app's page at GitHub shows as App ID; the slug and the client id are others.")
	}
	if !isRSAKey(n.PrivateKey) {
		return dashboard.Invalid("/private_key", "private_key must be an RSA private key of at least 2048 bits in PEM, as GitHub hands it out: the whole file, with its first and last line.")
	}
	return nil
}

func (s *handlers) checkAppTexts(n *api.NewApp) error {
	for field, v := range map[string]string{"/client_secret": n.ClientSecret, "/api_key": n.APIKey} {
		if !action.PlainText(v) {
			return dashboard.Invalid(field, "This must be plain text on one line, as the service gave it.")
		}
	}
	for id, key := range n.Keys {
		if s.Provider(id) == nil || key == "" || !action.PlainText(key) {
			return dashboard.Invalid("/keys/"+render.PointerToken(id), fmt.Sprintf("keys gives a name at the broker for a provider's id; providers are %s.", s.providerIDs()))
		}
	}
	return checkBaseURL(n.BaseURL)
}

// checkAPIURL refuses the URL of an Enterprise server's web pages, since its API
// is at a path below. A host that serves only the API, such as api.github.com,
// has no path.
func checkAPIURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || text == "" || strings.TrimSuffix(u.Path, "/") == "/api/v3" || strings.HasPrefix(u.Hostname(), "api.") || action.Loopback(u.Hostname()) {
		return nil
	}
	return dashboard.Invalid("/base_url", fmt.Sprintf("base_url must lead to the API, which an Enterprise server has at https://%s/api/v3.", u.Host))
}

// isRSAKey reports whether text is an RSA key of at least 2048 bits in PKCS #1
// or PKCS #8.
func isRSAKey(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key.N.BitLen() >= 2048
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := any.(*rsa.PrivateKey)
	return err == nil && ok && key.N.BitLen() >= 2048
}
