package routes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	agents "sallyport/internal/agent"
	"sallyport/internal/guide"
	"sallyport/internal/jsonlex"
	"sallyport/internal/suggest"
)

func (s *handlers) actionRoutes() {
	dashboard.Handle(s.Server, api.ListAvailableActions, func(ctx context.Context, p *dashboard.Principal, in *api.ListAvailableActionsInput) (api.AvailableActions, error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return api.AvailableActions{}, err
		}
		list, _, err := s.Gate.Available(ctx, &session)
		if err != nil {
			return api.AvailableActions{}, err
		}
		key := func(a action.Available) string { return a.SourceName + "\x00" + a.Source + "\x00" + a.Name }
		list = slices.Clone(list) // it is shared
		slices.SortFunc(list, func(a, b action.Available) int { return strings.Compare(key(a), key(b)) })
		page, err := action.PageAfter(list, key, in.Cursor, in.Limit)
		return api.AvailableActions{List: view.PageOf(page, availableAction), Unreachable: s.outages(p.Organization)}, err
	})
	dashboard.HandleStatus(s.Server, api.Invoke, s.invoke)
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
	dashboard.HandleStatus(s.Server, api.GetSessionResult, s.result)
	dashboard.Handle(s.Server, api.ApproveSessionInvocation, func(ctx context.Context, p *dashboard.Principal, in *api.ApproveSessionInvocationInput) (api.Outcome, error) {
		return s.approve(ctx, p, in.Session, in.ID, in.Body, in.Wait)
	})
	dashboard.Handle(s.Server, api.DenySessionInvocation, func(ctx context.Context, p *dashboard.Principal, in *api.InSessionByIDWith[*api.Denial]) (api.Outcome, error) {
		return s.deny(ctx, p, denialVerdict(in.Body, in.Session, in.ID))
	})
}

func availableAction(a action.Available) api.AvailableAction {
	return api.AvailableAction{
		Source: a.Source, SourceName: a.SourceName, Action: a.Name, Tool: a.Tool, Title: a.Title, Description: a.Description,
		Risk: a.Risk, Mode: a.Decision.Mode, ModeSource: a.Decision.Source, InputSchema: a.InputSchema, OutputSchema: a.OutputSchema,
	}
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

func (s *handlers) invoke(ctx context.Context, p *dashboard.Principal, in *api.InvokeInput) (*dashboard.StatusResponse[api.Outcome], error) {
	call, err := s.call(ctx, p, in.Body, in.Key, in.Wait)
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
	var params json.RawMessage
	if err == nil {
		params, err = paramsObject(n.Params)
	}
	if err != nil {
		s.Gate.CountRefusal(p.Session, action.RefusedParams, "", n.Source+":"+n.Action)
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

func (s *handlers) result(ctx context.Context, p *dashboard.Principal, in *api.GetSessionResultInput) (*dashboard.StatusResponse[api.Outcome], error) {
	patience, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	row, err := s.sessionOf(ctx, p, in.Session)
	if err != nil {
		return nil, err
	}
	inv, err := s.ownInvocation(ctx, p, in.Session, in.ID)
	if err != nil {
		return nil, err
	}
	if !inv.Status.Terminal() && patience == 0 {
		return &dashboard.StatusResponse[api.Outcome]{Status: http.StatusAccepted, Body: api.Outcome{Invocation: s.withApprovalURL(inv)}}, nil
	}
	waitCtx, stop := s.UntilClosing(ctx)
	defer stop()
	out, err := s.Gate.Wait(waitCtx, &row, in.ID, action.Waiting{Patience: patience})
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
		if a.Provider != "" || a.Source == a.SourceName { // its ID is readable
			sources = append(sources, a.Source)
		} else {
			sources = append(sources, a.SourceName)
		}
	}
	if slices.Contains(actions, name) { // the action exists: something else was not found
		return ""
	}
	if len(actions) > 0 {
		return suggest.Sentence(name, actions)
	}
	return suggest.Sentence(source, sources)
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

func (s *handlers) toolRoutes() {
	dashboard.HandleStatus(s.Server, api.CallPlatformTool, s.callTool)
	dashboard.Handle(s.Server, api.GetGuide, func(ctx context.Context, p *dashboard.Principal, in *api.GetGuideInput) (api.GuideView, error) {
		return s.guide(ctx, p, in.Session, "", &in.OfGuide)
	})
	dashboard.Handle(s.Server, api.GetSourceGuide, func(ctx context.Context, p *dashboard.Principal, in *api.GetSourceGuideInput) (api.GuideView, error) {
		return s.guide(ctx, p, in.Session, in.Source, &in.OfGuide)
	})
	dashboard.Handle(s.Server, api.GetPrompt, func(ctx context.Context, p *dashboard.Principal, in *api.GetPromptInput) (api.PromptView, error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return api.PromptView{}, err
		}
		list, _, err := s.Gate.Available(ctx, &session)
		if err != nil {
			return api.PromptView{}, err
		}
		text, own := agents.SessionPrompt(&session, in.Type, s.hasTool(&session, list))
		return api.PromptView{Type: cmp.Or(in.Type, session.Type), Own: own, Text: text}, nil
	})
}

func (s *handlers) callTool(ctx context.Context, p *dashboard.Principal, in *api.CallPlatformToolInput) (*dashboard.StatusResponse[api.PlatformAnswer], error) {
	tool := in.Tool
	if in.Body.Session != p.Session.ID {
		return nil, &action.Error{Kind: action.ErrForbidden, Code: "other_session", Field: "/session_id", Message: "This token belongs to another session; name its own."}
	}
	patience, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	params, err := paramsObject(normalizeSettings(in.Body.Params))
	if err != nil {
		s.Gate.CountRefusal(p.Session, action.RefusedParams, action.Platform, tool)
		return nil, err
	}
	tool = strings.ReplaceAll(tool, ".", "_") // some clients write a dot where tool names have an underscore
	waitCtx, stop := s.UntilClosing(ctx)
	defer stop()
	out, err := s.Gate.Call(waitCtx, &action.Call{
		Session: *p.Session, Source: action.Platform, Action: tool, Params: params,
		IdempotencyKey: in.Body.ID, Waiting: action.Waiting{Patience: patience},
	})
	if err != nil {
		return nil, s.suggestions(ctx, p.Session, action.Platform, tool, view.ParamsError(err))
	}
	if out.Invocation.Status == action.StatusDenied {
		return nil, refusalResponse(out.Invocation)
	}
	dashboard.OnSent(ctx, func() { s.Gate.Delivered(out) })
	return platformAnswer(out), nil
}

// platformAnswer returns the result of a call in the form that platform tools
// expect.
func platformAnswer(out *action.Outcome) *dashboard.StatusResponse[api.PlatformAnswer] {
	inv := &out.Invocation
	a := api.PlatformAnswer{Success: inv.Status == action.StatusCompleted, Invocation: inv.ID, Status: string(inv.Status)}
	switch {
	case !inv.Status.Terminal():
		a.Result, a.ApprovalURL = "The call needs a person's approval. Wait for its result; do not call again.", inv.ApprovalURL
		return &dashboard.StatusResponse[api.PlatformAnswer]{Status: http.StatusAccepted, Body: a}
	case inv.Status == action.StatusExpired:
		a.Result = "Nobody approved the call in time, so it did not run. If it is still needed, call again with a new ID."
	case inv.Error != nil:
		a.Result = inv.Error.Message
	}
	var reply struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Data json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(out.Answer.Body, &reply) == nil && len(reply.Content) > 0 {
		a.Result, a.Data = reply.Content[0].Text, reply.Data
	}
	return &dashboard.StatusResponse[api.PlatformAnswer]{Status: http.StatusOK, Body: a}
}

func (s *handlers) guide(ctx context.Context, p *dashboard.Principal, id, source string, in *api.OfGuide) (api.GuideView, error) {
	session, err := s.sessionOf(ctx, p, id)
	if err != nil {
		return api.GuideView{}, err
	}
	if known, _, err := s.Source(ctx, p.Organization, source); err == nil && source != "" {
		source = known
	}
	var g guide.Guide
	if in.Denied {
		var snapshot action.Snapshot
		if snapshot, err = s.Snapshot(ctx, &session); err == nil {
			g, err = guide.DeniedActions(&snapshot, source, in.Cursor)
		}
	} else {
		g, err = s.allowedGuide(ctx, &session, guide.Request{Source: source, Action: in.Action, Cursor: in.Cursor})
	}
	return api.GuideView{Source: g.Source, Title: g.Title, Markdown: g.Markdown, Next: g.Next}, err
}

// allowedGuide returns the guide of what the session may call.
func (s *handlers) allowedGuide(ctx context.Context, session *action.Session, r guide.Request) (guide.Guide, error) {
	list, _, err := s.Gate.Available(ctx, session)
	if err != nil {
		return guide.Guide{}, err
	}
	denied, err := s.Gate.Denied(ctx, session)
	if err != nil {
		return guide.Guide{}, err
	}
	g, err := guide.For(list, denied, r, s.hasTool(session, list))
	return guide.WithOutages(g, err, r.Source, s.outages(session.Organization))
}

// hasTool returns a function that reports whether the session's agent has a
// tool.
func (s *handlers) hasTool(session *action.Session, list []action.Available) func(tool string) bool {
	var own []string
	if s.AgentTools != nil {
		own = s.AgentTools(session)
	}
	return func(tool string) bool {
		return slices.Contains(own, tool) || slices.ContainsFunc(list, func(a action.Available) bool { return a.Tool == tool })
	}
}

// outages returns the sources that cannot be reached.
func (s *handlers) outages(organization string) []action.Outage {
	if s.Outages == nil {
		return nil
	}
	return s.Outages(organization)
}
