package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sallyport/action"
)

// await waits until the invocation ends, the caller leaves or runs out of
// patience, or the gateway shuts down, and removes the waiter from the board.
// Held calls spend their time in its frame, so it is kept small.
func (g *Gate) await(ctx context.Context, t *wait, how *action.Waiting) (out *action.Outcome, err error) {
	defer func() {
		if out != nil { // nil in a panic
			out.Repeated, out.Joins = t.repeated, t.joins
			g.traceHold(ctx, t, &out.Invocation)
		}
	}()
	held := t.inv.Mode == action.ModeRequireApproval // also while it executes: its callers still need progress
	t.inv.ApprovalURL = g.ApprovalURL(t.inv.ID)
	if held && how.Polls {
		return t.unfinished(), g.releaseReturning(ctx, t, how)
	}
	if g.Tracer != nil && t.inv.Status == action.StatusPending && how.Patience > 0 {
		t.heldSince = time.Now()
	}
	clock := g.startTimers(held, how)
	defer clock.stop()
	if held && how.Patience > 0 {
		if t.new && how.OnOpened != nil && how.OnOpened(&t.inv) {
			return t.unfinished(), g.releasePending(ctx, t)
		}
		t.notifyHeld(how)
	}
	for {
		select {
		case <-t.w.posted:
			g.forward(t.w, how)
		case <-t.w.wake:
			ended, err := g.refresh(ctx, t)
			switch {
			case errors.Is(err, action.ErrUnavailable) && ctx.Err() == nil:
				// The database is unreachable for a moment; Poll wakes this caller again.
			case err != nil:
				g.board.leave(t.inv.ID, t.w)
				return t.unfinished(), err
			case ended != nil:
				g.board.leave(t.inv.ID, t.w)
				g.forward(t.w, how) // messages from before the end
				return ended, nil
			}
			round, err := g.asked(ctx, t)
			if err != nil || round != nil {
				g.board.leave(t.inv.ID, t.w)
				g.forward(t.w, how)
				out := t.unfinished()
				out.Round = round
				return out, err
			}
		case <-clock.tick:
			clock.reset()
			t.notifyHeld(how)
		case <-clock.patience:
			if t.inv.Status == action.StatusPending {
				return t.unfinished(), g.releasePending(ctx, t)
			}
		case <-clock.drain:
			if t.inv.Status != action.StatusExecuting {
				return t.unfinished(), g.releasePending(ctx, t) // this instance claims nothing any more
			}
			clock.drain = nil // an execution is waited for
		case <-ctx.Done():
			return t.unfinished(), g.callerLeft(ctx, t, how)
		}
	}
}

// unfinished returns the outcome of a call that has not ended.
func (t *wait) unfinished() *action.Outcome { return &action.Outcome{Invocation: t.inv} }

// notifyHeld reports to the caller that the call is held.
func (t *wait) notifyHeld(how *action.Waiting) {
	if how.OnHeld != nil {
		how.OnHeld(&t.inv)
	}
}

// timers are those of a held call. Channels that do not apply are nil.
type timers struct {
	tick     <-chan time.Time
	patience <-chan time.Time
	drain    <-chan struct{}
	reset    func() // restarts tick
	stop     func()
}

func (g *Gate) startTimers(held bool, how *action.Waiting) timers {
	if !held {
		return timers{stop: func() {}}
	}
	// Jitter: thousands of callers that reconnect together must not report progress together.
	tick := time.NewTimer(g.HoldEvery/2 + rand.N(g.HoldEvery/2+1))
	c := timers{tick: tick.C, drain: g.drain, reset: func() { tick.Reset(g.HoldEvery) }, stop: func() { tick.Stop() }}
	if how.Patience != action.Forever {
		timer := time.NewTimer(how.Patience)
		c.patience = timer.C
		c.stop = func() { tick.Stop(); timer.Stop() }
	}
	return c
}

// forward passes the source's progress and log messages to the caller.
func (g *Gate) forward(w *waiter, how *action.Waiting) {
	for _, m := range g.board.takeMessages(w) {
		switch {
		case m.log && how.OnLog != nil:
			how.OnLog(m.params)
		case !m.log && how.OnProgress != nil:
			how.OnProgress(m.params)
		}
	}
}

// refresh updates t from its row, and returns the outcome when the invocation
// ended.
func (g *Gate) refresh(ctx context.Context, t *wait) (*action.Outcome, error) {
	if out, _ := g.board.outcome(t.inv.ID); out != nil {
		ended := *out // each caller has its own marks
		return &ended, nil
	}
	rec, err := g.Ledger.Load(ctx, t.inv.Organization, t.inv.ID)
	if err != nil {
		return nil, err
	}
	if !rec.Status.Terminal() {
		if t.inv = g.withLink(rec.Invocation); t.inv.Status != action.StatusPending {
			g.traceHold(ctx, t, &t.inv)
		}
		return nil, nil
	}
	// A row ends a moment before its execution. The execution has the full answer,
	// which is stored nowhere else for a read.
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

// reopen returns the outcome of a row that ended.
func (g *Gate) reopen(rec *action.Record) (*action.Outcome, error) {
	out := &action.Outcome{Invocation: g.withLink(rec.Invocation), Joins: true}
	if rec.SealedResult == nil {
		return out, nil
	}
	plain, err := g.Vault.Open(resultRef(&rec.Invocation), rec.SealedResult)
	if err != nil {
		return out, err
	}
	out.Answer, err = action.DecodeAnswer(plain)
	return out, err
}

// releasePending answers the caller with "pending". It counts as waiting from
// then on, since it was asked to come back.
func (g *Gate) releasePending(ctx context.Context, t *wait) error {
	g.board.leave(t.inv.ID, t.w)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	return action.ReadFailed(g.Ledger.MarkAnswered(ctx, t.inv.Organization, t.inv.ID), t.inv.ID)
}

// releaseReturning answers a caller that comes back by itself, and records which
// questions its client can answer, for the source that runs meanwhile.
func (g *Gate) releaseReturning(ctx context.Context, t *wait, how *action.Waiting) error {
	if err := g.releasePending(ctx, t); err != nil || how.Features == 0 {
		return err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	return action.ReadFailed(g.Ledger.SaveCallerFeatures(ctx, t.inv.Organization, t.inv.ID, how.Features), t.inv.ID)
}

// callerLeft removes a caller that is gone. If the last caller of an interactive
// hold cancelled on purpose, the call is withdrawn. A hold of an unattended session
// stays: it waits for a person, not for its caller.
func (g *Gate) callerLeft(ctx context.Context, t *wait, how *action.Waiting) error {
	cause := context.Cause(ctx)
	last := g.board.leave(t.inv.ID, t.w)
	if !last || t.inv.Status != action.StatusPending || how.Unattended || !errors.Is(cause, action.ErrCancelled) {
		return cause
	}
	free, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if err := g.withdraw(free, &t.inv); err != nil && !errors.Is(err, action.ErrConflict) {
		g.Log.Error("could not withdraw a cancelled call", "invocation", t.inv.ID, "error", err)
	}
	return cause
}

// withdraw withdraws a held call, unless an earlier caller was asked to come back
// for it.
func (g *Gate) withdraw(ctx context.Context, inv *action.Invocation) error {
	rec, err := g.Ledger.Load(ctx, inv.Organization, inv.ID)
	if err != nil || rec.Answered {
		return err
	}
	withdrawn, err := g.Ledger.Withdraw(ctx, inv.Organization, inv.ID, g.Now())
	if err != nil {
		return err
	}
	g.changed(&withdrawn)
	return nil
}
