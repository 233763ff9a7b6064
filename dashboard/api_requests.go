package dashboard

import (
	"context"
	"encoding/json"
	"maps"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) requestRoutes() {
	handle(s, api.RequestGrant, func(ctx context.Context, p *Principal, in *api.InSessionWith[api.NewRequest]) (api.RequestView, error) {
		n := in.Body
		t, err := s.terms(ctx, p.Organization, api.NewTerms{
			Scope: n.Scope, Source: n.Source, Action: n.Action, Any: n.Any, Pins: n.Pins, MaxCalls: n.MaxCalls, Lifetime: api.Lifetime{ExpiresIn: n.ExpiresIn},
		})
		if err != nil {
			return api.RequestView{}, err
		}
		if err := s.worthAsking(ctx, p.Session, &t); err != nil {
			return api.RequestView{}, err
		}
		r, err := s.RequestGrant(ctx, p.Session, t, n.Reason)
		if err != nil {
			return api.RequestView{}, err
		}
		return s.viewRequest(ctx, r)
	})
	handle(s, api.ListGrantRequests, func(ctx context.Context, p *Principal, in *api.ListGrantRequestsInput) (api.List[api.RequestView], error) {
		all, err := s.Sources.ListConnectors(ctx, p.Organization)
		if err != nil {
			return api.List[api.RequestView]{}, err
		}
		page, err := s.Policy.ListGrantRequests(ctx, action.RequestFilter{
			Organization: p.Organization, Session: in.Session, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor,
		})
		return pageOf(page, func(r action.GrantRequest) api.RequestView {
			return api.RequestView{GrantRequest: r, Name: sourceName(r.Terms.Source, all)}
		}), err
	})
	handle(s, api.GetGrantRequest, func(ctx context.Context, p *Principal, in *api.ByID) (api.RequestView, error) {
		r, err := s.Policy.GrantRequest(ctx, p.Organization, in.ID)
		if err != nil {
			return api.RequestView{}, err
		}
		return s.viewRequest(ctx, r)
	})
	s.requestVerdicts("/api/v1/grant-requests/{id}")
}

// worthAsking refuses a wish for one action that a person need not decide about:
// his attention is short.
func (s *Server) worthAsking(ctx context.Context, session *action.Session, t *action.Terms) error {
	if t.Any {
		return nil
	}
	e, err := s.Gate.Explain(ctx, session, t.Source, t.Action, nil)
	if err != nil {
		return s.suggested(ctx, session, t.Source, t.Action, err)
	}
	switch e.Decision.Mode {
	case action.ModeAllow:
		return action.NewError("already_allowed")
	case action.ModeDeny:
		return action.Errorf(action.ErrForbidden, "denied", "Policy denies this action: %s A grant lifts no denial.", e.Decision.Why())
	case action.ModeRequireApproval:
	}
	return nil
}

func (s *Server) requestVerdicts(path string) {
	handle(s, api.ApproveGrantRequest, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.Narrowing]) (api.RequestOutcome, error) {
		return s.approveRequest(ctx, p, in.ID, in.Body)
	})
	handle(s, api.DenyGrantRequest, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.Refusal]) (api.RequestOutcome, error) {
		v := action.RequestVerdict{Organization: p.Organization, ID: in.ID, By: p.By()}
		if in.Body != nil {
			v.Note = in.Body.Reason
		}
		r, err := s.Policy.DenyRequest(ctx, v)
		if err != nil {
			return api.RequestOutcome{}, err
		}
		s.changed(ctx, p, "grant refused", "request", r.ID)
		view, err := s.viewRequest(ctx, r)
		return api.RequestOutcome{Request: view}, err
	})
}

func (s *Server) approveRequest(ctx context.Context, p *Principal, id string, n *api.Narrowing) (api.RequestOutcome, error) {
	v := action.RequestVerdict{Organization: p.Organization, ID: id, By: p.By()}
	r, err := s.Policy.GrantRequest(ctx, p.Organization, id)
	if err != nil {
		return api.RequestOutcome{}, err
	}
	terms := r.Terms
	if n != nil {
		if err := s.narrow(&terms, n); err != nil {
			return api.RequestOutcome{}, err
		}
		v.Terms = &terms
	}
	if r.Status == action.RequestPending { // of any other, the rows say why not
		if _, err := s.Gate.Terms(ctx, p.Organization, &terms, false); err != nil {
			return api.RequestOutcome{}, ofRequest(err)
		}
	}
	r, g, err := s.Policy.ApproveRequest(ctx, v)
	if err != nil {
		return api.RequestOutcome{}, err
	}
	s.granted(ctx, p, &g)
	view, err := s.viewRequest(ctx, r)
	return api.RequestOutcome{Request: view, Grant: &api.GrantView{Grant: g, Name: view.Name}}, err
}

// ofRequest says of a tool that nobody looked at what helps with a request:
// what was asked is for the tool as it was then.
func ofRequest(err error) error {
	if action.Public(err).Code != "tool_unreviewed" {
		return err
	}
	return action.Errorf(action.ErrConflict, "tool_unreviewed",
		"The tool is not as it was reviewed, so nothing is granted as it was asked. Review the tool first; or make a grant of your own, with unreviewed, for the tool as it is now.")
}

func (s *Server) viewRequest(ctx context.Context, r action.GrantRequest) (api.RequestView, error) {
	all, err := s.Sources.ListConnectors(ctx, r.Organization)
	return api.RequestView{GrantRequest: r, Name: sourceName(r.Terms.Source, all)}, err
}

// narrow applies what a person says to what was asked. Whether that is
// narrower is told where the request is decided.
func (s *Server) narrow(t *action.Terms, n *api.Narrowing) error {
	until, err := lifetimeUntil(n.Lifetime, s.now())
	if err != nil {
		return err
	}
	if until != nil {
		t.ExpiresAt = until
	}
	if n.Scope != "" {
		t.Scope = scopeNameScope(n.Scope)
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
