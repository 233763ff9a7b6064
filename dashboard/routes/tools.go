package routes

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	agents "sallyport/internal/agent"
	"sallyport/internal/guide"
)

func (s *handlers) toolRoutes() {
	dashboard.HandleStatus(s.Server, api.CallPlatformTool, func(ctx context.Context, p *dashboard.Principal, in *api.CallPlatformToolInput) (*dashboard.StatusResponse[api.PlatformAnswer], error) {
		return s.callTool(ctx, p, in.Tool, in.Wait, in.Body)
	})
}

func (s *handlers) callTool(ctx context.Context, p *dashboard.Principal, tool, wait string, c api.PlatformCall) (*dashboard.StatusResponse[api.PlatformAnswer], error) {
	if c.Session != p.Session.ID {
		return nil, &action.Error{Kind: action.ErrForbidden, Code: "other_session", Field: "/session_id", Message: "This token belongs to another session; name its own."}
	}
	patience, err := parseWait(wait)
	if err != nil {
		return nil, err
	}
	params, err := paramsObject(normalizeSettings(c.Params))
	if err != nil {
		return nil, err
	}
	tool = strings.ReplaceAll(tool, ".", "_") // some clients write a dot where tool names have an underscore
	waitCtx, stop := s.UntilClosing(ctx)
	defer stop()
	out, err := s.Gate.Call(waitCtx, &action.Call{
		Session: *p.Session, Source: action.Platform, Action: tool, Params: params,
		IdempotencyKey: c.ID, Waiting: action.Waiting{Patience: patience},
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
		a.Result, a.ApprovalURL = "It waits for a person to approve it. Wait for its result; do not call again.", inv.ApprovalURL
		return &dashboard.StatusResponse[api.PlatformAnswer]{Status: http.StatusAccepted, Body: a}
	case inv.Status == action.StatusExpired:
		a.Result = "Nobody approved it in time, so it was not done. Call again, with a new id, if it is still needed."
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

func (s *handlers) guideRoutes() {
	dashboard.Handle(s.Server, api.GetGuide, func(ctx context.Context, p *dashboard.Principal, in *api.GetGuideInput) (api.GuideView, error) {
		return s.guide(ctx, p, in.Session, "", in.Action)
	})
	dashboard.Handle(s.Server, api.GetSourceGuide, func(ctx context.Context, p *dashboard.Principal, in *api.GetSourceGuideInput) (api.GuideView, error) {
		return s.guide(ctx, p, in.Session, in.Source, in.Action)
	})
	dashboard.Handle(s.Server, api.GetPrompt, func(ctx context.Context, p *dashboard.Principal, in *api.GetPromptInput) (api.PromptView, error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return api.PromptView{}, err
		}
		return s.prompt(ctx, &session, in.Type)
	})
}

func (s *handlers) guide(ctx context.Context, p *dashboard.Principal, id, source, name string) (api.GuideView, error) {
	session, err := s.sessionOf(ctx, p, id)
	if err != nil {
		return api.GuideView{}, err
	}
	list, _, err := s.Gate.Available(ctx, &session)
	if err != nil {
		return api.GuideView{}, err
	}
	if known, _, err := s.Source(ctx, p.Organization, source); err == nil && source != "" {
		source = known
	}
	g, err := guide.For(list, source, name, s.hasTool(&session, list))
	return api.GuideView{Source: g.Source, Title: g.Title, Markdown: g.Markdown}, err
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

// prompt returns the session's prompt of a type. An empty type is the session's
// own.
func (s *handlers) prompt(ctx context.Context, session *action.Session, t action.SessionType) (api.PromptView, error) {
	list, _, err := s.Gate.Available(ctx, session)
	if err != nil {
		return api.PromptView{}, err
	}
	text, own := agents.SessionPrompt(session, t, s.hasTool(session, list))
	return api.PromptView{Type: cmp.Or(t, session.Type), Own: own, Text: text}, nil
}
