package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) bindingRoutes() {
	handle(s, api.GetBindings, func(ctx context.Context, p *Principal, in *api.ByAutomation) (api.Bindings, error) {
		a, err := s.automation(ctx, p, in.Automation, "")
		if err != nil {
			return api.Bindings{}, err
		}
		ids, err := s.Sources.Bindings(ctx, p.Organization, a.ID)
		if err != nil {
			return api.Bindings{}, err
		}
		ids, err = s.seen(ctx, p, ids)
		return api.Bindings{Automation: a.ID, Connections: nonNil(ids)}, err
	})
	handle(s, api.PutBindings, func(ctx context.Context, p *Principal, in *api.ByAutomationWith[api.NewBindings]) (api.Bindings, error) {
		a, err := s.automation(ctx, p, in.Automation, "")
		if err != nil {
			return api.Bindings{}, err
		}
		ids, err := s.bindable(ctx, p, in.Body.Connections)
		if err != nil {
			return api.Bindings{}, err
		}
		if err := s.Sources.SetBindings(ctx, p.Organization, a.ID, ids, p.By()); err != nil {
			return api.Bindings{}, err
		}
		s.changed(ctx, p, "automation bound", "automation", a.ID, "connections", ids)
		return api.Bindings{Automation: a.ID, Connections: nonNil(ids)}, nil
	})
}

// seen are those of the ids that the person may know of: what is private to
// others is not there for him.
func (s *Server) seen(ctx context.Context, p *Principal, ids []string) ([]string, error) {
	if len(ids) == 0 || slices.Equal(ids, []string{action.AllConnections}) {
		return ids, nil
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.viewer())
	return only(ids, all), err
}

// only are the ids that are in the list.
func only(ids []string, all []action.Integration) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return id != action.AllConnections && !slices.ContainsFunc(all, func(in action.Integration) bool { return in.ID == id })
	})
}

// connections returns what a session is bound to that is minted with these
// names; nil: none are said, which is the automation's, if it has one.
func (s *Server) connections(ctx context.Context, p *Principal, n api.NewSession) ([]string, error) {
	switch {
	case n.Connections == nil && n.Automation != "":
		ids, err := s.Sources.Bindings(ctx, p.Organization, n.Automation)
		if err != nil {
			return nil, err
		}
		return s.seen(ctx, p, ids)
	case slices.Equal(n.Connections, []string{action.AllConnections}):
		return n.Connections, nil
	}
	return s.bindable(ctx, p, n.Connections)
}

// bindable returns the ids of integrations that were named by id, provider or
// name.
func (s *Server) bindable(ctx context.Context, p *Principal, names []string) (ids []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.viewer())
	if err != nil {
		return nil, err
	}
	bound := map[string]string{} // the id, by the provider that takes just one
	for i, name := range names {
		at := fmt.Sprintf("/connections/%d", i)
		in, err := s.bind(name, all)
		if err != nil {
			return nil, placed(err, at)
		}
		if slices.Contains(ids, in.ID) {
			continue
		}
		if provider := s.provider(in.Provider); provider != nil && !provider.Many {
			if bound[in.Provider] != "" {
				return nil, invalid(at, fmt.Sprintf("A session is bound to one integration of %s, as its actions cannot tell several apart; leave one out.", provider.Title))
			}
			bound[in.Provider] = in.ID
		}
		ids = append(ids, in.ID)
	}
	return ids, nil
}

// bind finds the integration that one name means, among those that the person
// may see: by its id, else as the one of a provider, else by its name.
func (s *Server) bind(name string, all []action.Integration) (*action.Integration, error) {
	if i := slices.IndexFunc(all, func(in action.Integration) bool { return in.ID == name }); i >= 0 {
		return bindableOnly(&all[i])
	}
	if name == action.AllConnections {
		return nil, invalid("/connections", `"all" stands alone, and for a session; here, name integrations.`)
	}
	if id := strings.TrimPrefix(name, modulePrefix); s.provider(id) != nil {
		return theOne(id, all)
	}
	found := those(all, func(in *action.Integration) bool { return strings.EqualFold(in.Name, name) })
	if ours := those(found, func(in *action.Integration) bool { return in.User == "" }); len(ours) > 0 {
		found = ours
	}
	switch len(found) {
	case 0:
		return nil, invalid("/connections", fmt.Sprintf("There is no integration or provider %q; GET /api/v1/integrations lists the ids and names, and providers are %s.", plain(name), s.providerIDs()))
	case 1:
		return bindableOnly(&found[0])
	}
	return nil, several(fmt.Sprintf("called %q", plain(name)), found)
}

// bindableOnly refuses what nothing is bound to.
func bindableOnly(in *action.Integration) (*action.Integration, error) {
	if in.User != "" {
		return nil, invalid("/connections", "This is somebody's own connection, which nothing is bound to: it is used by itself where an action bears his name. Name one of the organization's.")
	}
	return in, nil
}

// theOne is the only active integration of a provider that everybody may see,
// or when none is active, the only one: what is bound to it says why not.
func theOne(provider string, all []action.Integration) (*action.Integration, error) {
	ours := those(all, func(in *action.Integration) bool { return in.Provider == provider && in.Owner() == "" })
	found := those(ours, func(in *action.Integration) bool { return in.Status == action.IntegrationActive })
	if len(found) == 0 && len(ours) == 1 {
		found = ours
	}
	switch len(found) {
	case 0:
		return nil, invalid("/connections", fmt.Sprintf("There is no active integration of %s; connect one first (POST /api/v1/integrations), or name one by its id.", provider))
	case 1:
		return &found[0], nil
	}
	return nil, several("of "+provider, found)
}

func those(all []action.Integration, keep func(*action.Integration) bool) []action.Integration {
	return slices.DeleteFunc(slices.Clone(all), func(in action.Integration) bool { return !keep(&in) })
}

// several refuses a name of more than one integration.
func several(which string, found []action.Integration) error {
	names := make([]string, len(found))
	for i, in := range found {
		names[i] = fmt.Sprintf("%s (%s)", in.ID, plain(cmp.Or(in.Name, in.Account)))
	}
	return invalid("/connections", fmt.Sprintf("There are several integrations %s; name one by its id: %s.", which, strings.Join(names, ", ")))
}
