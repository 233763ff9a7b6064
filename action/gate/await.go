package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sallyport/action"
)

// await waits until the invocation ends, the caller leaves, its patience is
// over or the gateway shuts down, and takes the waiter off the board. What is
// large is kept out of its frame, in which a held call rests.
func (g *Gate) await(ctx context.Context, t *wait, how *action.Waiting) (out *action.Outcome, err error) {
	defer func() {
		if out != nil { // it is in a panic
			out.Repeated, out.Joins = t.repeated, t.joins
			g.traceHold(ctx, t, &out.Invocation)
		}
	}()
	held := t.inv.Mode == action.ModeRequireApproval // also while it executes: its callers still need a sign of life
	t.inv.ApprovalURL = g.ApprovalURL(t.inv.ID)
	if held && how.Leaves {
		return t.stands(), g.leaves(ctx, t, how)
	}
	if g.Tracer != nil && t.inv.Status == action.StatusPending && how.Patience > 0 {
		t.holds = time.Now()
	}
	clock := g.clocks(held, how)
	defer clock.stop()
	if held && how.Patience > 0 {
		if t.new && how.Opened != nil && how.Opened(&t.inv) {
			return t.stands(), g.answered(ctx, t)
		}
		t.tell(how)
	}
	for {
		select {
		case <-t.w.news:
			g.pass(t.w, how)
		case <-t.w.wake:
			ended, err := g.look(ctx, t)
			switch {
			case errors.Is(err, action.ErrUnavailable) && ctx.Err() == nil:
				// The rows are out of reach for a moment: Poll wakes us again.
			case err != nil:
				g.board.leave(t.inv.ID, t.w)
				return t.stands(), err
			case ended != nil:
				g.board.leave(t.inv.ID, t.w)
				g.pass(t.w, how) // what came before the end
				return ended, nil
			}
			round, err := g.asked(ctx, t)
			if err != nil || round != nil {
				g.board.leave(t.inv.ID, t.w)
				g.pass(t.w, how)
				out := t.stands()
				out.Round = round
				return out, err
			}
		case <-clock.tick:
			clock.again()
			t.tell(how)
		case <-clock.patience:
			if t.inv.Status == action.StatusPending {
				return t.stands(), g.answered(ctx, t)
			}
		case <-clock.drain:
			if t.inv.Status != action.StatusExecuting {
				return t.stands(), g.answered(ctx, t) // nobody runs it any more here
			}
			clock.drain = nil // what runs is waited for
		case <-ctx.Done():
			return t.stands(), g.left(ctx, t, how)
		}
	}
}

// stands is the outcome of a call that did not end.
func (t *wait) stands() *action.Outcome { return &action.Outcome{Invocation: t.inv} }

// tell has the caller hear that it is held.
func (t *wait) tell(how *action.Waiting) {
	if how.Held != nil {
		how.Held(&t.inv)
	}
}

// clocks of a held call. Those that are not due stay nil and never tick.
type clocks struct {
	tick     <-chan time.Time
	patience <-chan time.Time
	drain    <-chan struct{}
	again    func() // after each tick
	stop     func()
}

func (g *Gate) clocks(held bool, how *action.Waiting) clocks {
	if !held {
		return clocks{stop: func() {}}
	}
	// Thousands that came at once, as after a restart, do not all speak at once.
	tick := time.NewTimer(g.HoldEvery/2 + rand.N(g.HoldEvery/2+1))
	c := clocks{tick: tick.C, drain: g.drain, again: func() { tick.Reset(g.HoldEvery) }, stop: func() { tick.Stop() }}
	if how.Patience != action.Forever {
		timer := time.NewTimer(how.Patience)
		c.patience = timer.C
		c.stop = func() { tick.Stop(); timer.Stop() }
	}
	return c
}

// pass hands on what the source said.
func (g *Gate) pass(w *waiter, how *action.Waiting) {
	for _, said := range g.board.words(w) {
		switch {
		case said.log && how.Log != nil:
			how.Log(said.params)
		case !said.log && how.Progress != nil:
			how.Progress(said.params)
		}
	}
}

// look brings t up to date with its row, and returns the outcome when the
// invocation ended.
func (g *Gate) look(ctx context.Context, t *wait) (*action.Outcome, error) {
	if out, _ := g.board.outcome(t.inv.ID); out != nil {
		ended := *out // each caller marks its own
		return &ended, nil
	}
	rec, err := g.Ledger.Load(ctx, t.inv.Organization, t.inv.ID)
	if err != nil {
		return nil, err
	}
	if !rec.Status.Terminal() {
		if t.inv = g.linked(rec.Invocation); t.inv.Status != action.StatusPending {
			g.traceHold(ctx, t, &t.inv)
		}
		return nil, nil
	}
	// A row ends a moment before its run does. The run has the full answer,
	// which of a read is kept nowhere else.
	switch here, running := g.board.outcome(t.inv.ID); {
	case here != nil:
		ended := *here
		return &ended, nil
	case running:
		return nil, nil
	}
	out, err := g.reopen(&rec)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// reopen makes an outcome of a row that ended.
func (g *Gate) reopen(rec *action.Record) (*action.Outcome, error) {
	out := &action.Outcome{Invocation: g.linked(rec.Invocation), Joins: true}
	if rec.SealedResult == nil {
		return out, nil
	}
	plain, err := g.Vault.Open(resultRef(&rec.Invocation), rec.SealedResult)
	if err != nil {
		return out, err
	}
	out.Answer, err = action.ParseAnswer(plain)
	return out, err
}

// answered lets the caller go with "pending". He counts as waiting from now
// on: he was told to come back.
func (g *Gate) answered(ctx context.Context, t *wait) error {
	g.board.leave(t.inv.ID, t.w)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	return action.Unread(g.Ledger.Answered(ctx, t.inv.Organization, t.inv.ID), t.inv.ID)
}

// leaves lets a caller go who comes back by itself. What it can be asked then is
// kept: the source that runs meanwhile wants to know.
func (g *Gate) leaves(ctx context.Context, t *wait, how *action.Waiting) error {
	if err := g.answered(ctx, t); err != nil || how.Can == 0 {
		return err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	return action.Unread(g.Ledger.Returns(ctx, t.inv.Organization, t.inv.ID, how.Can), t.inv.ID)
}

// left takes a caller away that is gone. When it was the last one and left on
// purpose, nobody wants the held call any more; but a hold of an unattended
// session waits for a person, not for its caller.
func (g *Gate) left(ctx context.Context, t *wait, how *action.Waiting) error {
	cause := context.Cause(ctx)
	last := g.board.leave(t.inv.ID, t.w)
	if !last || t.inv.Status != action.StatusPending || how.Unattended || !errors.Is(cause, action.ErrCancelled) {
		return cause
	}
	free, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if err := g.withdraw(free, &t.inv); err != nil && !errors.Is(err, action.ErrConflict) {
		g.Log.Error("withdrawing a cancelled call", "invocation", t.inv.ID, "error", err)
	}
	return cause
}

// withdraw takes a held call back, unless an earlier caller was told to come
// back for it.
func (g *Gate) withdraw(ctx context.Context, inv *action.Invocation) error {
	rec, err := g.Ledger.Load(ctx, inv.Organization, inv.ID)
	if err != nil || rec.Answered {
		return err
	}
	gone, err := g.Ledger.Withdraw(ctx, inv.Organization, inv.ID, g.Now())
	if err != nil {
		return err
	}
	g.changed(&gone)
	return nil
}
