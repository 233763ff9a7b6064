package dashboard

import (
	"context"
	"errors"
	"net/http"

	"sallyport/action"
	"sallyport/api"
)

const (
	actionsPath = "/api/v1/sessions/{session}/actions"
	invokeDoc   = "Answers 200 with the invocation and the result when it ended, also when it failed: the invocation's status and error tell. " +
		"Answers 202 with the invocation when it is held or still runs; ?wait= waits for it. " +
		"Refused by policy or by a person: 403 with the invocation's id. Params that miss the schema: 400 with the field, and no invocation."
)

func (s *Server) actionRoutes() {
	handle(s, api.ListAvailableActions, func(ctx context.Context, p *Principal, in *api.InSession) (api.List[api.AvailableAction], error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return api.List[api.AvailableAction]{}, err
		}
		list, _, err := s.Gate.Available(ctx, &session)
		views := make([]api.AvailableAction, len(list))
		for i, a := range list {
			views[i] = viewAvailable(a)
		}
		return listOf(views), err
	})
	handleCoded(s, api.Invoke, func(ctx context.Context, p *Principal, in *api.InvokeInput) (*coded[api.Outcome], error) {
		return s.invoke(ctx, p, in.Body, in.Key, in.Wait)
	})
	s.actionReads()
}

func (s *Server) actionReads() {
	const one = actionsPath + "/invocations/{id}"
	handle(s, api.ListSessionInvocations, func(ctx context.Context, p *Principal, in *api.ListSessionInvocationsInput) (api.InvocationList, error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return api.InvocationList{}, err
		}
		return s.listInvocations(ctx, p, in.Sought, api.AskedBy{Session: in.Session}, in.Paging)
	})
	handle(s, api.GetSessionInvocation, func(ctx context.Context, p *Principal, in *api.InSessionByID) (api.InvocationView, error) {
		inv, err := s.ownInvocation(ctx, p, in.Session, in.ID)
		if err != nil {
			return api.InvocationView{}, err
		}
		return s.view(ctx, p, inv)
	})
	handleCoded(s, api.GetSessionResult, func(ctx context.Context, p *Principal, in *api.GetSessionResultInput) (*coded[api.Outcome], error) {
		return s.result(ctx, p, in.Session, in.ID, in.Wait)
	})
	s.sessionVerdicts(one)
}

// sessionVerdicts are approve and deny under the session's path, where the
// invocation must be the session's.
func (s *Server) sessionVerdicts(path string) {
	handle(s, api.ApproveSessionInvocation, func(ctx context.Context, p *Principal, in *api.ApproveSessionInvocationInput) (api.Outcome, error) {
		return s.approve(ctx, p, in.Session, in.ID, in.Body, in.Wait)
	})
	handle(s, api.DenySessionInvocation, func(ctx context.Context, p *Principal, in *api.InSessionByIDWith[*api.Denial]) (api.Outcome, error) {
		return s.deny(ctx, p, denialVerdict(in.Body, in.Session, in.ID))
	})
}

// sessionOf returns the session of a path: the principal's own, or one of the
// person's organization.
func (s *Server) sessionOf(ctx context.Context, p *Principal, id string) (action.Session, error) {
	if p.Session != nil {
		return *p.Session, nil
	}
	return s.session(ctx, p.Organization, id)
}

func (s *Server) ownInvocation(ctx context.Context, p *Principal, session, id string) (action.Invocation, error) {
	inv, err := s.Calls.Invocation(ctx, p.Organization, id)
	if err != nil {
		return inv, err
	}
	if inv.Session != session {
		return action.Invocation{}, action.NewError("no_such_invocation")
	}
	return inv, nil
}

func (s *Server) invoke(ctx context.Context, p *Principal, n api.NewCall, header, wait string) (*coded[api.Outcome], error) {
	call, err := s.call(ctx, p, n, header, wait)
	if err != nil {
		return nil, err
	}
	waitCtx, stop := s.untilClosing(ctx)
	defer stop()
	out, err := s.Gate.Call(waitCtx, &call)
	if err != nil {
		return nil, s.suggested(ctx, &call.Session, call.Source, call.Action, inBody(err))
	}
	return s.answered(ctx, out)
}

// inBody turns the pointer into the params, which a check of them names, into
// one into the body.
func inBody(err error) error {
	var e *action.Error
	if !errors.As(err, &e) || (e.Code != "invalid_params" && e.Code != "invalid_json") {
		return err
	}
	out := *e
	out.Field = "/params" + e.Field
	return &out
}

func (s *Server) call(ctx context.Context, p *Principal, n api.NewCall, header, wait string) (action.Call, error) {
	patience, err := parseWait(wait)
	if err != nil {
		return action.Call{}, err
	}
	key, err := oneKey(n.IdempotencyKey, header)
	if err != nil {
		return action.Call{}, err
	}
	params, err := object(n.Params)
	if err != nil {
		return action.Call{}, err
	}
	source := n.Source
	if id, _, err := s.source(ctx, p.Organization, source); err == nil {
		source = id
	}
	return action.Call{
		Session: *p.Session, Source: source, Action: n.Action, Params: params,
		IdempotencyKey: key, Waiting: action.Waiting{Patience: patience},
	}, nil
}

// answered gives an outcome its status, and has the Gate told when the client
// took it.
func (s *Server) answered(ctx context.Context, out *action.Outcome) (*coded[api.Outcome], error) {
	inv := out.Invocation
	onSent(ctx, func() { s.Gate.Delivered(out) })
	switch {
	case inv.Status == action.StatusDenied:
		return nil, refused(inv)
	case !inv.Status.Terminal():
		return &coded[api.Outcome]{Status: http.StatusAccepted, Body: s.outcome(out)}, nil
	}
	return &coded[api.Outcome]{Status: http.StatusOK, Body: s.outcome(out)}, nil
}

// refused is a denied call as an error.
func refused(inv action.Invocation) error {
	return action.Errorf(action.ErrForbidden, "denied", "%s", inv.Refusal("a while")).WithInvocation(inv.ID)
}

func (s *Server) result(ctx context.Context, p *Principal, session, id, wait string) (*coded[api.Outcome], error) {
	patience, err := parseWait(wait)
	if err != nil {
		return nil, err
	}
	row, err := s.sessionOf(ctx, p, session)
	if err != nil {
		return nil, err
	}
	inv, err := s.ownInvocation(ctx, p, session, id)
	if err != nil {
		return nil, err
	}
	if !inv.Status.Terminal() && patience == 0 {
		return &coded[api.Outcome]{Status: http.StatusAccepted, Body: api.Outcome{Invocation: s.shown(inv)}}, nil
	}
	waitCtx, stop := s.untilClosing(ctx)
	defer stop()
	out, err := s.Gate.Wait(waitCtx, &row, id, action.Waiting{Patience: patience})
	if err != nil {
		return nil, err
	}
	if p.Session == nil { // a person who looks is not the caller who waits
		status := http.StatusOK
		if !out.Invocation.Status.Terminal() {
			status = http.StatusAccepted
		}
		return &coded[api.Outcome]{Status: status, Body: s.outcome(out)}, nil
	}
	return s.answered(ctx, out)
}

func viewAvailable(a action.Available) api.AvailableAction {
	return api.AvailableAction{
		Source: a.Source, SourceName: a.SourceName, Action: a.Name, Tool: a.Tool, Title: a.Title, Description: a.Description,
		Risk: a.Risk, Mode: a.Decision.Mode, ModeSource: a.Decision.Source, InputSchema: a.InputSchema, OutputSchema: a.OutputSchema,
	}
}
