package routes

import (
	"cmp"
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

func (s *handlers) beginConnection(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewConnection]) (link api.ConnectLink, err error) {
	kinds := []action.IntegrationKind{action.KindOAuth2, action.KindApp}
	if in.Body.Broker != action.BrokerOwn {
		kinds = kinds[:1]
	}
	w, err := s.connectionRequest(ctx, p, in.Body.Connecting, "", kinds...)
	if err != nil {
		return link, err
	}
	if err := action.CheckScopes("/scopes", in.Body.Scopes); err != nil {
		return link, err
	}
	w.Scopes = in.Body.Scopes
	if link.ConnectStep, err = s.Connections.Begin(ctx, w); err != nil {
		return link, err
	}
	link.Host = view.HostOf(link.URL)
	s.Log.InfoContext(ctx, "connection started", "provider", w.Provider, "kind", w.Kind, "broker", w.Broker, "own", w.Own, "by", p.By())
	return link, nil
}

// finishSignInOrConnection completes an authorization. Connectors and each provider
// have callback pages of their own, so that the response of one server cannot
// complete the flow of another (mix-up attack).
func (s *handlers) finishSignInOrConnection(ctx context.Context, p *dashboard.Principal, in *api.Body[api.FinishedSignIn]) (api.Finished, error) {
	if in.Body.Provider != "" {
		return s.finishConnection(ctx, p, in.Body)
	}
	if err := dashboard.Permit(api.Decider, p, ""); err != nil {
		return api.Finished{}, err
	}
	v, err := s.finishSignIn(ctx, p, in.Body)
	if err != nil {
		return api.Finished{}, err
	}
	return api.Finished{Of: "connector", ConnectorView: v}, nil
}

func (s *handlers) finishConnection(ctx context.Context, p *dashboard.Principal, n api.FinishedSignIn) (api.Finished, error) {
	decides := p.Role.Decides()
	switch {
	case s.Provider(n.Provider) == nil:
		return api.Finished{}, dashboard.Invalid("/provider", fmt.Sprintf("There is no provider %q; providers are %s.", render.Plain(n.Provider), s.providerIDs()))
	case p.LimitedRole && !decides:
		return api.Finished{}, errLimitedKey()
	}
	in, err := s.Connections.Finish(ctx, p.Organization, p.By(), p.CredentialID, decides, action.ConnectCallback{
		Provider: n.Provider, Iss: n.Iss, State: n.State, Code: n.Code, Error: n.Error, Installation: n.Installation, Connection: n.Connection,
	})
	if err != nil {
		return api.Finished{}, err
	}
	s.integrationChanged(ctx, p, "integration connected", &in)
	s.listRepositories(ctx, p, in)
	v := s.ViewIntegration(in)
	return api.Finished{Of: "integration", Integration: &v}, nil
}

func (s *handlers) bindingRoutes() {
	dashboard.Handle(s.Server, api.GetBindings, func(ctx context.Context, p *dashboard.Principal, in *api.ByAutomation) (api.Bindings, error) {
		a, err := s.Automation(ctx, p, in.Automation, "")
		if err != nil {
			return api.Bindings{}, err
		}
		ids, err := s.Sources.Bindings(ctx, p.Organization, a.ID)
		if err != nil {
			return api.Bindings{}, err
		}
		ids, err = s.visibleConnections(ctx, p, ids)
		return api.Bindings{Automation: a.ID, Connections: dashboard.NonNil(ids)}, err
	})
	dashboard.Handle(s.Server, api.PutBindings, func(ctx context.Context, p *dashboard.Principal, in *api.ByAutomationWith[api.NewBindings]) (api.Bindings, error) {
		a, err := s.Automation(ctx, p, in.Automation, "")
		if err != nil {
			return api.Bindings{}, err
		}
		ids, err := s.resolveConnections(ctx, p, in.Body.Connections)
		if err != nil {
			return api.Bindings{}, err
		}
		if err := s.Sources.SetBindings(ctx, p.Organization, a.ID, ids, p.By()); err != nil {
			return api.Bindings{}, err
		}
		s.policyChanged(ctx, p, "connections of an automation set", "automation", a.ID, "connections", ids)
		return api.Bindings{Automation: a.ID, Connections: dashboard.NonNil(ids)}, nil
	})
}

// visibleConnections removes the IDs of integrations that are private to others.
func (s *handlers) visibleConnections(ctx context.Context, p *dashboard.Principal, ids []string) ([]string, error) {
	if len(ids) == 0 || slices.Equal(ids, []string{action.AllConnections}) {
		return ids, nil
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	return view.KeepListed(ids, all), err
}

// connections returns the connections of a new session: those that the request
// names, or else those of its automation. Nil: neither has any.
func (s *handlers) connections(ctx context.Context, p *dashboard.Principal, n api.NewSession) ([]string, error) {
	switch {
	case n.Connections == nil && n.Automation != "":
		ids, err := s.Sources.Bindings(ctx, p.Organization, n.Automation)
		if err != nil {
			return nil, err
		}
		return s.visibleConnections(ctx, p, ids)
	case slices.Equal(n.Connections, []string{action.AllConnections}):
		return n.Connections, nil
	}
	return s.resolveConnections(ctx, p, n.Connections)
}

// resolveConnections resolves IDs, providers and names of integrations to IDs.
func (s *handlers) resolveConnections(ctx context.Context, p *dashboard.Principal, names []string) (ids []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	if err != nil {
		return nil, err
	}
	bound := map[string]string{} // the ID by provider, of providers that allow one only
	for i, name := range names {
		at := fmt.Sprintf("/connections/%d", i)
		in, err := s.resolveConnection(name, all)
		if err != nil {
			return nil, view.AtField(err, at)
		}
		if slices.Contains(ids, in.ID) {
			continue
		}
		if provider := s.Provider(in.Provider); provider != nil && !provider.Many {
			if bound[in.Provider] != "" {
				return nil, dashboard.Invalid(at, fmt.Sprintf("A session can have only one integration of %s. Leave the others out.", provider.Title))
			}
			bound[in.Provider] = in.ID
		}
		ids = append(ids, in.ID)
	}
	return ids, nil
}

// resolveConnection returns the visible integration with that ID, else the only one
// of that provider, else the one with that name.
func (s *handlers) resolveConnection(name string, all []action.Integration) (*action.Integration, error) {
	if i := slices.IndexFunc(all, func(in action.Integration) bool { return in.ID == name }); i >= 0 {
		return checkBindable(&all[i])
	}
	if name == action.AllConnections {
		return nil, dashboard.Invalid("/connections", `"all" is only for sessions, and must stand alone. Name integrations instead.`)
	}
	if id := strings.TrimPrefix(name, view.ModulePrefix); s.Provider(id) != nil {
		return onlyActive(id, all)
	}
	found := filterIntegrations(all, func(in *action.Integration) bool { return strings.EqualFold(in.Name, name) })
	if ours := filterIntegrations(found, func(in *action.Integration) bool { return in.User == "" }); len(ours) > 0 {
		found = ours
	}
	switch len(found) {
	case 0:
		return nil, dashboard.Invalid("/connections", fmt.Sprintf("There is no integration or provider %q; GET /api/v1/integrations lists the ids and names, and providers are %s.", render.Plain(name), s.providerIDs()))
	case 1:
		return checkBindable(&found[0])
	}
	return nil, errAmbiguous(fmt.Sprintf("called %q", render.Plain(name)), found)
}

// checkBindable refuses personal integrations, which sessions use implicitly.
func checkBindable(in *action.Integration) (*action.Integration, error) {
	if in.User != "" {
		return nil, dashboard.Invalid("/connections", "This is a personal connection, which is used automatically for its owner. Name an integration of the organization.")
	}
	return in, nil
}

// onlyActive returns the only active shared integration of a provider. If none is
// active, the only one: sessions report why it cannot be used.
func onlyActive(provider string, all []action.Integration) (*action.Integration, error) {
	ours := filterIntegrations(all, func(in *action.Integration) bool { return in.Provider == provider && in.Owner() == "" })
	found := filterIntegrations(ours, func(in *action.Integration) bool { return in.Status == action.IntegrationActive })
	if len(found) == 0 && len(ours) == 1 {
		found = ours
	}
	switch len(found) {
	case 0:
		return nil, dashboard.Invalid("/connections", fmt.Sprintf("There is no active integration of %s; connect one first (POST /api/v1/integrations), or name one by its id.", provider))
	case 1:
		return &found[0], nil
	}
	return nil, errAmbiguous("of "+provider, found)
}

func filterIntegrations(all []action.Integration, keep func(*action.Integration) bool) []action.Integration {
	return slices.DeleteFunc(slices.Clone(all), func(in action.Integration) bool { return !keep(&in) })
}

// errAmbiguous is the error of a name that matches several integrations.
func errAmbiguous(which string, found []action.Integration) error {
	names := make([]string, len(found))
	for i, in := range found {
		names[i] = fmt.Sprintf("%s (%s)", in.ID, render.Plain(cmp.Or(in.Name, in.Account)))
	}
	return dashboard.Invalid("/connections", fmt.Sprintf("There are several integrations %s. Use the ID of one: %s.", which, strings.Join(names, ", ")))
}

func (s *handlers) providerAppRoutes() {
	dashboard.Handle(s.Server, api.ListApps, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[action.ProviderApp], error) {
		apps, err := s.Sources.ListProviderApps(ctx, p.Organization)
		for i := range apps {
			apps[i].Secrets = dashboard.NonNil(apps[i].Secrets)
		}
		return view.ListOf(apps), err
	})
	dashboard.Handle(s.Server, api.PutApp, s.putApp)
	dashboard.HandleNone(s.Server, api.DeleteApp, func(ctx context.Context, p *dashboard.Principal, in *api.ByProvider) error {
		if err := s.Sources.DeleteProviderApp(ctx, p.Organization, in.Provider, p.By()); err != nil {
			if errors.Is(err, action.ErrNotFound) {
				err = action.NewError("provider_app_not_found", render.Plain(in.Provider))
			}
			return err
		}
		s.policyChanged(ctx, p, "provider app removed", "provider", in.Provider)
		return nil
	})
}

func (s *handlers) putApp(ctx context.Context, p *dashboard.Principal, in *api.ByProviderWith[api.NewApp]) (action.ProviderApp, error) {
	n := in.Body
	app := action.ProviderApp{
		Organization: p.Organization, Provider: in.Provider, ClientID: n.ClientID, Slug: n.Slug, AppID: n.AppID, BaseURL: n.BaseURL,
		Keys: n.Keys, UpdatedBy: p.By(), UpdatedAt: s.Now(),
	}
	if err := s.checkApp(in.Provider, &n); err != nil {
		return app, err
	}
	secrets := map[string]string{action.AppClientSecret: n.ClientSecret, action.AppPrivateKey: n.PrivateKey, action.AppAPIKey: n.APIKey}
	maps.DeleteFunc(secrets, func(_, v string) bool { return v == "" })
	app.Secrets = slices.AppendSeq([]string{}, maps.Keys(secrets))
	slices.Sort(app.Secrets)
	app, err := s.Connections.SealApp(app, secrets)
	if err != nil {
		return app, err
	}
	if err := s.Sources.PutProviderApp(ctx, app, p.By()); err != nil {
		return app, err
	}
	s.policyChanged(ctx, p, "provider app set", "provider", in.Provider, "secrets", app.Secrets)
	return app, nil
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
		return dashboard.Invalid("/provider", fmt.Sprintf("%s does not need a registration. Connect it directly.", p.Title))
	case p == nil:
		return dashboard.Invalid("/provider", fmt.Sprintf("The gateway cannot be registered at %q. Use nango, or a provider of kind oauth2 or app_installation; providers are %s.", render.Plain(provider), s.providerIDs()))
	case n.APIKey != "" || len(n.Keys) > 0:
		return dashboard.Invalid("/api_key", "api_key and `keys` are for the broker nango. Leave them out.")
	case n.ClientID == "" && n.AppID == "":
		return lacks("/client_id", "Send the client_id from the service or, for a GitHub App, app_id, `slug` and private_key.")
	case n.ClientSecret != "" && n.ClientID == "":
		return lacks("/client_id", "client_secret needs a client_id. Send both.")
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
		return dashboard.Invalid("/app_id", fmt.Sprintf("%s has no installable apps. Leave out app_id, `slug` and private_key.", p.Title))
	}
	for field, v := range map[string]string{"/app_id": n.AppID, "/slug": n.Slug, "/private_key": n.PrivateKey} {
		if v == "" {
			return &action.Error{Kind: action.ErrInvalid, Code: "missing_field", Field: field, Message: "An installable app needs app_id, `slug` and private_key. Send all three."}
		}
	}
	if strings.Trim(n.AppID, "0123456789") != "" {
		return dashboard.Invalid("/app_id", "app_id is the number that the app's page at GitHub shows as App ID, not the slug or the client ID.")
	}
	if !isRSAKey(n.PrivateKey) {
		return dashboard.Invalid("/private_key", "private_key must be an RSA private key of at least 2048 bits in PEM: the whole file from GitHub, with its first and last line.")
	}
	return nil
}

func (s *handlers) checkAppTexts(n *api.NewApp) error {
	for field, v := range map[string]string{"/client_secret": n.ClientSecret, "/api_key": n.APIKey} {
		if !action.PlainText(v) {
			return dashboard.Invalid(field, "This must be plain text on one line, as the service issued it.")
		}
	}
	for id, key := range n.Keys {
		if s.Provider(id) == nil || key == "" || !action.PlainText(key) {
			return dashboard.Invalid("/keys/"+render.PointerToken(id), fmt.Sprintf("`keys` maps IDs of providers to names at the broker; providers are %s.", s.providerIDs()))
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
	return dashboard.Invalid("/base_url", fmt.Sprintf("base_url must be the URL of the API. For an Enterprise server, that is https://%s/api/v3.", u.Host))
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
