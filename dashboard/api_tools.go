package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) toolRoutes() {
	handleCoded(s, api.CallPlatformTool, func(ctx context.Context, p *Principal, in *api.CallPlatformToolInput) (*coded[api.PlatformAnswer], error) {
		return s.callTool(ctx, p, in.Tool, in.Wait, in.Body)
	})
}

func (s *Server) callTool(ctx context.Context, p *Principal, tool, wait string, c api.PlatformCall) (*coded[api.PlatformAnswer], error) {
	if c.Session != p.Session.ID {
		return nil, &action.Error{Kind: action.ErrForbidden, Code: "other_session", Field: "/session_id", Message: "This token belongs to another session; name its own."}
	}
	patience, err := parseWait(wait)
	if err != nil {
		return nil, err
	}
	params, err := object(settled(c.Params))
	if err != nil {
		return nil, err
	}
	tool = strings.ReplaceAll(tool, ".", "_") // some stubs write a dot in the name where tools have none
	waitCtx, stop := s.untilClosing(ctx)
	defer stop()
	out, err := s.Gate.Call(waitCtx, &action.Call{
		Session: *p.Session, Source: action.Platform, Action: tool, Params: params,
		IdempotencyKey: c.ID, Waiting: action.Waiting{Patience: patience},
	})
	if err != nil {
		return nil, s.suggested(ctx, p.Session, action.Platform, tool, inBody(err))
	}
	if out.Invocation.Status == action.StatusDenied {
		return nil, refused(out.Invocation)
	}
	onSent(ctx, func() { s.Gate.Delivered(out) })
	return platformAnswer(out), nil
}

// platformAnswer tells what became of a call in the words of tools.
func platformAnswer(out *action.Outcome) *coded[api.PlatformAnswer] {
	inv := &out.Invocation
	a := api.PlatformAnswer{Success: inv.Status == action.StatusCompleted, Invocation: inv.ID, Status: string(inv.Status)}
	switch {
	case !inv.Status.Terminal():
		a.Result, a.ApprovalURL = "It waits for a person to approve it. Wait for its result; do not call again.", inv.ApprovalURL
		return &coded[api.PlatformAnswer]{Status: http.StatusAccepted, Body: a}
	case inv.Status == action.StatusExpired:
		a.Result = "Nobody approved it in time, so it was not done. Call again, with a new id, if it is still needed."
	case inv.Error != nil:
		a.Result = inv.Error.Message
	}
	var said struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Data json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(out.Answer.Body, &said) == nil && len(said.Content) > 0 {
		a.Result, a.Data = said.Content[0].Text, said.Data
	}
	return &coded[api.PlatformAnswer]{Status: http.StatusOK, Body: a}
}
