package dashboard

import (
	"context"
	"maps"
	"slices"

	"sallyport/action"
	"sallyport/api"
)

// grantViewCovering is a grant as p may see it in the list of what covers a session.
func grantViewCovering(v api.GrantView, p *Principal) api.CoveringGrant {
	c := api.CoveringGrant{GrantView: v}
	if v.MaxCalls != nil {
		left := *v.MaxCalls - v.UsedCalls
		c.CallsLeft = &left
	}
	if p.Session == nil || v.Session != "" {
		c.UsedCalls, c.CreatedBy, c.CreatedAt = &v.UsedCalls, v.CreatedBy, &v.CreatedAt
		return c
	}
	c.Pinned = slices.Sorted(maps.Keys(v.Pins))
	c.Grant = action.Grant{ID: v.ID, Organization: v.Organization, Terms: v.Terms}
	c.Pins, c.MaxCalls = nil, nil
	return c
}

func scopeNameScope(w api.ScopeName) action.GrantScope {
	switch w {
	case "org":
		return action.ScopeOrganization
	case "":
		return action.ScopeSession
	}
	return action.GrantScope(w)
}

func (s *Server) grantRoutes() {
	s.grantReads()
	handle(s, api.CreateGrant, func(ctx context.Context, p *Principal, in *api.Body[api.NewGrant]) (api.GrantView, error) {
		g, err := s.makeGrant(ctx, p, in.Body)
		if err != nil {
			return api.GrantView{}, err
		}
		return s.viewGrant(ctx, g)
	})
	handle(s, api.RevokeGrant, func(ctx context.Context, p *Principal, in *api.ByID) (api.GrantView, error) {
		g, err := s.Policy.RevokeGrant(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return api.GrantView{}, err
		}
		s.changed(ctx, p, "grant revoked", "grant", g.ID)
		return s.viewGrant(ctx, g)
	})
}

func (s *Server) grantReads() {
	handle(s, api.ListGrants, func(ctx context.Context, p *Principal, in *api.ListGrantsInput) (api.List[api.GrantView], error) {
		return s.listGrants(ctx, grantFilter(p, in))
	})
	handle(s, api.GetGrant, func(ctx context.Context, p *Principal, in *api.ByID) (api.GrantView, error) {
		g, err := s.Policy.Grant(ctx, p.Organization, in.ID)
		if err != nil {
			return api.GrantView{}, err
		}
		return s.viewGrant(ctx, g)
	})
	handle(s, api.ListSessionGrants, func(ctx context.Context, p *Principal, in *api.ListSessionGrantsInput) (api.List[api.CoveringGrant], error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return api.List[api.CoveringGrant]{}, err
		}
		page, all, err := s.grants(ctx, action.GrantFilter{Organization: p.Organization, Session: in.Session, Covering: true, Usable: true, Limit: in.Limit, Cursor: in.Cursor})
		return pageOf(page, func(g action.Grant) api.CoveringGrant {
			return grantViewCovering(api.GrantView{Grant: g, Name: sourceName(g.Source, all)}, p)
		}), err
	})
}

func grantFilter(p *Principal, in *api.ListGrantsInput) action.GrantFilter {
	return action.GrantFilter{
		Organization: p.Organization, Session: in.Session, Scope: in.Scope, Source: in.Source, Action: in.Action, Usable: in.Usable, Limit: in.Limit, Cursor: in.Cursor,
	}
}

func (s *Server) listGrants(ctx context.Context, f action.GrantFilter) (api.List[api.GrantView], error) {
	page, all, err := s.grants(ctx, f)
	return pageOf(page, func(g action.Grant) api.GrantView { return api.GrantView{Grant: g, Name: sourceName(g.Source, all)} }), err
}

func (s *Server) grants(ctx context.Context, f action.GrantFilter) (action.Page[action.Grant], []action.Connector, error) {
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

func (s *Server) viewGrant(ctx context.Context, g action.Grant) (api.GrantView, error) {
	all, err := s.Sources.ListConnectors(ctx, g.Organization)
	return api.GrantView{Grant: g, Name: sourceName(g.Source, all)}, err
}

// terms reads what a grant is to cover, and leaves the rest of the checks to
// the Gate.
func (s *Server) terms(ctx context.Context, organization string, n api.NewTerms) (action.Terms, error) {
	t := action.Terms{Scope: scopeNameScope(n.Scope), Action: n.Action, Any: n.Any, Pins: n.Pins, MaxCalls: n.MaxCalls}
	var err error
	if t.ExpiresAt, err = lifetimeUntil(n.Lifetime, s.now()); err != nil || n.Source == "" {
		return t, err
	}
	t.Source, _, err = s.source(ctx, organization, n.Source)
	return t, placed(err, "/source")
}

// makeGrant leaves to the rows whether the session is one that this person may
// decide for.
func (s *Server) makeGrant(ctx context.Context, p *Principal, n api.NewGrant) (action.Grant, error) {
	t, err := s.terms(ctx, p.Organization, n.NewTerms)
	if err != nil {
		return action.Grant{}, err
	}
	g := action.Grant{Organization: p.Organization, Session: n.Session, Terms: t, CreatedBy: p.By()}
	if g.ToolHash, err = s.Gate.Terms(ctx, p.Organization, &g.Terms, n.Unreviewed); err != nil {
		return g, err
	}
	if g, err = s.Policy.CreateGrant(ctx, g); err != nil {
		return g, err
	}
	s.granted(ctx, p, &g)
	return g, nil
}

func (s *Server) granted(ctx context.Context, p *Principal, g *action.Grant) {
	s.changed(ctx, p, "grant made", "grant", g.ID, "scope", g.Scope, "source", g.Source, "action", g.Action, "invocation", g.Invocation, "request", g.Request)
}
