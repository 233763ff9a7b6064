package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
)

// Modes lists the configured modes.
func (s *Reader) Modes(ctx context.Context, organization string) ([]api.ModeView, error) {
	list, _, err := s.Policy.Overrides(ctx, organization)
	if err != nil {
		return nil, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	if err != nil {
		return nil, err
	}
	views := make([]api.ModeView, len(list))
	for i, o := range list {
		views[i] = ViewMode(o, all)
	}
	return views, nil
}

// SampleSession returns the session that a query names, or an unsaved one with the
// group, task and automation of the query. As when it is created, it gets the group of
// its automation, or the default group.
func (s *Reader) SampleSession(ctx context.Context, p *dashboard.Principal, in *api.Asked) (action.Session, error) {
	if in.Session != "" {
		if in.Group+in.Task+in.Automation != "" {
			return action.Session{}, dashboard.Invalid("/session", "A session has its own group, task and automation. Send session, or these, not both.")
		}
		return s.Session(ctx, p.Organization, in.Session)
	}
	row := action.Session{Organization: p.Organization, Kind: action.Interactive, Type: action.TypeCoding, Group: in.Group, Task: in.Task}
	if in.Automation != "" {
		a, err := s.Automation(ctx, p, in.Automation, "/automation")
		if err != nil {
			return row, err
		}
		row.Automation, row.Kind, row.Type, row.Group = a.ID, action.Unattended, action.TypeAutomation, cmp.Or(row.Group, a.Group)
	}
	settings, err := s.Policy.Settings(ctx, p.Organization)
	row.Group = cmp.Or(row.Group, settings.DefaultGroup)
	return row, err
}

// Explain returns the decision for a hypothetical call, and each step towards it.
func (s *Reader) Explain(ctx context.Context, p *dashboard.Principal, in *api.Asked) (api.Explanation, error) {
	row, err := s.SampleSession(ctx, p, in)
	if err != nil {
		return api.Explanation{}, err
	}
	params := json.RawMessage(in.Params)
	key, all, err := s.ResolveKey(ctx, p.Organization, in.Action)
	if err != nil {
		return api.Explanation{}, AtField(err, "/action")
	}
	if key.Action == "*" {
		return api.Explanation{}, dashboard.Invalid("/action", "Name one action, not a pattern.")
	}
	if len(params) == 0 {
		params = nil
	}
	e, err := s.Gate.Explain(ctx, &row, key.Source, key.Action, params)
	if err != nil {
		return api.Explanation{}, ParamsError(err)
	}
	d := e.Decision
	d.Steps = dashboard.NonNil(d.Steps)
	return api.Explanation{
		Decision: d, Key: key.String(), Name: KeyName(key, all), Session: row.ID, Risk: e.Risk,
		Available: d.Mode != action.ModeDeny, Reason: d.Why(), Refused: e.Refused, Note: e.Note,
	}, nil
}

// ResolveKey parses a policy key and replaces a connector's slug or name by
// its id. An unknown source is refused: a denial with a typo would deny
// nothing.
func (s *Reader) ResolveKey(ctx context.Context, organization, text string) (action.Key, []action.Connector, error) {
	key, err := action.ParseKey(text)
	if err != nil {
		return key, nil, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	if err != nil {
		return key, nil, err
	}
	if key.Source == "*" {
		return key, all, nil
	}
	key.Source, err = s.sourceID(ctx, organization, key.Source, all)
	return key, all, err
}

// AtField replaces the field of an error by the field of this request that caused
// it.
func AtField(err error, field string) error {
	var e *action.Error
	if !errors.As(err, &e) || e.Field == "" {
		return err
	}
	out := *e
	out.Field = field
	return &out
}

// ViewMode returns the view of one configured mode.
func ViewMode(o action.Override, all []action.Connector) api.ModeView {
	v := api.ModeView{Key: o.Key.String(), Name: KeyName(o.Key, all), Mode: o.Mode, Automation: o.Automation, UpdatedBy: o.UpdatedBy}
	if !o.UpdatedAt.IsZero() {
		v.UpdatedAt = &o.UpdatedAt
	}
	return v
}

// KeyName returns a key with the slug or name of its connector.
func KeyName(key action.Key, all []action.Connector) string {
	key.Source = SourceName(key.Source, all)
	return key.String()
}

// SourceName returns the slug or name of a connector for its source id; any other
// id is returned as it is.
func SourceName(id string, all []action.Connector) string {
	for _, c := range all {
		if c.Source() == id {
			return cmp.Or(c.Slug, c.Name)
		}
	}
	return id
}

// Quotas lists the configured quotas.
func (s *Reader) Quotas(ctx context.Context, organization string) (api.List[api.QuotaView], error) {
	list, err := s.Policy.ListQuotas(ctx, organization)
	if err != nil {
		return api.List[api.QuotaView]{}, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	views := make([]api.QuotaView, len(list))
	for i, q := range list {
		views[i] = ViewQuota(q, all)
	}
	return ListOf(views), err
}

// ViewQuota returns the view of one quota.
func ViewQuota(q action.Quota, all []action.Connector) api.QuotaView {
	return api.QuotaView{Key: q.Key.String(), Name: KeyName(q.Key, all), Per: q.Per, Calls: q.Calls, Seconds: q.Seconds, UpdatedBy: q.UpdatedBy}
}

// Capabilities lists the ceilings of a group, or of all groups when it is empty.
func (s *Reader) Capabilities(ctx context.Context, organization, group string) ([]api.CapabilityView, error) {
	list, err := s.Policy.ListCapabilities(ctx, organization, group)
	if err != nil {
		return nil, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	views := make([]api.CapabilityView, len(list))
	for i, c := range list {
		views[i] = api.CapabilityView{Capability: c, Name: SourceName(c.Provider, all)}
	}
	return views, err
}

// GrantFilter converts the query of a list of grants.
func GrantFilter(p *dashboard.Principal, in *api.ListGrantsInput) action.GrantFilter {
	return action.GrantFilter{
		Organization: p.Organization, Session: in.Session, Scope: in.Scope, Source: in.Source, Action: in.Action, Usable: in.Usable, Limit: in.Limit, Cursor: in.Cursor,
	}
}

// Grants lists grants, and returns the connectors that name their sources.
func (s *Reader) Grants(ctx context.Context, f action.GrantFilter) (action.Page[action.Grant], []action.Connector, error) {
	all, err := s.Sources.ListConnectors(ctx, f.Organization)
	if err != nil {
		return action.Page[action.Grant]{}, nil, err
	}
	if id, err := s.sourceID(ctx, f.Organization, f.Source, all); err == nil {
		f.Source = id
	}
	page, err := s.Policy.ListGrants(ctx, f)
	return page, all, err
}

// NotifyViews lists the notification channels.
func (s *Reader) NotifyViews(ctx context.Context, organization string) ([]api.NotifyView, error) {
	all, err := s.Policy.NotifyChannels(ctx, organization)
	if err != nil {
		return nil, err
	}
	views := make([]api.NotifyView, len(all))
	for i := range all {
		if views[i], err = s.ViewNotify(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// ViewNotify returns the view of one notification channel.
func (s *Reader) ViewNotify(ctx context.Context, c *action.NotifyChannel) (api.NotifyView, error) {
	v := api.NotifyView{
		Kind: c.Kind, Enabled: c.Enabled, Wants: c.Wants, URL: c.URL, Integration: c.Integration, Channel: c.Target, Secrets: []api.SigningSecret{},
		UpdatedBy: c.UpdatedBy, UpdatedAt: c.UpdatedAt, Failures: c.Failures, LastError: render.Plain(c.LastError), LastErrorAt: c.LastErrorAt, LastSentAt: c.LastSentAt,
	}
	if c.Failures > 0 {
		v.RetryAt = c.RetryAt
	}
	if c.Kind != action.NotifyWebhook {
		return v, nil
	}
	secrets, err := s.Inbound.SigningSecrets(ctx, c.Organization, dashboard.NotifySecrets)
	v.Secrets = SigningSecrets(secrets)
	return v, err
}

// Notifications lists the newest notifications.
func (s *Reader) Notifications(ctx context.Context, organization string, limit int) ([]api.NotificationView, error) {
	all, err := s.Policy.Notifications(ctx, organization, limit)
	views := make([]api.NotificationView, len(all))
	for i, n := range all {
		views[i] = api.NotificationView{
			ID: n.ID, Kind: n.Kind, Event: n.Event, Invocation: n.Invocation, EnvRequest: n.EnvRequest, GrantRequest: n.GrantRequest, Run: n.Run, Status: n.Status, Failures: n.Attempt,
			Error: render.Plain(n.LastError), CreatedAt: n.CreatedAt, EndedAt: n.EndedAt,
		}
	}
	return views, err
}
