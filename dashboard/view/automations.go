package view

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/ingest/event"
)

// referenceNames holds the names that views of triggers and schedules refer to.
type referenceNames struct {
	automations  map[string]string
	integrations []action.Integration // shared ones only
}

func (s *Reader) referenceNames(ctx context.Context, organization string) (n referenceNames, err error) {
	if n.automations, err = s.Inbound.AutomationNames(ctx, organization); err != nil {
		return n, err
	}
	n.integrations, err = s.Sources.ListIntegrations(ctx, organization, "")
	return n, err
}

// integration returns the name of an integration; empty if it was removed or made
// private.
func (n *referenceNames) integration(id string) string {
	i := slices.IndexFunc(n.integrations, func(in action.Integration) bool { return in.ID == id })
	if i < 0 {
		return ""
	}
	return cmp.Or(n.integrations[i].Name, n.integrations[i].Account)
}

// Triggers lists the triggers of an automation, or of all when it is empty.
func (s *Reader) Triggers(ctx context.Context, p *dashboard.Principal, automation string) ([]api.TriggerView, error) {
	id, err := s.AutomationID(ctx, p, automation, "/automation")
	if err != nil {
		return nil, err
	}
	list, err := s.Inbound.ListTriggers(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	names, err := s.referenceNames(ctx, p.Organization)
	views := make([]api.TriggerView, len(list))
	for i, t := range list {
		views[i] = s.triggerView(t, &names)
	}
	return views, err
}

// ViewTrigger returns the view of one trigger, with the number of its secrets.
func (s *Reader) ViewTrigger(ctx context.Context, p *dashboard.Principal, t event.Trigger) (api.TriggerView, error) {
	names, err := s.referenceNames(ctx, p.Organization)
	if err != nil {
		return api.TriggerView{}, err
	}
	v := s.triggerView(t, &names)
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

func (s *Reader) triggerView(t event.Trigger, names *referenceNames) api.TriggerView {
	v := api.TriggerView{
		Trigger: t, Config: t.Config, Title: t.Provider, AutomationName: names.automations[t.Automation], IntegrationName: names.integration(t.Integration),
	}
	if v.IntegrationName == "" {
		v.Integration = "" // made private or removed
	}
	provider, err := s.EventProvider(t.Provider, "")
	if err != nil {
		return v
	}
	v.Title = provider.Title
	if t.Kind == event.Webhooks {
		path := strings.NewReplacer("{trigger}", url.PathEscape(t.ID), "{automation}", url.PathEscape(t.Automation)).Replace(provider.Endpoint)
		v.URL, v.SharedURL = s.PublicURL+path, provider.URL
	}
	return v
}

// PollGroups lists the state of polling, by provider and integration.
func (s *Reader) PollGroups(ctx context.Context, organization string) ([]api.PollGroupView, error) {
	groups, err := s.Inbound.PollGroups(ctx, organization)
	if err != nil {
		return nil, err
	}
	names, err := s.referenceNames(ctx, organization)
	views := make([]api.PollGroupView, len(groups))
	for i, g := range groups {
		views[i] = api.PollGroupView{PollGroup: g, Title: g.Provider, IntegrationName: names.integration(g.Integration)}
		if views[i].IntegrationName == "" {
			views[i].Integration = ""
		}
		if provider, err := s.EventProvider(g.Provider, ""); err == nil {
			views[i].Title = provider.Title
		}
	}
	return views, err
}

// SigningSecrets converts signing secrets, without their values.
func SigningSecrets(list []event.Secret) []api.SigningSecret {
	out := make([]api.SigningSecret, len(list))
	for i, s := range list {
		out[i] = api.SigningSecret(s)
	}
	return out
}

// Automation returns an automation by ID or name. Field is the field of the
// request that names it, for the error; empty: the path.
func (s *Reader) Automation(ctx context.Context, p *dashboard.Principal, ref, field string) (event.Automation, error) {
	a, err := s.Inbound.Automation(ctx, p.Organization, ref)
	if !errors.Is(err, action.ErrNotFound) {
		return a, err
	}
	return a, action.NewError("no_such_automation", render.Plain(ref)).WithField(field)
}

// AutomationID is [Reader.Automation] for an optional reference; empty if ref is.
func (s *Reader) AutomationID(ctx context.Context, p *dashboard.Principal, ref, field string) (string, error) {
	if ref == "" {
		return "", nil
	}
	a, err := s.Automation(ctx, p, ref, field)
	return a.ID, err
}

// UpcomingTimes is the number of due times in the view of a schedule.
const UpcomingTimes = 5

// Schedules lists the schedules of an automation, or of all when it is empty.
func (s *Reader) Schedules(ctx context.Context, p *dashboard.Principal, automation string) ([]api.ScheduleView, error) {
	id, err := s.AutomationID(ctx, p, automation, "/automation")
	if err != nil {
		return nil, err
	}
	list, err := s.Inbound.ListSchedules(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	names, err := s.Inbound.AutomationNames(ctx, p.Organization)
	views := make([]api.ScheduleView, len(list))
	for i, row := range list {
		views[i] = s.ViewSchedule(row, names)
	}
	return views, err
}

// ViewSchedule returns the view of a schedule. Its due times begin with the stored
// one, which may be overdue.
func (s *Reader) ViewSchedule(row event.Schedule, names map[string]string) api.ScheduleView {
	v := api.ScheduleView{Schedule: row, AutomationName: names[row.Automation], Next: []time.Time{}}
	if row.NextAt == nil {
		return v
	}
	v.Next = append(v.Next, *row.NextAt)
	later, err := s.Times(row.Cron, row.TimeZone, *row.NextAt, UpcomingTimes-1)
	if err != nil {
		s.Log.Warn("could not compute the times of a schedule", "schedule", row.ID, "error", err)
	}
	v.Next = append(v.Next, later...)
	return v
}

// EventProvider returns a provider of events by ID. Field is the field of the
// request that names it, for the error; empty: the path.
func (s *Reader) EventProvider(id, field string) (*api.EventProvider, error) {
	ids := make([]string, len(s.EventProviders))
	for i := range s.EventProviders {
		if ids[i] = s.EventProviders[i].ID; ids[i] == id {
			return &s.EventProviders[i], nil
		}
	}
	e := action.Errorf(action.ErrNotFound, "no_such_provider", "There is no event provider %q; providers are %s.", render.Plain(id), cmp.Or(strings.Join(ids, ", "), "none"))
	if e.Field = field; field != "" {
		e.Kind = action.ErrInvalid
	}
	return nil, e
}
