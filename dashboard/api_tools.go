package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"sallyport/action"
)

// PlatformCall is one call of a tool of the gateway's own, by a stub in a sandbox.
type PlatformCall struct {
	Session string `json:"session_id" minLength:"1" maxLength:"80" doc:"The token's own."`
	ID      string `json:"tool_call_id" minLength:"1" maxLength:"255" doc:"Of this call of the model's: the same one again is answered the same again, and not done again." example:"call_01"`
	Params  raw    `json:"params,omitempty" doc:"An object that fits the tool's schema, or a string that holds one as JSON; default {}."`
}

// PlatformAnswer is what a tool of the gateway's own answered.
type PlatformAnswer struct {
	Success     bool   `json:"success" doc:"False: it was not done; result says why, or that it waits for a person."`
	Result      string `json:"result" doc:"For the model." example:"Saved 2 commands in the setup \"default\", in the place of what was there."`
	Data        raw    `json:"data,omitempty" doc:"For programs; of what was not done, with a code."`
	Invocation  string `json:"invocation" doc:"Its invocation, whose result can be waited for."`
	Status      string `json:"status" enum:"completed,failed,expired,pending,approved,executing"`
	ApprovalURL string `json:"approval_url,omitempty" doc:"Where a person decides, while it is held."`
}

type platformAnswered struct {
	Status int
	Body   PlatformAnswer
}

const toolDoc = "The gateway's own tools, for stubs that speak HTTP, with the rules of every call: schema, policy, rows. " +
	"Repeat a request that got no answer, or 502 or 503, with the same tool_call_id: it is done once. The same id with other params is refused (409), and a quota that is used up too (429, with Retry-After). " +
	"A call that the organization holds answers 202; ?wait= waits for it, and so does .../invocations/{id}/result."

func (s *Server) toolRoutes() {
	register(s, route{
		method: "POST", path: "/internal/tools/{tool}", tag: "actions", summary: "Call a tool of the gateway's own", status: http.StatusOK, doc: toolDoc,
		errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *struct {
		Tool string `path:"tool" maxLength:"64" example:"automation_complete"`
		Patience
		Body PlatformCall
	},
	) (*platformAnswered, error) {
		return s.callTool(ctx, p, in.Tool, in.Wait, in.Body)
	})
}

func (s *Server) callTool(ctx context.Context, p *Principal, tool, wait string, c PlatformCall) (*platformAnswered, error) {
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
func platformAnswer(out *action.Outcome) *platformAnswered {
	inv := &out.Invocation
	a := PlatformAnswer{Success: inv.Status == action.StatusCompleted, Invocation: inv.ID, Status: string(inv.Status)}
	switch {
	case !inv.Status.Terminal():
		a.Result, a.ApprovalURL = "It waits for a person to approve it. Wait for its result; do not call again.", inv.ApprovalURL
		return &platformAnswered{Status: http.StatusAccepted, Body: a}
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
	return &platformAnswered{Status: http.StatusOK, Body: a}
}
