package routes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

func (s *handlers) connectRoutes() {
	dashboard.Handle(s.Server, api.ConnectIntegration, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewConnection]) (api.ConnectLink, error) {
		return s.beginConnection(ctx, p, in.Body)
	})
}

func (s *handlers) beginConnection(ctx context.Context, p *dashboard.Principal, n api.NewConnection) (link api.ConnectLink, err error) {
	kinds := []action.IntegrationKind{action.KindOAuth2, action.KindApp}
	if n.Broker != action.BrokerOwn {
		kinds = kinds[:1]
	}
	w, err := s.connectionRequest(ctx, p, n.Connecting, "", kinds...)
	if err != nil {
		return link, err
	}
	if err := action.CheckScopes("/scopes", n.Scopes); err != nil {
		return link, err
	}
	w.Scopes = n.Scopes
	if link.ConnectStep, err = s.Connections.Begin(ctx, w); err != nil {
		return link, err
	}
	link.Host = view.HostOf(link.URL)
	s.Log.InfoContext(ctx, "connection begun", "provider", w.Provider, "kind", w.Kind, "broker", w.Broker, "own", w.Own, "by", p.By())
	return link, nil
}

// finishSignInOrConnection completes an authorization. Connectors and each provider
// have callback pages of their own, so that the response of one server cannot
// complete the flow of another (mix-up attack).
func (s *handlers) finishSignInOrConnection(ctx context.Context, p *dashboard.Principal, n api.FinishedSignIn) (api.Finished, error) {
	if n.Provider != "" {
		return s.finishConnection(ctx, p, n)
	}
	if err := dashboard.Permit(api.Decider, p, ""); err != nil {
		return api.Finished{}, err
	}
	v, err := s.finishSignIn(ctx, p, n)
	if err != nil {
		return api.Finished{}, err
	}
	return api.Finished{Of: "connector", ConnectorView: v}, nil
}

func (s *handlers) finishConnection(ctx context.Context, p *dashboard.Principal, n api.FinishedSignIn) (api.Finished, error) {
	decides := p.Role.Decides()
	switch {
	case s.Provider(n.Provider) == nil:
		return api.Finished{}, dashboard.Invalid("/provider", fmt.Sprintf("There is no provider %q; there is %s.", render.Plain(n.Provider), s.providerIDs()))
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
		s.policyChanged(ctx, p, "automation bound", "automation", a.ID, "connections", ids)
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
				return nil, dashboard.Invalid(at, fmt.Sprintf("A session is bound to one integration of %s, as its actions cannot tell several apart; leave one out.", provider.Title))
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
		return nil, dashboard.Invalid("/connections", `"all" stands alone, and for a session; here, name integrations.`)
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
		return nil, dashboard.Invalid("/connections", "This is somebody's own connection, which nothing is bound to: it is used by itself where an action bears his name. Name one of the organization's.")
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
	return dashboard.Invalid("/connections", fmt.Sprintf("There are several integrations %s; name one by its id: %s.", which, strings.Join(names, ", ")))
}
