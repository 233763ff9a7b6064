package routes

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

// coveringGrant is a grant in the list of those that cover a session, as p may see
// it.
func coveringGrant(v api.GrantView, p *dashboard.Principal) api.CoveringGrant {
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

func grantScope(w api.ScopeName) action.GrantScope {
	switch w {
	case "org":
		return action.ScopeOrganization
	case "":
		return action.ScopeSession
	}
	return action.GrantScope(w)
}

func (s *handlers) grantRoutes() {
	dashboard.Handle(s.Server, api.ListGrants, func(ctx context.Context, p *dashboard.Principal, in *api.ListGrantsInput) (api.List[api.GrantView], error) {
		page, all, err := s.Grants(ctx, view.GrantFilter(p, in))
		return view.PageOf(page, func(g action.Grant) api.GrantView {
			return api.GrantView{Grant: g, Name: view.SourceName(g.Source, all)}
		}), err
	})
	dashboard.Handle(s.Server, api.GetGrant, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.GrantView, error) {
		g, err := s.Policy.Grant(ctx, p.Organization, in.ID)
		if err != nil {
			return api.GrantView{}, err
		}
		return s.viewGrant(ctx, g)
	})
	dashboard.Handle(s.Server, api.ListSessionGrants, func(ctx context.Context, p *dashboard.Principal, in *api.ListSessionGrantsInput) (api.List[api.CoveringGrant], error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return api.List[api.CoveringGrant]{}, err
		}
		page, all, err := s.Grants(ctx, action.GrantFilter{Organization: p.Organization, Session: in.Session, Covering: true, Usable: true, Limit: in.Limit, Cursor: in.Cursor})
		return view.PageOf(page, func(g action.Grant) api.CoveringGrant {
			return coveringGrant(api.GrantView{Grant: g, Name: view.SourceName(g.Source, all)}, p)
		}), err
	})
	dashboard.Handle(s.Server, api.CreateGrant, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewGrant]) (api.GrantView, error) {
		g, err := s.createGrant(ctx, p, in.Body)
		if err != nil {
			return api.GrantView{}, err
		}
		return s.viewGrant(ctx, g)
	})
	dashboard.Handle(s.Server, api.RevokeGrant, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.GrantView, error) {
		g, err := s.Policy.RevokeGrant(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return api.GrantView{}, err
		}
		s.policyChanged(ctx, p, "grant revoked", "grant", g.ID)
		return s.viewGrant(ctx, g)
	})
}

func (s *handlers) viewGrant(ctx context.Context, g action.Grant) (api.GrantView, error) {
	all, err := s.Sources.ListConnectors(ctx, g.Organization)
	return api.GrantView{Grant: g, Name: view.SourceName(g.Source, all)}, err
}

// terms resolves the terms of a grant; the Gate checks them.
func (s *handlers) terms(ctx context.Context, organization string, n api.NewTerms) (action.Terms, error) {
	t := action.Terms{Scope: grantScope(n.Scope), Action: n.Action, Any: n.Any, Pins: n.Pins, MaxCalls: n.MaxCalls}
	var err error
	if t.ExpiresAt, err = lifetimeUntil(n.Lifetime, s.Now()); err != nil || n.Source == "" {
		return t, err
	}
	t.Source, _, err = s.Source(ctx, organization, n.Source)
	return t, view.AtField(err, "/source")
}

// createGrant creates a grant. The store refuses a session that this person may not
// decide for.
func (s *handlers) createGrant(ctx context.Context, p *dashboard.Principal, n api.NewGrant) (action.Grant, error) {
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
	s.grantCreated(ctx, p, &g)
	return g, nil
}

func (s *handlers) grantCreated(ctx context.Context, p *dashboard.Principal, g *action.Grant) {
	s.policyChanged(ctx, p, "grant created", "grant", g.ID, "scope", g.Scope, "source", g.Source, "action", g.Action, "invocation", g.Invocation, "request", g.Request)
}

const maxLifetime = 10 * 365 * 24 * time.Hour

// lifetimeUntil returns the end of a lifetime; nil: none.
func lifetimeUntil(l api.Lifetime, now time.Time) (*time.Time, error) {
	if l.ExpiresIn == "" {
		if l.ExpiresAt != nil && !now.Before(*l.ExpiresAt) {
			return nil, dashboard.Invalid("/expires_at", "expires_at must be in the future; leave it out for never.")
		}
		return l.ExpiresAt, nil
	}
	if l.ExpiresAt != nil {
		return nil, dashboard.Invalid("/expires_in", "Send expires_at or expires_in, not both.")
	}
	d, err := time.ParseDuration(l.ExpiresIn)
	if err != nil || d <= 0 || d > maxLifetime {
		return nil, dashboard.Invalid("/expires_in", "expires_in must be a duration above zero and up to 87600h, such as 90m or 24h.")
	}
	at := now.Add(d)
	return &at, nil
}

// fieldUnder prefixes the field of an error, as in /grant/scope.
func fieldUnder(err error, field string) error {
	e := action.Public(err)
	if e.Field == "" || e.Kind == nil {
		return err
	}
	return view.AtField(err, field+e.Field)
}

func (s *handlers) requestRoutes() {
	dashboard.Handle(s.Server, api.RequestGrant, func(ctx context.Context, p *dashboard.Principal, in *api.InSessionWith[api.NewRequest]) (api.RequestView, error) {
		n := in.Body
		t, err := s.terms(ctx, p.Organization, api.NewTerms{
			Scope: n.Scope, Source: n.Source, Action: n.Action, Any: n.Any, Pins: n.Pins, MaxCalls: n.MaxCalls, Lifetime: api.Lifetime{ExpiresIn: n.ExpiresIn},
		})
		if err != nil {
			return api.RequestView{}, err
		}
		if err := s.checkNeedsGrant(ctx, p.Session, &t); err != nil {
			return api.RequestView{}, err
		}
		r, err := s.RequestGrant(ctx, p.Session, t, n.Reason)
		if err != nil {
			return api.RequestView{}, err
		}
		return s.viewRequest(ctx, r)
	})
	dashboard.Handle(s.Server, api.ListGrantRequests, func(ctx context.Context, p *dashboard.Principal, in *api.ListGrantRequestsInput) (api.List[api.RequestView], error) {
		all, err := s.Sources.ListConnectors(ctx, p.Organization)
		if err != nil {
			return api.List[api.RequestView]{}, err
		}
		page, err := s.Policy.ListGrantRequests(ctx, action.RequestFilter{
			Organization: p.Organization, Session: in.Session, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor,
		})
		return view.PageOf(page, func(r action.GrantRequest) api.RequestView {
			return api.RequestView{GrantRequest: r, Name: view.SourceName(r.Terms.Source, all)}
		}), err
	})
	dashboard.Handle(s.Server, api.GetGrantRequest, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.RequestView, error) {
		r, err := s.Policy.GrantRequest(ctx, p.Organization, in.ID)
		if err != nil {
			return api.RequestView{}, err
		}
		return s.viewRequest(ctx, r)
	})
	dashboard.Handle(s.Server, api.ApproveGrantRequest, s.approveRequest)
	dashboard.Handle(s.Server, api.DenyGrantRequest, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.Refusal]) (api.RequestOutcome, error) {
		v := action.RequestVerdict{Organization: p.Organization, ID: in.ID, By: p.By()}
		if in.Body != nil {
			v.Note = in.Body.Reason
		}
		r, err := s.Policy.DenyRequest(ctx, v)
		if err != nil {
			return api.RequestOutcome{}, err
		}
		s.policyChanged(ctx, p, "grant request denied", "request", r.ID)
		view, err := s.viewRequest(ctx, r)
		return api.RequestOutcome{Request: view}, err
	})
}

// checkNeedsGrant refuses a request for one action that is already allowed or is
// denied: a grant would change nothing.
func (s *handlers) checkNeedsGrant(ctx context.Context, session *action.Session, t *action.Terms) error {
	if t.Any {
		return nil
	}
	e, err := s.Gate.Explain(ctx, session, t.Source, t.Action, nil)
	if err != nil {
		return s.suggestions(ctx, session, t.Source, t.Action, err)
	}
	switch e.Decision.Mode {
	case action.ModeAllow:
		return action.NewError("already_allowed")
	case action.ModeDeny:
		return action.Errorf(action.ErrForbidden, "denied", "Policy denies this action: %s A grant does not override a denial.", e.Decision.Why())
	case action.ModeRequireApproval:
	}
	return nil
}

func (s *handlers) approveRequest(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.Narrowing]) (api.RequestOutcome, error) {
	v := action.RequestVerdict{Organization: p.Organization, ID: in.ID, By: p.By()}
	r, err := s.Policy.GrantRequest(ctx, p.Organization, in.ID)
	if err != nil {
		return api.RequestOutcome{}, err
	}
	terms := r.Terms
	if in.Body != nil {
		if err := s.narrow(&terms, in.Body); err != nil {
			return api.RequestOutcome{}, err
		}
		v.Terms = &terms
	}
	if r.Status == action.RequestPending { // otherwise the store returns the reason
		if _, err := s.Gate.Terms(ctx, p.Organization, &terms, false); err != nil {
			if action.Public(err).Code == "tool_unreviewed" {
				err = action.Errorf(action.ErrConflict, "tool_unreviewed",
					"The tool changed since its review, so the request cannot be approved. Review the tool first, or create a grant with unreviewed for its current version.")
			}
			return api.RequestOutcome{}, err
		}
	}
	r, g, err := s.Policy.ApproveRequest(ctx, v)
	if err != nil {
		return api.RequestOutcome{}, err
	}
	s.grantCreated(ctx, p, &g)
	view, err := s.viewRequest(ctx, r)
	return api.RequestOutcome{Request: view, Grant: &api.GrantView{Grant: g, Name: view.Name}}, err
}

func (s *handlers) viewRequest(ctx context.Context, r action.GrantRequest) (api.RequestView, error) {
	all, err := s.Sources.ListConnectors(ctx, r.Organization)
	return api.RequestView{GrantRequest: r, Name: view.SourceName(r.Terms.Source, all)}, err
}

// narrow applies the approver's changes to the requested terms. The decision checks
// that they are narrower.
func (s *handlers) narrow(t *action.Terms, n *api.Narrowing) error {
	until, err := lifetimeUntil(n.Lifetime, s.Now())
	if err != nil {
		return err
	}
	if until != nil {
		t.ExpiresAt = until
	}
	if n.Scope != "" {
		t.Scope = grantScope(n.Scope)
	}
	if n.MaxCalls != nil {
		t.MaxCalls = n.MaxCalls
	}
	pins := maps.Clone(t.Pins)
	if pins == nil {
		pins = map[string]json.RawMessage{}
	}
	maps.Copy(pins, n.Pins)
	t.Pins = pins
	return nil
}
