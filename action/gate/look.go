package gate

import (
	"context"
	"errors"

	"sallyport/action"
)

// Look tells at once where an invocation of the session stands: with its answer
// when it ended, and with a Round when its source asks what a client with can
// can be asked. It is for callers who come back by themselves: none of them
// waits here, and who was given a round before and did not answer it, or not all
// of it, is given what is left of it again.
func (g *Gate) Look(ctx context.Context, s *action.Session, id string, can action.ClientFeatures) (*action.Outcome, error) {
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
	out := &action.Outcome{Invocation: g.linked(rec.Invocation)}
	if rec.Status == action.StatusExecuting && can != 0 {
		out.Round, err = g.take(ctx, &rec.Invocation, can, g.Now())
	}
	return out, err
}

// Withdraw takes a held call of the session back, whoever else waits for it. An
// ErrConflict tells that it is not pending any more: then nothing changes.
func (g *Gate) Withdraw(ctx context.Context, s *action.Session, id string) error {
	rec, err := g.sessionRecord(ctx, s, id)
	if err != nil {
		return err
	}
	gone, err := g.Ledger.Withdraw(ctx, rec.Organization, rec.ID, g.Now())
	if errors.Is(err, action.ErrGone) { // it expired this moment
		return action.NewError("not_pending")
	}
	if err == nil {
		g.changed(&gone)
	}
	return err
}

// sessionRecord loads the row of an invocation of the session. One of another
// session is answered like one that never was.
func (g *Gate) sessionRecord(ctx context.Context, s *action.Session, id string) (action.Record, error) {
	rec, err := g.Ledger.Load(ctx, s.Organization, id)
	if err != nil {
		return action.Record{}, action.Unread(err, id)
	}
	if rec.Session != s.ID {
		return action.Record{}, action.NewError("unknown_invocation")
	}
	return rec, nil
}
