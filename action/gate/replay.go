package gate

import (
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
)

// replay returns the answer that a tool of the gateway itself gave to the same call
// before, however long ago. Since nothing runs, policy is not asked. Nil means
// that the call is new.
func (g *Gate) replay(ctx context.Context, c *action.Call, act *action.Action, params json.RawMessage) (*action.Outcome, error) {
	if act.Platform == nil {
		return nil, nil
	}
	reply, err := act.Platform.Replay(ctx, &c.Session, c.IdempotencyKey, params)
	if err != nil {
		return nil, action.WriteFailed(err)
	}
	if reply == nil {
		return nil, c.Session.Working(g.Now())
	}
	return g.replayed(ctx, c, act, reply)
}

// replayed returns the outcome of a call that was answered. Its invocation may be
// deleted, or may have ended without the reply because its executor died.
func (g *Gate) replayed(ctx context.Context, c *action.Call, act *action.Action, reply *action.ToolReply) (*action.Outcome, error) {
	rec, err := g.Ledger.Load(ctx, c.Session.Organization, reply.Invocation)
	if err != nil && !errors.Is(err, action.ErrNotFound) {
		return nil, action.WriteFailed(err)
	}
	inv := rec.Invocation
	inv.ID, inv.Organization, inv.Session = reply.Invocation, c.Session.Organization, c.Session.ID
	inv.Source, inv.SourceName, inv.Action, inv.Risk = act.Source, act.SourceName, act.Name, act.Risk
	inv.Status, inv.Error = action.StatusCompleted, nil
	if reply.Failed {
		inv.Status, inv.Error = action.StatusFailed, &action.Failure{Code: action.FailedTool, Message: g.clip(reply.Text, nil)}
	}
	res := reply.Result()
	return &action.Outcome{Invocation: g.withLink(inv), Answer: action.Answer{Body: res.Body, IsError: res.IsError}, Repeated: true}, nil
}

// orEmpty returns an empty outcome for nil: the Gate's callers never get nil.
func orEmpty(out *action.Outcome) *action.Outcome {
	if out == nil {
		return &action.Outcome{}
	}
	return out
}
