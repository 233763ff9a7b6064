package dashboard

import (
	"context"
	"errors"
	"net/http"

	"sallyport/action"
)

// NewCall is one request to run an action.
type NewCall struct {
	Source         string `json:"source" minLength:"1" maxLength:"200" doc:"Id of a source, or slug or name of a connector." example:"github"`
	Action         string `json:"action" minLength:"1" maxLength:"200" example:"create_issue"`
	Params         raw    `json:"params,omitempty" doc:"An object that fits the action's schema; default {}. A string that holds such an object is taken for it."`
	IdempotencyKey string `json:"idempotency_key,omitempty" maxLength:"255" doc:"The same key is the same call. The header Idempotency-Key says the same."`
}

// AvailableAction is an action as a session sees it.
type AvailableAction struct {
	Source       string       `json:"source_id"`
	SourceName   string       `json:"source_name"`
	Action       string       `json:"action" example:"create_issue"`
	Tool         string       `json:"tool,omitempty" doc:"Its name over MCP; absent: it is no tool, but how resources are read (resources/read) or prompts gotten (prompts/get)." example:"github_create_issue"`
	Title        string       `json:"title,omitempty"`
	Description  string       `json:"description,omitempty" doc:"The source's own words."`
	Risk         action.Risk  `json:"risk"`
	Mode         action.Mode  `json:"mode"`
	ModeSource   action.Layer `json:"mode_source"`
	InputSchema  raw          `json:"input_schema,omitempty"`
	OutputSchema raw          `json:"output_schema,omitempty"`
}

const (
	actionsPath = "/api/v1/sessions/{session}/actions"
	invokeDoc   = "Answers 200 with the invocation and the result when it ended, also when it failed: the invocation's status and error tell. " +
		"Answers 202 with the invocation when it is held or still runs; ?wait= waits for it. " +
		"Refused by policy or by a person: 403 with the invocation's id. Params that miss the schema: 400 with the field, and no invocation."
)

// InSession is the parameter of a route under a session.
type InSession struct {
	Session string `path:"session" example:"0199a3c4-5d6e-7f80-9123-456789abcdef"`
}

// InSessionByID is the same, about one invocation.
type InSessionByID struct {
	InSession
	ByID
}

// called is the answer of invoke, whose status tells whether it ended.
type called struct {
	Status int
	Body   Outcome
}

func (s *Server) actionRoutes() {
	register(s, route{
		method: "GET", path: actionsPath + "/available", tag: "actions", summary: "List what the session may call or ask for",
	}, func(ctx context.Context, p *Principal, in *InSession) (*body[List[AvailableAction]], error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return nil, err
		}
		list, _, err := s.Gate.Available(ctx, &session)
		views := make([]AvailableAction, len(list))
		for i, a := range list {
			views[i] = viewAvailable(a)
		}
		return listOf(views), err
	})
	register(s, route{
		method: "POST", path: actionsPath + "/invoke", tag: "actions", summary: "Call an action", status: http.StatusOK, doc: invokeDoc,
		errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		Patience
		Key  string `header:"Idempotency-Key" maxLength:"255"`
		Body NewCall
	},
	) (*called, error) {
		return s.invoke(ctx, p, in.Body, in.Key, in.Wait)
	})
	s.actionReads()
}

func (s *Server) actionReads() {
	const one = actionsPath + "/invocations/{id}"
	register(s, route{
		method: "GET", path: actionsPath + "/invocations", tag: "actions", summary: "List the session's invocations, newest first",
		doc: listDoc,
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		Paging
		Sought
	},
	) (*body[InvocationList], error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return nil, err
		}
		return s.listInvocations(ctx, p, in.Sought, AskedBy{Session: in.Session}, in.Paging)
	})
	register(s, route{
		method: "GET", path: one, tag: "actions", summary: "Read an invocation of the session",
	}, func(ctx context.Context, p *Principal, in *InSessionByID) (*body[InvocationView], error) {
		inv, err := s.ownInvocation(ctx, p, in.Session, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.view(ctx, p, inv)
		return bodyOf(v), err
	})
	register(s, route{
		method: "GET", path: one + "/result", tag: "actions", summary: "Fetch the full result while it may be picked up",
		doc: "200 with the outcome when it ended, 202 while it has not; ?wait= waits. After the pick-up time only the invocation is left, without result.",
	}, func(ctx context.Context, p *Principal, in *struct {
		InSessionByID
		Patience
	},
	) (*called, error) {
		return s.result(ctx, p, in.Session, in.ID, in.Wait)
	})
	s.sessionVerdicts(one)
}

// sessionVerdicts are approve and deny under the session's path, where the
// invocation must be the session's.
func (s *Server) sessionVerdicts(path string) {
	register(s, route{
		method: "POST", path: path + "/approve", tag: "actions", summary: "Approve a held call of the session", status: http.StatusOK,
		doc: approveDoc, errors: []int{http.StatusConflict, http.StatusGone},
	}, func(ctx context.Context, p *Principal, in *struct {
		InSessionByID
		Patience
		Body *Approval
	},
	) (*body[Outcome], error) {
		out, err := s.approve(ctx, p, in.Session, in.ID, in.Body, in.Wait)
		return bodyOf(out), err
	})
	register(s, route{
		method: "POST", path: path + "/deny", tag: "actions", summary: "Deny a held call of the session", status: http.StatusOK,
		errors: []int{http.StatusConflict, http.StatusGone},
	}, func(ctx context.Context, p *Principal, in *struct {
		InSessionByID
		Body *Denial
	},
	) (*body[Outcome], error) {
		out, err := s.deny(ctx, p, in.Body.verdict(in.Session, in.ID))
		return bodyOf(out), err
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
	inv, err := s.Invocations.Invocation(ctx, p.Organization, id)
	if err != nil {
		return inv, err
	}
	if inv.Session != session {
		return action.Invocation{}, action.Errorf(action.ErrNotFound, "no_such_invocation", "This session has no such invocation.")
	}
	return inv, nil
}

func (s *Server) invoke(ctx context.Context, p *Principal, n NewCall, header, wait string) (*called, error) {
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

func (s *Server) call(ctx context.Context, p *Principal, n NewCall, header, wait string) (action.Call, error) {
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
func (s *Server) answered(ctx context.Context, out *action.Outcome) (*called, error) {
	inv := out.Invocation
	onSent(ctx, func() { s.Gate.Delivered(out) })
	switch {
	case inv.Status == action.StatusDenied:
		return nil, refused(inv)
	case !inv.Status.Terminal():
		return &called{Status: http.StatusAccepted, Body: s.outcome(out)}, nil
	}
	return &called{Status: http.StatusOK, Body: s.outcome(out)}, nil
}

// refused is a denied call as an error.
func refused(inv action.Invocation) error {
	return &action.Error{Kind: action.ErrForbidden, Code: "denied", Message: refusedMessage(inv.DeniedReason, inv.DeniedNote), Invocation: inv.ID}
}

// refusedMessage says who refused a call, and the note that says why.
func refusedMessage(reason, note string) string {
	message := "Policy refuses this action; ask an owner or admin when it is needed."
	switch reason {
	case action.DeniedHuman:
		message = "A person denied this call."
	case action.DeniedRepeated:
		message = "A person denied this same call a short while ago; do not ask again, do something else."
	case action.DeniedOften:
		message = "People denied this action again and again in this session, so it is not asked again here; do something else."
	case action.DeniedWithdrawn:
		message = "The call was withdrawn before a person decided; nothing was executed."
		if note == "" {
			message = "The call was withdrawn because its caller cancelled it or left."
		}
	case action.DeniedQuota:
		message = "This session is at a limit of the gateway, so that nothing was executed; the same call may be made again later."
	}
	if note != "" {
		message += " Note: " + note
	}
	return message
}

func (s *Server) result(ctx context.Context, p *Principal, session, id, wait string) (*called, error) {
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
		return &called{Status: http.StatusAccepted, Body: Outcome{Invocation: s.shown(inv)}}, nil
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
		return &called{Status: status, Body: s.outcome(out)}, nil
	}
	return s.answered(ctx, out)
}

func viewAvailable(a action.Available) AvailableAction {
	return AvailableAction{
		Source: a.Source, SourceName: a.SourceName, Action: a.Name, Tool: a.Tool, Title: a.Title, Description: a.Description,
		Risk: a.Risk, Mode: a.Decision.Mode, ModeSource: a.Decision.Source, InputSchema: a.InputSchema, OutputSchema: a.OutputSchema,
	}
}
