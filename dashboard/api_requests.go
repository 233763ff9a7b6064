package dashboard

import (
	"context"
	"maps"
	"net/http"

	"sallyport/action"
)

// NewRequest is an agent's wish for a grant.
type NewRequest struct {
	Scope     wishedScope    `json:"scope,omitempty" enum:"session,organization,org" doc:"Default session." example:"session"`
	Source    string         `json:"source,omitempty" maxLength:"200" example:"github"`
	Action    string         `json:"action,omitempty" maxLength:"200" example:"create_issue"`
	Any       bool           `json:"any,omitempty"`
	Pins      map[string]raw `json:"pins,omitempty" doc:"Params that are to have exactly these values, by JSON Pointer."`
	MaxCalls  *int64         `json:"max_calls,omitempty" minimum:"1" example:"5"`
	ExpiresIn string         `json:"expires_in,omitempty" maxLength:"40" example:"8h"`
	Reason    string         `json:"reason,omitempty" maxLength:"1000" doc:"A person reads it." example:"Filing the twelve bugs that the audit found."`
}

// Narrowing is what a person allows of a request. Fields that are absent stay
// as they were asked; none may be wider.
type Narrowing struct {
	Scope    wishedScope    `json:"scope,omitempty" enum:"session,organization,org"`
	MaxCalls *int64         `json:"max_calls,omitempty" minimum:"1"`
	Pins     map[string]raw `json:"pins,omitempty" doc:"Beside those that were asked for."`
	Lifetime
}

// RequestView is one request.
type RequestView struct {
	action.GrantRequest
	Name string `json:"name,omitempty" doc:"Of the source, as people write it." example:"github"`
}

// RequestOutcome is a request that was decided, and what came of it.
type RequestOutcome struct {
	Request RequestView `json:"request"`
	Grant   *GrantView  `json:"grant,omitempty"`
}

// Refusal is what a person says with a no to a request.
type Refusal struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"The agent reads it." example:"Ask for one issue at a time."`
}

func (s *Server) requestRoutes() {
	register(s, route{
		method: "POST", path: actionsPath + "/grants", tag: "actions", summary: "Ask for a grant", status: http.StatusAccepted,
		doc:    "A person decides; nothing is granted before. Nobody is asked for what is denied anyway (403, `denied`), or runs without a grant (409, `already_allowed`).",
		errors: []int{http.StatusConflict, http.StatusTooManyRequests},
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		Body NewRequest
	},
	) (*body[RequestView], error) {
		n := in.Body
		t, err := s.terms(ctx, p.Organization, NewTerms{
			Scope: n.Scope, Source: n.Source, Action: n.Action, Any: n.Any, Pins: n.Pins, MaxCalls: n.MaxCalls, Lifetime: Lifetime{ExpiresIn: n.ExpiresIn},
		})
		if err != nil {
			return nil, err
		}
		if err := s.worthAsking(ctx, p.Session, &t); err != nil {
			return nil, err
		}
		r, err := s.RequestGrant(ctx, p.Session, t, n.Reason)
		if err != nil {
			return nil, err
		}
		v, err := s.viewRequest(ctx, r)
		return bodyOf(v), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/grant-requests", tag: "grants", summary: "List agents' requests for grants, newest first",
	}, func(ctx context.Context, p *Principal, in *struct {
		Paging
		Status  action.RequestStatus `query:"status" enum:"pending,approved,denied,expired"`
		Session string               `query:"session"`
	},
	) (*body[List[RequestView]], error) {
		all, err := s.Connectors.ListConnectors(ctx, p.Organization)
		if err != nil {
			return nil, err
		}
		page, err := s.Requests.ListGrantRequests(ctx, action.RequestFilter{
			Organization: p.Organization, Session: in.Session, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor,
		})
		return pageOf(page, func(r action.GrantRequest) RequestView { return RequestView{r, sourceName(r.Terms.Source, all)} }), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/grant-requests/{id}", tag: "grants", summary: "Read a request for a grant",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[RequestView], error) {
		r, err := s.Requests.GrantRequest(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.viewRequest(ctx, r)
		return bodyOf(v), err
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
		return action.Errorf(action.ErrConflict, "already_allowed", "This action runs without asking as it is, so there is nothing to grant; just call it.")
	case action.ModeDeny:
		return action.Errorf(action.ErrForbidden, "denied", "%s A grant lifts no denial.", refusedMessage("", e.Decision.Why()))
	case action.ModeRequireApproval:
	}
	return nil
}

func (s *Server) requestVerdicts(path string) {
	late := []int{http.StatusConflict, http.StatusGone}
	register(s, route{
		method: "POST", path: path + "/approve", tag: "grants", summary: "Grant what was asked, or less", status: http.StatusOK, errors: late,
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *Narrowing
	},
	) (*body[RequestOutcome], error) {
		out, err := s.approveRequest(ctx, p, in.ID, in.Body)
		return bodyOf(out), err
	})
	register(s, route{
		method: "POST", path: path + "/deny", tag: "grants", summary: "Refuse a request for a grant", status: http.StatusOK, errors: late,
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *Refusal
	},
	) (*body[RequestOutcome], error) {
		v := action.RequestVerdict{Organization: p.Organization, ID: in.ID, By: p.By()}
		if in.Body != nil {
			v.Note = in.Body.Reason
		}
		r, err := s.Requests.DenyRequest(ctx, v)
		if err != nil {
			return nil, err
		}
		s.changed(ctx, p, "grant refused", "request", r.ID)
		view, err := s.viewRequest(ctx, r)
		return bodyOf(RequestOutcome{Request: view}), err
	})
}

func (s *Server) approveRequest(ctx context.Context, p *Principal, id string, n *Narrowing) (RequestOutcome, error) {
	v := action.RequestVerdict{Organization: p.Organization, ID: id, By: p.By()}
	r, err := s.Requests.GrantRequest(ctx, p.Organization, id)
	if err != nil {
		return RequestOutcome{}, err
	}
	terms := r.Terms
	if n != nil {
		if err := s.narrow(&terms, n); err != nil {
			return RequestOutcome{}, err
		}
		v.Terms = &terms
	}
	if r.Status == action.RequestPending { // of any other, the rows say why not
		if _, err := s.Gate.Terms(ctx, p.Organization, &terms, false); err != nil {
			return RequestOutcome{}, ofRequest(err)
		}
	}
	r, g, err := s.Requests.ApproveRequest(ctx, v)
	if err != nil {
		return RequestOutcome{}, err
	}
	s.granted(ctx, p, &g)
	view, err := s.viewRequest(ctx, r)
	return RequestOutcome{Request: view, Grant: &GrantView{g, view.Name}}, err
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

func (s *Server) viewRequest(ctx context.Context, r action.GrantRequest) (RequestView, error) {
	all, err := s.Connectors.ListConnectors(ctx, r.Organization)
	return RequestView{r, sourceName(r.Terms.Source, all)}, err
}

// narrow applies what a person says to what was asked. Whether that is
// narrower is told where the request is decided.
func (s *Server) narrow(t *action.Terms, n *Narrowing) error {
	until, err := n.until(s.now())
	if err != nil {
		return err
	}
	if until != nil {
		t.ExpiresAt = until
	}
	if n.Scope != "" {
		t.Scope = n.Scope.scope()
	}
	if n.MaxCalls != nil {
		t.MaxCalls = n.MaxCalls
	}
	pins := maps.Clone(t.Pins)
	if pins == nil {
		pins = map[string]raw{}
	}
	maps.Copy(pins, n.Pins)
	t.Pins = pins
	return nil
}
