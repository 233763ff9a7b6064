package dashboard

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// naming is what views of what starts runs take names from.
type naming struct {
	automations  map[string]string
	integrations []action.Integration // that everybody may see
}

func (s *Server) naming(ctx context.Context, organization string) (n naming, err error) {
	if n.automations, err = s.Inbound.AutomationNames(ctx, organization); err != nil {
		return n, err
	}
	n.integrations, err = s.Sources.ListIntegrations(ctx, organization, "")
	return n, err
}

// integration names one; empty: it is gone, or somebody's own affair by now.
func (n *naming) integration(id string) string {
	i := slices.IndexFunc(n.integrations, func(in action.Integration) bool { return in.ID == id })
	if i < 0 {
		return ""
	}
	return cmp.Or(n.integrations[i].Name, n.integrations[i].Account)
}

func (s *Server) triggers(ctx context.Context, p *Principal, automation string) ([]api.TriggerView, error) {
	id, err := s.automationID(ctx, p, automation, "/automation")
	if err != nil {
		return nil, err
	}
	list, err := s.Inbound.ListTriggers(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	names, err := s.naming(ctx, p.Organization)
	views := make([]api.TriggerView, len(list))
	for i, t := range list {
		views[i] = s.showTrigger(t, &names)
	}
	return views, err
}

// viewTrigger is the view of one that is read alone.
func (s *Server) viewTrigger(ctx context.Context, p *Principal, t event.Trigger) (api.TriggerView, error) {
	names, err := s.naming(ctx, p.Organization)
	if err != nil {
		return api.TriggerView{}, err
	}
	v := s.showTrigger(t, &names)
	if t.Kind == event.Webhooks {
		secrets, err := s.Inbound.SigningSecrets(ctx, p.Organization, t.ID)
		if err != nil {
			return v, err
		}
		n := len(secrets)
		v.Secrets, v.SecretNeeded = &n, n == 0
	}
	return v, nil
}

func (s *Server) showTrigger(t event.Trigger, names *naming) api.TriggerView {
	v := api.TriggerView{
		Trigger: t, Config: t.Config, Title: t.Provider, AutomationName: names.automations[t.Automation], IntegrationName: names.integration(t.Integration),
	}
	if v.IntegrationName == "" {
		v.Integration = "" // it is private to somebody by now, or gone
	}
	provider, err := s.eventProvider(t.Provider, "")
	if err != nil {
		return v
	}
	v.Title = provider.Title
	if t.Kind == event.Webhooks {
		v.URL, v.SharedURL = s.PublicURL+eventProviderPath(provider, &t), provider.URL
	}
	return v
}

// eventProviderPath is that of the trigger's own URL.
func eventProviderPath(p *api.EventProvider, t *event.Trigger) string {
	return strings.NewReplacer("{trigger}", url.PathEscape(t.ID), "{automation}", url.PathEscape(t.Automation)).Replace(p.Endpoint)
}

func (s *Server) pollGroups(ctx context.Context, organization string) ([]api.PollGroupView, error) {
	groups, err := s.Inbound.PollGroups(ctx, organization)
	if err != nil {
		return nil, err
	}
	names, err := s.naming(ctx, organization)
	views := make([]api.PollGroupView, len(groups))
	for i, g := range groups {
		views[i] = api.PollGroupView{PollGroup: g, Title: g.Provider, IntegrationName: names.integration(g.Integration)}
		if views[i].IntegrationName == "" {
			views[i].Integration = ""
		}
		if provider, err := s.eventProvider(g.Provider, ""); err == nil {
			views[i].Title = provider.Title
		}
	}
	return views, err
}
