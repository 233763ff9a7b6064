package routes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/internal/jsonlex"
	"sallyport/internal/suggest"
)

const (
	actionsPath = "/api/v1/sessions/{session}/actions"
	invokeDoc   = "Answers 200 with the invocation and the result when it ended, also when it failed: the invocation's status and error tell. " +
		"Answers 202 with the invocation when it is held or still runs; ?wait= waits for it. " +
		"Refused by policy or by a person: 403 with the invocation's id. Params that miss the schema: 400 with the field, and no invocation."
)

func (s *handlers) actionRoutes() {
	dashboard.Handle(s.Server, api.ListAvailableActions, func(ctx context.Context, p *dashboard.Principal, in *api.InSession) (api.List[api.AvailableAction], error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return api.List[api.AvailableAction]{}, err
		}
		list, _, err := s.Gate.Available(ctx, &session)
		views := make([]api.AvailableAction, len(list))
		for i, a := range list {
			views[i] = viewAvailable(a)
		}
		return view.ListOf(views), err
	})
	dashboard.HandleStatus(s.Server, api.Invoke, func(ctx context.Context, p *dashboard.Principal, in *api.InvokeInput) (*dashboard.StatusResponse[api.Outcome], error) {
		return s.invoke(ctx, p, in.Body, in.Key, in.Wait)
	})
	s.actionReads()
}

func (s *handlers) actionReads() {
	const one = actionsPath + "/invocations/{id}"
	dashboard.Handle(s.Server, api.ListSessionInvocations, func(ctx context.Context, p *dashboard.Principal, in *api.ListSessionInvocationsInput) (api.InvocationList, error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return api.InvocationList{}, err
		}
		return s.listInvocations(ctx, p, in.CallFilters, api.CallerFilters{Session: in.Session}, in.Paging)
	})
	dashboard.Handle(s.Server, api.GetSessionInvocation, func(ctx context.Context, p *dashboard.Principal, in *api.InSessionByID) (api.InvocationView, error) {
		inv, err := s.ownInvocation(ctx, p, in.Session, in.ID)
		if err != nil {
			return api.InvocationView{}, err
		}
		return s.viewInvocation(ctx, p, inv)
	})
	dashboard.HandleStatus(s.Server, api.GetSessionResult, func(ctx context.Context, p *dashboard.Principal, in *api.GetSessionResultInput) (*dashboard.StatusResponse[api.Outcome], error) {
		return s.result(ctx, p, in.Session, in.ID, in.Wait)
	})
	s.sessionVerdictRoutes(one)
}

// sessionVerdictRoutes mounts approve and deny below a session, to which the
// invocation must belong.
func (s *handlers) sessionVerdictRoutes(path string) {
	dashboard.Handle(s.Server, api.ApproveSessionInvocation, func(ctx context.Context, p *dashboard.Principal, in *api.ApproveSessionInvocationInput) (api.Outcome, error) {
		return s.approve(ctx, p, in.Session, in.ID, in.Body, in.Wait)
	})
	dashboard.Handle(s.Server, api.DenySessionInvocation, func(ctx context.Context, p *dashboard.Principal, in *api.InSessionByIDWith[*api.Denial]) (api.Outcome, error) {
		return s.deny(ctx, p, denialVerdict(in.Body, in.Session, in.ID))
	})
}

// sessionOf returns the session in the path: the principal's own, or any of the
// organization for a person.
func (s *handlers) sessionOf(ctx context.Context, p *dashboard.Principal, id string) (action.Session, error) {
	if p.Session != nil {
		return *p.Session, nil
	}
	return s.Session(ctx, p.Organization, id)
}

func (s *handlers) ownInvocation(ctx context.Context, p *dashboard.Principal, session, id string) (action.Invocation, error) {
	inv, err := s.Calls.Invocation(ctx, p.Organization, id)
	if err != nil {
		return inv, err
	}
	if inv.Session != session {
		return action.Invocation{}, action.NewError("no_such_invocation")
	}
	return inv, nil
}

func (s *handlers) invoke(ctx context.Context, p *dashboard.Principal, n api.NewCall, header, wait string) (*dashboard.StatusResponse[api.Outcome], error) {
	call, err := s.call(ctx, p, n, header, wait)
	if err != nil {
		return nil, err
	}
	waitCtx, stop := s.UntilClosing(ctx)
	defer stop()
	out, err := s.Gate.Call(waitCtx, &call)
	if err != nil {
		return nil, s.suggestions(ctx, &call.Session, call.Source, call.Action, view.ParamsError(err))
	}
	return s.respondCall(ctx, out)
}

func (s *handlers) call(ctx context.Context, p *dashboard.Principal, n api.NewCall, header, wait string) (action.Call, error) {
	patience, err := parseWait(wait)
	if err != nil {
		return action.Call{}, err
	}
	key, err := idempotencyKey(n.IdempotencyKey, header)
	if err != nil {
		return action.Call{}, err
	}
	params, err := paramsObject(n.Params)
	if err != nil {
		return action.Call{}, err
	}
	source := n.Source
	if id, _, err := s.Source(ctx, p.Organization, source); err == nil {
		source = id
	}
	return action.Call{
		Session: *p.Session, Source: source, Action: n.Action, Params: params,
		IdempotencyKey: key, Waiting: action.Waiting{Patience: patience},
	}, nil
}

// respondCall maps an outcome to a status, and tells the Gate once the client has
// received it.
func (s *handlers) respondCall(ctx context.Context, out *action.Outcome) (*dashboard.StatusResponse[api.Outcome], error) {
	inv := out.Invocation
	dashboard.OnSent(ctx, func() { s.Gate.Delivered(out) })
	switch {
	case inv.Status == action.StatusDenied:
		return nil, refusalResponse(inv)
	case !inv.Status.Terminal():
		return &dashboard.StatusResponse[api.Outcome]{Status: http.StatusAccepted, Body: s.outcome(out)}, nil
	}
	return &dashboard.StatusResponse[api.Outcome]{Status: http.StatusOK, Body: s.outcome(out)}, nil
}

// refusalResponse returns the error of a denied call.
func refusalResponse(inv action.Invocation) error {
	return action.Errorf(action.ErrForbidden, "denied", "%s", inv.Refusal("a while")).WithInvocation(inv.ID)
}

func (s *handlers) result(ctx context.Context, p *dashboard.Principal, session, id, wait string) (*dashboard.StatusResponse[api.Outcome], error) {
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
		return &dashboard.StatusResponse[api.Outcome]{Status: http.StatusAccepted, Body: api.Outcome{Invocation: s.withApprovalURL(inv)}}, nil
	}
	waitCtx, stop := s.UntilClosing(ctx)
	defer stop()
	out, err := s.Gate.Wait(waitCtx, &row, id, action.Waiting{Patience: patience})
	if err != nil {
		return nil, err
	}
	if p.Session == nil { // a person who views the call is not its waiting caller
		status := http.StatusOK
		if !out.Invocation.Status.Terminal() {
			status = http.StatusAccepted
		}
		return &dashboard.StatusResponse[api.Outcome]{Status: status, Body: s.outcome(out)}, nil
	}
	return s.respondCall(ctx, out)
}

func viewAvailable(a action.Available) api.AvailableAction {
	return api.AvailableAction{
		Source: a.Source, SourceName: a.SourceName, Action: a.Name, Tool: a.Tool, Title: a.Title, Description: a.Description,
		Risk: a.Risk, Mode: a.Decision.Mode, ModeSource: a.Decision.Source, InputSchema: a.InputSchema, OutputSchema: a.OutputSchema,
	}
}

// suggestions adds similar names to the error of a call to an unknown action, from
// those that the caller may use.
func (s *handlers) suggestions(ctx context.Context, session *action.Session, source, name string, err error) error {
	var e *action.Error
	if !errors.Is(err, action.ErrNotFound) || !errors.As(err, &e) {
		return err
	}
	list, _, missing := s.Gate.Available(ctx, session)
	if missing != nil {
		return err
	}
	out := *e
	out.Message += suggestActions(list, source, name)
	return &out
}

// suggestActions returns similar action names of the source, or similar source
// names if the source is unknown.
func suggestActions(list []action.Available, source, name string) string {
	var actions, sources []string
	for _, a := range list {
		if a.Source == source && a.Tool != "" {
			actions = append(actions, a.Name)
		}
		sources = append(sources, sourceNames(a)...)
	}
	if slices.Contains(actions, name) { // the action exists: something else was not found
		return ""
	}
	if len(actions) > 0 {
		return suggest.Sentence(name, actions)
	}
	return suggest.Sentence(source, sources)
}

// sourceNames returns the names by which an agent may refer to a source: its name,
// and its ID if that is readable.
func sourceNames(a action.Available) []string {
	if a.Provider != "" || a.Source == a.SourceName {
		return []string{a.Source}
	}
	return []string{a.SourceName}
}

// paramsObject returns params as an object: some models encode them as a string.
func paramsObject(params json.RawMessage) (json.RawMessage, error) {
	if jsonlex.Kind(params) != "a string" {
		return params, nil // the Gate reports any other type
	}
	text := params[jsonlex.Space(params, 0):]
	inner, ok := jsonlex.Object(text)
	if !ok {
		return nil, action.Errorf(action.ErrInvalid, "invalid_params",
			"%s", "params must be a JSON object such as {}, but "+jsonlex.NoObject(text)+".").WithField("/params")
	}
	return inner, nil
}
