package dashboard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) capabilityRoutes() {
	s.capabilityReads()
	handle(s, api.PutCapability, func(ctx context.Context, p *Principal, in *api.ByCapabilityWith[api.NewCapability]) (api.CapabilityView, error) {
		c, all, err := s.newCapability(ctx, p, in.Group, in.Provider, in.Body)
		if err != nil {
			return api.CapabilityView{}, err
		}
		warning := ""
		for _, name := range slices.Concat(c.AllowedActions, c.DeniedActions) {
			if warning != "" {
				break
			}
			if warning, err = s.unsure(ctx, action.Key{Source: c.Provider, Action: name}, all); err != nil {
				return api.CapabilityView{}, err
			}
		}
		if c, err = s.Policy.PutCapability(ctx, c); err != nil {
			return api.CapabilityView{}, err
		}
		s.changed(ctx, p, "capability given", "group", c.Group, "provider", c.Provider, "level", c.Level.String())
		return api.CapabilityView{Capability: c, Name: sourceName(c.Provider, all), Warning: warning}, nil
	})
	// The schema is the level's own; the type alone does not tell it.
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	schemas["NewCapability"].Properties["level"] = levelSchema()
	delete(schemas, "LevelName")
	handleNone(s, api.DeleteCapability, func(ctx context.Context, p *Principal, in *api.ByCapability) error {
		provider, _, err := s.source(ctx, p.Organization, in.Provider)
		if provider == "" {
			return err
		}
		if err := s.Policy.DeleteCapability(ctx, p.Organization, in.Group, provider, p.By()); err != nil {
			return err
		}
		s.changed(ctx, p, "capability revoked", "group", in.Group, "provider", provider)
		return nil
	})
}

func (s *Server) capabilityReads() {
	handle(s, api.ListCapabilities, func(ctx context.Context, p *Principal, in *api.ListCapabilitiesInput) (api.List[api.CapabilityView], error) {
		views, err := s.capabilities(ctx, p.Organization, in.Group)
		return listOf(views), err
	})
	handle(s, api.GetGroupCapabilities, func(ctx context.Context, p *Principal, in *api.GetGroupCapabilitiesInput) (action.Snapshot, error) {
		snap, err := s.Snapshot(ctx, &action.Session{
			Organization: p.Organization, Kind: action.Interactive, Type: action.TypeCoding, Group: in.Group, Task: in.Task,
		})
		return snap, err
	})
	handle(s, api.GetSessionCapabilities, func(ctx context.Context, p *Principal, in *api.InSession) (action.Snapshot, error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return action.Snapshot{}, err
		}
		return s.Snapshot(ctx, &session)
	})
}

func (s *Server) capabilities(ctx context.Context, organization, group string) ([]api.CapabilityView, error) {
	list, err := s.Policy.ListCapabilities(ctx, organization, group)
	if err != nil {
		return nil, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	views := make([]api.CapabilityView, len(list))
	for i, c := range list {
		views[i] = api.CapabilityView{Capability: c, Name: sourceName(c.Provider, all)}
	}
	return views, err
}

func (s *Server) newCapability(ctx context.Context, p *Principal, group, provider string, n api.NewCapability) (action.Capability, []action.Connector, error) {
	c := action.Capability{
		Organization: p.Organization, Group: group, Level: levelOf(n.Level), AllowedActions: n.AllowedActions,
		DeniedActions: n.DeniedActions, Gate: n.Gate, GrantedBy: p.By(), GrantedAt: s.now(),
	}
	if n.Rate != nil {
		rate := action.Rate(n.Rate.NewRate)
		c.Rate = &rate
	}
	id, all, err := s.source(ctx, p.Organization, provider)
	if err != nil {
		return c, all, placed(err, "/provider")
	}
	c.Provider = id
	if c.ExpiresAt, err = lifetimeUntil(n.Lifetime, s.now()); err != nil {
		return c, all, err
	}
	if err := s.checkNames(ctx, id, "/allowed_actions", c.AllowedActions, all); err != nil {
		return c, all, err
	}
	return c, all, s.checkNames(ctx, id, "/denied_actions", c.DeniedActions, all)
}

// checkNames refuses names that no action of the source can have, or is known
// to: a denial with a typo in it would deny nothing.
func (s *Server) checkNames(ctx context.Context, source, field string, names []string, all []action.Connector) error {
	for i, name := range names {
		at := fmt.Sprintf("%s/%d", field, i)
		if name == "" || strings.Contains(name, "*") {
			return invalid(at, "Name one action of the provider, without *; the level says how far all others reach.")
		}
		if err := s.checkAction(ctx, action.Key{Source: source, Action: name}, all); err != nil {
			return placed(err, at)
		}
	}
	return nil
}
