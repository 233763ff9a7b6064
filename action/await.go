package action

import (
	"context"
	"errors"
	"time"
)

// await waits until the invocation ends, the caller leaves, its patience is
// over or the gateway shuts down, and takes the waiter off the board.
func (g *Gate) await(ctx context.Context, inv Invocation, w *waiter, how Waiting) (Outcome, error) {
	held := inv.Mode == ModeRequireApproval // also while it executes: its callers still need a sign of life
	inv = g.linked(inv)
	clock := g.clocks(held, &how)
	defer clock.stop()
	if held && how.Held != nil && how.Patience > 0 {
		how.Held(inv)
	}
	for {
		select {
		case p := <-w.progress:
			if how.Progress != nil {
				how.Progress(p)
			}
		case <-w.wake:
			out, err := g.look(ctx, inv)
			if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
				continue // the rows are out of reach for a moment: Poll wakes us again
			}
			if err != nil {
				g.board.leave(inv.ID, w)
				return Outcome{Invocation: inv}, err
			}
			if out.Invocation.Status.Terminal() {
				g.board.leave(inv.ID, w)
				w.flush(how)
				return out, nil
			}
			inv = out.Invocation
		case <-clock.tick:
			if how.Held != nil {
				how.Held(inv)
			}
		case <-clock.patience:
			if inv.Status == StatusPending {
				return g.answered(ctx, inv, w)
			}
		case <-clock.drain:
			if inv.Status != StatusExecuting {
				return g.answered(ctx, inv, w) // nobody runs it any more here
			}
			clock.drain = nil // what runs is waited for
		case <-ctx.Done():
			return Outcome{Invocation: inv}, g.left(ctx, inv, w, &how)
		}
	}
}

// clocks of a held call. Those that are not due stay nil and never tick.
type clocks struct {
	tick     <-chan time.Time
	patience <-chan time.Time
	drain    <-chan struct{}
	stop     func()
}

func (g *Gate) clocks(held bool, how *Waiting) clocks {
	if !held {
		return clocks{stop: func() {}}
	}
	ticker := time.NewTicker(g.HoldEvery)
	c := clocks{tick: ticker.C, drain: g.drain, stop: ticker.Stop}
	if how.Patience != Forever {
		timer := time.NewTimer(how.Patience)
		c.patience = timer.C
		c.stop = func() { ticker.Stop(); timer.Stop() }
	}
	return c
}

// flush hands on what progress came before the end.
func (w *waiter) flush(how Waiting) {
	for how.Progress != nil {
		select {
		case p := <-w.progress:
			how.Progress(p)
		default:
			return
		}
	}
}

// look says where the invocation stands now.
func (g *Gate) look(ctx context.Context, inv Invocation) (Outcome, error) {
	if out := g.board.outcome(inv.ID); out != nil {
		return *out, nil
	}
	rec, err := g.Ledger.Load(ctx, inv.Organization, inv.ID)
	if err != nil {
		return Outcome{}, err
	}
	if rec.Status.Terminal() {
		return g.reopen(rec)
	}
	return Outcome{Invocation: g.linked(rec.Invocation)}, nil
}

// reopen makes an outcome of a row that ended.
func (g *Gate) reopen(rec Record) (Outcome, error) {
	out := Outcome{Invocation: g.linked(rec.Invocation), joins: true}
	if rec.SealedResult == nil {
		return out, nil
	}
	plain, err := g.Vault.Open(resultRef(&rec.Invocation), rec.SealedResult)
	if err != nil {
		return out, err
	}
	out.Answer, err = parseAnswer(plain)
	return out, err
}

// answered lets the caller go with "pending". He counts as waiting from now
// on: he was told to come back.
func (g *Gate) answered(ctx context.Context, inv Invocation, w *waiter) (Outcome, error) {
	g.board.leave(inv.ID, w)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if err := g.Ledger.Answered(ctx, inv.Organization, inv.ID); err != nil {
		return Outcome{Invocation: inv}, err
	}
	return Outcome{Invocation: inv}, nil
}

// left takes a caller away that is gone. When it was the last one and left on
// purpose, nobody wants the held call any more; but a hold of an unattended
// session waits for a person, not for its caller.
func (g *Gate) left(ctx context.Context, inv Invocation, w *waiter, how *Waiting) error {
	cause := context.Cause(ctx)
	last := g.board.leave(inv.ID, w)
	if !last || inv.Status != StatusPending || how.unattended || !errors.Is(cause, ErrCancelled) {
		return cause
	}
	free, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if err := g.withdraw(free, &inv); err != nil && !errors.Is(err, ErrConflict) {
		g.Log.Error("withdrawing a cancelled call", "invocation", inv.ID, "error", err)
	}
	return cause
}

// withdraw takes a held call back, unless an earlier caller was told to come
// back for it.
func (g *Gate) withdraw(ctx context.Context, inv *Invocation) error {
	rec, err := g.Ledger.Load(ctx, inv.Organization, inv.ID)
	if err != nil || rec.Answered {
		return err
	}
	gone, err := g.Ledger.Withdraw(ctx, inv.Organization, inv.ID, g.Now())
	if err != nil {
		return err
	}
	g.announce(gone)
	return nil
}

// The first byte of a kept answer says what follows.
const (
	keptBody    = 'b'
	keptIsError = 'e'
	keptProblem = 'p'
)

// keep frames the answer byte for byte; encoding/json would alter it.
func (a *Answer) keep() []byte {
	kind, bytes := byte(keptBody), []byte(a.Body)
	switch {
	case a.Problem != nil:
		kind, bytes = keptProblem, a.Problem
	case a.IsError:
		kind = keptIsError
	}
	return append([]byte{kind}, bytes...)
}

func parseAnswer(kept []byte) (Answer, error) {
	if len(kept) < 2 {
		return Answer{}, errors.New("a kept answer is empty")
	}
	switch kept[0] {
	case keptBody:
		return Answer{Body: kept[1:]}, nil
	case keptIsError:
		return Answer{Body: kept[1:], IsError: true}, nil
	case keptProblem:
		return Answer{Problem: kept[1:]}, nil
	}
	return Answer{}, errors.New("a kept answer is of an unknown kind")
}
