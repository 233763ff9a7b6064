package gate

import (
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
)

// recall hands out what a tool of the gateway's own answered to the same call
// before, however long ago, and refuses what is over its session's quota. It
// comes before policy: nothing is done. Nil: it is a new call.
func (g *Gate) recall(ctx context.Context, c *action.Call, act *action.Action, params json.RawMessage) (*action.Outcome, error) {
	if act.Own == nil {
		return nil, nil
	}
	reply, err := act.Own.Answered(ctx, &c.Session, c.IdempotencyKey, params)
	if err != nil {
		return nil, action.Unwritten(err)
	}
	if reply == nil {
		return nil, c.Session.Working(g.Now())
	}
	return g.reply(ctx, c, act, reply)
}

// reply is the outcome of a call that was answered. Its invocation may be gone,
// or say less than the reply, when its executor died before it wrote that down.
func (g *Gate) reply(ctx context.Context, c *action.Call, act *action.Action, reply *action.ToolReply) (*action.Outcome, error) {
	rec, err := g.Ledger.Load(ctx, c.Session.Organization, reply.Invocation)
	if err != nil && !errors.Is(err, action.ErrNotFound) {
		return nil, action.Unwritten(err)
	}
	inv := rec.Invocation
	inv.ID, inv.Organization, inv.Session = reply.Invocation, c.Session.Organization, c.Session.ID
	inv.Source, inv.SourceName, inv.Action, inv.Risk = act.Source, act.SourceName, act.Name, act.Risk
	inv.Status, inv.Error = action.StatusCompleted, nil
	if reply.Failed {
		inv.Status, inv.Error = action.StatusFailed, &action.Failure{Code: action.FailedTool, Message: g.clip(reply.Text, nil)}
	}
	res := reply.Result()
	return &action.Outcome{Invocation: g.linked(inv), Answer: action.Answer{Body: res.Body, IsError: res.IsError}, Repeated: true}, nil
}

// orNone is for callers of the Gate, who never get nil.
func orNone(out *action.Outcome) *action.Outcome {
	if out == nil {
		return &action.Outcome{}
	}
	return out
}
