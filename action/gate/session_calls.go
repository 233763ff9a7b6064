package gate

import (
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
)

// Wait waits for an invocation of the session as [Gate.Call] does.
func (g *Gate) Wait(ctx context.Context, s *action.Session, id string, w action.Waiting) (out *action.Outcome, err error) {
	if !g.work.add() {
		return &action.Outcome{}, errDraining()
	}
	defer g.work.done()
	if g.Tracer != nil {
		var end func(action.TraceAttributes)
		ctx, end = g.Tracer.Start(ctx, action.TraceWait)
		defer func() { end(tracedAnswer(s, orEmpty(out), err)) }()
	}
	if _, err := g.Status(ctx, s, id); err != nil {
		return &action.Outcome{}, err
	}
	w.Unattended = s.Kind == action.Unattended
	out, wait, err := g.enter(ctx, s.Organization, id, &w)
	if wait != nil {
		return g.await(ctx, wait, &w)
	}
	return orEmpty(out), err
}

// Status returns an invocation of the session.
func (g *Gate) Status(ctx context.Context, s *action.Session, id string) (action.Invocation, error) {
	rec, err := g.sessionRecord(ctx, s, id)
	if err != nil {
		return action.Invocation{}, err
	}
	return g.withLink(rec.Invocation), nil
}

// Delivered records that the outcome reached its caller. Until then a repeated call
// gets the outcome again.
func (g *Gate) Delivered(o *action.Outcome) {
	s := o.Invocation.Status
	if !o.Joins || (s != action.StatusCompleted && s != action.StatusFailed) {
		return
	}
	if err := g.Ledger.MarkDelivered(context.Background(), o.Invocation.Organization, o.Invocation.ID, g.Now()); err != nil {
		g.Log.Error("could not record the delivery of a result", "invocation", o.Invocation.ID, "error", err)
	}
}

// Peek returns the state of an invocation of the session without waiting: with its
// answer if it ended, and with a Round if its source asks questions that a client
// with the features can answer. It is for clients that poll. A client that has not
// answered all questions of a round gets the others again.
func (g *Gate) Peek(ctx context.Context, s *action.Session, id string, can action.ClientFeatures) (*action.Outcome, error) {
	if !g.work.add() {
		return &action.Outcome{}, errDraining()
	}
	defer g.work.done()
	rec, err := g.sessionRecord(ctx, s, id)
	switch {
	case err != nil:
		return &action.Outcome{}, err
	case rec.Status.Terminal():
		return g.reopen(&rec)
	}
	out := &action.Outcome{Invocation: g.withLink(rec.Invocation)}
	if rec.Status == action.StatusExecuting && can != 0 {
		out.Round, err = g.take(ctx, &rec.Invocation, can, g.Now())
	}
	return out, err
}

// Withdraw withdraws a held call of the session, even if other callers wait for it.
// ErrConflict means that it is no longer pending; then nothing changes.
func (g *Gate) Withdraw(ctx context.Context, s *action.Session, id string) error {
	rec, err := g.sessionRecord(ctx, s, id)
	if err != nil {
		return err
	}
	withdrawn, err := g.Ledger.Withdraw(ctx, rec.Organization, rec.ID, g.Now())
	if errors.Is(err, action.ErrGone) { // it expired in this moment
		return action.NewError("not_pending")
	}
	if err == nil {
		g.changed(&withdrawn)
	}
	return err
}

// sessionRecord loads an invocation of the session. An invocation of another
// session is reported like one that does not exist.
func (g *Gate) sessionRecord(ctx context.Context, s *action.Session, id string) (action.Record, error) {
	rec, err := g.Ledger.Load(ctx, s.Organization, id)
	if err != nil {
		return action.Record{}, action.ReadFailed(err, id)
	}
	if rec.Session != s.ID {
		return action.Record{}, action.NewError("unknown_invocation")
	}
	return rec, nil
}

// replay returns the stored answer of a tool of the gateway itself to the same call,
// however old it is. Policy is not evaluated, because nothing runs. Nil means that
// the call is new.
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

// replayed returns the outcome of an answered call. Its invocation may have been
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
