package routes

import (
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

func (s *handlers) quotaRoutes() {
	dashboard.Handle(s.Server, api.ListQuotas, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[api.QuotaView], error) {
		return s.Quotas(ctx, p.Organization)
	})
	dashboard.Handle(s.Server, api.PutQuota, func(ctx context.Context, p *dashboard.Principal, in *api.ByPolicyKeyWith[api.NewQuota]) (api.QuotaView, error) {
		key, all, err := s.knownKey(ctx, p.Organization, in.Key)
		if err != nil {
			return api.QuotaView{}, err
		}
		warning, err := s.unknownActionWarning(ctx, key, all)
		if err != nil {
			return api.QuotaView{}, err
		}
		q := action.Quota{
			Organization: p.Organization, Key: key, Per: in.Body.Per, Rate: action.Rate(in.Body.NewRate), UpdatedBy: p.By(),
		}
		if err := s.Policy.SetQuota(ctx, q); err != nil {
			return api.QuotaView{}, err
		}
		s.policyChanged(ctx, p, "quota set", "key", key.String(), "per", q.Per, "calls", q.Calls, "seconds", q.Seconds)
		v := view.ViewQuota(q, all)
		v.Warning = warning
		return v, nil
	})
	dashboard.HandleNone(s.Server, api.DeleteQuota, func(ctx context.Context, p *dashboard.Principal, in *api.DeleteQuotaInput) error {
		key, err := s.storedKey(ctx, p.Organization, in.Key)
		if err != nil {
			return err
		}
		if err := s.Policy.UnsetQuota(ctx, p.Organization, key, in.Per, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "quota removed", "key", key.String(), "per", in.Per)
		return nil
	})
	dashboard.Handle(s.Server, api.GetSettings, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (action.Settings, error) {
		return s.Policy.Settings(ctx, p.Organization)
	})
	dashboard.Handle(s.Server, api.UpdateSettings, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.SettingsChange]) (action.Settings, error) {
		now, err := s.Policy.Settings(ctx, p.Organization)
		if err != nil {
			return action.Settings{}, err
		}
		applyChange(&now, &in.Body)
		if err := s.Policy.SetSettings(ctx, p.Organization, now, p.By()); err != nil {
			return action.Settings{}, err
		}
		s.policyChanged(ctx, p, "settings changed", "self_approval", now.SelfApproval, "denial_limit", now.DenialLimit, "unverified_events", now.UnverifiedEvents, "default_group", now.DefaultGroup)
		return now, nil
	})
	dashboard.Handle(s.Server, api.ListPolicyEvents, func(ctx context.Context, p *dashboard.Principal, in *api.ListPolicyEventsInput) (api.List[action.PolicyEvent], error) {
		f := action.PolicyEventFilter{Organization: p.Organization, Kind: in.Kind, Subject: in.Subject, By: in.By, Limit: in.Limit, Cursor: in.Cursor}
		var err error
		if f.From, err = view.ParseTime("/from", in.From); err != nil {
			return api.List[action.PolicyEvent]{}, err
		}
		if f.To, err = view.ParseTime("/to", in.To); err != nil {
			return api.List[action.PolicyEvent]{}, err
		}
		page, err := s.Policy.PolicyEvents(ctx, f)
		return view.PageOf(page, identity), err
	})
}

func (s *handlers) capabilityRoutes() {
	dashboard.Handle(s.Server, api.ListCapabilities, func(ctx context.Context, p *dashboard.Principal, in *api.ListCapabilitiesInput) (api.List[api.CapabilityView], error) {
		views, err := s.Capabilities(ctx, p.Organization, in.Group)
		return view.ListOf(views), err
	})
	dashboard.Handle(s.Server, api.GetGroupCapabilities, func(ctx context.Context, p *dashboard.Principal, in *api.GetGroupCapabilitiesInput) (action.Snapshot, error) {
		snap, err := s.Snapshot(ctx, &action.Session{
			Organization: p.Organization, Kind: action.Interactive, Type: action.TypeCoding, Group: in.Group, Task: in.Task,
		})
		if err != nil {
			return snap, err
		}
		return snap, snap.Page(in.Cursor, in.Limit)
	})
	dashboard.Handle(s.Server, api.GetSessionCapabilities, func(ctx context.Context, p *dashboard.Principal, in *api.GetSessionCapabilitiesInput) (action.Snapshot, error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return action.Snapshot{}, err
		}
		snap, err := s.Snapshot(ctx, &session)
		if err != nil {
			return snap, err
		}
		return snap, snap.Page(in.Cursor, in.Limit)
	})
	dashboard.Handle(s.Server, api.PutCapability, func(ctx context.Context, p *dashboard.Principal, in *api.ByCapabilityWith[api.NewCapability]) (api.CapabilityView, error) {
		c, all, err := s.newCapability(ctx, p, in.Group, in.Provider, in.Body)
		if err != nil {
			return api.CapabilityView{}, err
		}
		warning := ""
		for _, name := range slices.Concat(c.AllowedActions, c.DeniedActions) {
			if warning != "" {
				break
			}
			if warning, err = s.unknownActionWarning(ctx, action.Key{Source: c.Provider, Action: name}, all); err != nil {
				return api.CapabilityView{}, err
			}
		}
		if c, err = s.Policy.PutCapability(ctx, c); err != nil {
			return api.CapabilityView{}, err
		}
		s.policyChanged(ctx, p, "capability set", "group", c.Group, "provider", c.Provider, "level", c.Level.String())
		return api.CapabilityView{Capability: c, Name: view.SourceName(c.Provider, all), Warning: warning}, nil
	})
	// The Go type does not express the schema of a level.
	schemas := s.API.OpenAPI().Components.Schemas.Map()
	schemas["NewCapability"].Properties["level"] = levelSchema()
	delete(schemas, "LevelName")
	dashboard.HandleNone(s.Server, api.DeleteCapability, func(ctx context.Context, p *dashboard.Principal, in *api.ByCapability) error {
		provider, _, err := s.Source(ctx, p.Organization, in.Provider)
		if provider == "" {
			return err
		}
		if err := s.Policy.DeleteCapability(ctx, p.Organization, in.Group, provider, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "capability revoked", "group", in.Group, "provider", provider)
		return nil
	})
}

func (s *handlers) newCapability(ctx context.Context, p *dashboard.Principal, group, provider string, n api.NewCapability) (action.Capability, []action.Connector, error) {
	c := action.Capability{
		Organization: p.Organization, Group: group, Level: levelOf(n.Level), AllowedActions: n.AllowedActions,
		DeniedActions: n.DeniedActions, Gate: n.Gate, GrantedBy: p.By(), GrantedAt: s.Now(),
	}
	if n.Rate != nil {
		rate := action.Rate(n.Rate.NewRate)
		c.Rate = &rate
	}
	id, all, err := s.Source(ctx, p.Organization, provider)
	if err != nil {
		return c, all, view.AtField(err, "/provider")
	}
	c.Provider = id
	if c.ExpiresAt, err = lifetimeUntil(n.Lifetime, s.Now()); err != nil {
		return c, all, err
	}
	if err := s.checkNames(ctx, id, "/allowed_actions", c.AllowedActions, all); err != nil {
		return c, all, err
	}
	return c, all, s.checkNames(ctx, id, "/denied_actions", c.DeniedActions, all)
}

func (s *handlers) groupRoutes() {
	dashboard.Handle(s.Server, api.ListGroupTemplates, func(context.Context, *dashboard.Principal, *api.None) (api.List[action.GroupTemplate], error) {
		return view.ListOf(action.GroupTemplates()), nil
	})
	dashboard.Handle(s.Server, api.CreateGroup, s.createGroup)
}

func (s *handlers) createGroup(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewGroup]) (api.List[api.CapabilityView], error) {
	none, n := api.List[api.CapabilityView]{}, in.Body
	t, err := groupTemplate(n.Template)
	if err != nil {
		return none, err
	}
	if n.Gate != "" && t.Level < action.LevelProduction {
		return none, dashboard.Invalid("/required_gate", fmt.Sprintf("The template %s has no gate. Leave required_gate out.", t.Name))
	}
	if err := action.CheckGroup("/group", n.Group); err != nil {
		return none, err
	}
	sources, all, err := s.groupSources(ctx, p.Organization, n.Providers)
	if err != nil {
		return none, err
	}
	list := make([]action.Capability, len(sources))
	for i, source := range sources {
		list[i] = t.Capability(source, n.Gate)
		list[i].GrantedBy = p.By()
	}
	if list, err = s.Policy.CreateGroup(ctx, p.Organization, n.Group, list); err != nil {
		return none, err
	}
	s.policyChanged(ctx, p, "group created", "group", n.Group, "template", t.Name, "providers", len(list))
	views := make([]api.CapabilityView, len(list))
	for i, c := range list {
		views[i] = api.CapabilityView{Capability: c, Name: view.SourceName(c.Provider, all)}
	}
	return view.ListOf(views), nil
}

func groupTemplate(name string) (*action.GroupTemplate, error) {
	all := action.GroupTemplates()
	names := make([]string, len(all))
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names[i] = all[i].Name
	}
	return nil, dashboard.Invalid("/template", fmt.Sprintf("There is no template %q. Use one of: %s.", render.Plain(name), strings.Join(names, ", ")))
}

// groupSources returns the IDs of the named sources, without duplicates; of all
// connectors and connected modules if there are no names.
func (s *handlers) groupSources(ctx context.Context, organization string, names []string) (ids []string, all []action.Connector, err error) {
	if all, err = s.Sources.ListConnectors(ctx, organization); err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		id, _, err := s.Source(ctx, organization, name)
		if err != nil {
			return nil, nil, view.AtField(err, fmt.Sprintf("/providers/%d", i))
		}
		ids = append(ids, id)
	}
	if len(names) == 0 {
		used, err := s.Sources.ListIntegrations(ctx, organization, "")
		if err != nil {
			return nil, nil, err
		}
		for _, c := range all {
			ids = append(ids, c.Source())
		}
		for _, in := range used {
			ids = append(ids, in.Provider)
		}
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		err = dashboard.Invalid("/providers", "There is no connector or integration yet, so the group could not access anything. Add one first.")
	}
	return slices.Compact(ids), all, err
}

// checkNames refuses names that no action of the source has: a denial with a typo
// would deny nothing.
func (s *handlers) checkNames(ctx context.Context, source, field string, names []string, all []action.Connector) error {
	for i, name := range names {
		at := fmt.Sprintf("%s/%d", field, i)
		if name == "" || strings.Contains(name, "*") {
			return dashboard.Invalid(at, "Name one action of the provider, without *. The level decides about all others.")
		}
		if err := s.checkAction(ctx, action.Key{Source: source, Action: name}, all); err != nil {
			return view.AtField(err, at)
		}
	}
	return nil
}

func (s *handlers) gateRoutes() {
	dashboard.Handle(s.Server, api.ListGates, func(ctx context.Context, p *dashboard.Principal, in *api.ListGatesInput) (api.List[action.GateApproval], error) {
		list, err := s.Policy.ListGates(ctx, p.Organization, in.Group, in.Task)
		return view.ListOf(list), err
	})
	dashboard.Handle(s.Server, api.ApproveGate, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewGateApproval]) (action.GateApproval, error) {
		a, err := s.newGate(ctx, p, in.Body)
		if err != nil {
			return action.GateApproval{}, err
		}
		if a, err = s.Policy.ApproveGate(ctx, a); err != nil {
			return action.GateApproval{}, err
		}
		s.policyChanged(ctx, p, "gate approved", "gate", a.Gate, "group", a.Group, "task", a.Task)
		return a, nil
	})
	dashboard.HandleNone(s.Server, api.DeleteGate, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
		if err := s.Policy.RevokeGate(ctx, p.Organization, in.ID, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "gate revoked", "approval", in.ID)
		return nil
	})
}

func (s *handlers) newGate(ctx context.Context, p *dashboard.Principal, n api.NewGateApproval) (action.GateApproval, error) {
	a := action.GateApproval{Organization: p.Organization, Gate: n.Gate, Group: n.Group, Task: n.Task, ApprovedBy: p.By()}
	for i, text := range n.Actions {
		at := fmt.Sprintf("/actions/%d", i)
		key, _, err := s.knownKey(ctx, p.Organization, text)
		if err != nil {
			return a, view.AtField(err, at)
		}
		a.Actions = append(a.Actions, key.String())
	}
	var err error
	a.ExpiresAt, err = lifetimeUntil(n.Lifetime, s.Now())
	return a, err
}
