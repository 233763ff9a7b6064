package dashboard

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/ingest/event"
)

// TriggerView is a trigger with what can be said of it now.
type TriggerView struct {
	event.Trigger
	Config          raw    `json:"config" doc:"Filters; an object that fits the type's config_schema."`
	Title           string `json:"provider_title" example:"GitHub"`
	AutomationName  string `json:"automation_name" example:"nightly-triage"`
	IntegrationName string `json:"integration_name,omitempty"`
	URL             string `json:"url,omitempty" doc:"Of its own, for the service to post to." example:"https://gate.example.com/webhooks/direct/github/0199a3c7-0000-7000-8000-000000000001"`
	SharedURL       string `json:"provider_url,omitempty" doc:"For events of all triggers of the provider, where the operator set a secret for it."`
	Secrets         *int   `json:"secrets,omitempty" doc:"How many are good now; of a webhook that is read alone."`
	SecretNeeded    bool   `json:"secret_needed,omitempty" doc:"It has none, and refuses whatever comes until rotate gives it the one that the service made. Of a trigger that is read alone."`
}

// PollGroupView tells how polling of an integration goes.
type PollGroupView struct {
	event.PollGroup
	Title           string `json:"provider_title" example:"Linear"`
	IntegrationName string `json:"integration_name,omitempty"`
}

// naming is what views of what starts runs take names from.
type naming struct {
	automations  map[string]string
	integrations []action.Integration // that everybody may see
}

func (s *Server) naming(ctx context.Context, organization string) (n naming, err error) {
	if n.automations, err = s.Automations.AutomationNames(ctx, organization); err != nil {
		return n, err
	}
	n.integrations, err = s.Integrations.ListIntegrations(ctx, organization, "")
	return n, err
}

// integration names one; empty: it is gone, or somebody's own affair by now.
func (n *naming) integration(id string) string {
	i := slices.IndexFunc(n.integrations, func(in action.Integration) bool { return in.ID == id })
	if i < 0 {
		return ""
	}
	return or(n.integrations[i].Name, n.integrations[i].Account)
}

func (s *Server) triggers(ctx context.Context, p *Principal, automation string) ([]TriggerView, error) {
	id, err := s.automationID(ctx, p, automation, "/automation")
	if err != nil {
		return nil, err
	}
	list, err := s.Triggers.ListTriggers(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	names, err := s.naming(ctx, p.Organization)
	views := make([]TriggerView, len(list))
	for i, t := range list {
		views[i] = s.showTrigger(t, &names)
	}
	return views, err
}

// viewTrigger is the view of one that is read alone.
func (s *Server) viewTrigger(ctx context.Context, p *Principal, t event.Trigger) (TriggerView, error) {
	names, err := s.naming(ctx, p.Organization)
	if err != nil {
		return TriggerView{}, err
	}
	v := s.showTrigger(t, &names)
	if t.Kind == event.Webhooks {
		secrets, err := s.Triggers.SigningSecrets(ctx, p.Organization, t.ID)
		if err != nil {
			return v, err
		}
		n := len(secrets)
		v.Secrets, v.SecretNeeded = &n, n == 0
	}
	return v, nil
}

func (s *Server) showTrigger(t event.Trigger, names *naming) TriggerView {
	v := TriggerView{
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
		v.URL, v.SharedURL = s.PublicURL+provider.path(&t), provider.URL
	}
	return v
}

// path is that of the trigger's own URL.
func (p *EventProvider) path(t *event.Trigger) string {
	return strings.NewReplacer("{trigger}", url.PathEscape(t.ID), "{automation}", url.PathEscape(t.Automation)).Replace(p.Endpoint)
}

func (s *Server) pollGroups(ctx context.Context, organization string) ([]PollGroupView, error) {
	groups, err := s.Triggers.PollGroups(ctx, organization)
	if err != nil {
		return nil, err
	}
	names, err := s.naming(ctx, organization)
	views := make([]PollGroupView, len(groups))
	for i, g := range groups {
		views[i] = PollGroupView{PollGroup: g, Title: g.Provider, IntegrationName: names.integration(g.Integration)}
		if views[i].IntegrationName == "" {
			views[i].Integration = ""
		}
		if provider, err := s.eventProvider(g.Provider, ""); err == nil {
			views[i].Title = provider.Title
		}
	}
	return views, err
}
