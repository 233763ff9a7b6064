package action

import (
	"context"
	"errors"
	"sync"
	"time"
)

// sweepBatch is how many rows of a kind one sweep takes: the writer is busy
// for a few milliseconds only.
const sweepBatch = 100

// Run keeps invocations moving until ctx ends: it expires and withdraws held
// calls, runs approved ones that no caller waits for, gives up executions
// whose owner died, wipes what is kept no longer, and looks after rows whose
// hint was lost.
func (g *Gate) Run(ctx context.Context) error {
	ticker := time.NewTicker(g.SweepEvery)
	defer ticker.Stop()
	var seen, polled time.Time
	alone := g.Alone // only the first round can find rows of an earlier process
	for {
		now := g.Now()
		g.sweep(ctx, now, alone)
		alone = false
		g.takeOver(ctx, now)
		if now.Sub(polled) >= g.PollEvery {
			polled = now
			g.poll(ctx)
		}
		if now.Sub(seen) >= g.SeenEvery {
			seen = now
			g.logged("noting that callers wait", g.Ledger.Seen(ctx, g.board.waited(), now))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (g *Gate) logged(doing string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		g.Log.Error(doing, "error", err)
	}
}

// sweep ends what is overdue.
func (g *Gate) sweep(ctx context.Context, now time.Time, alone bool) {
	rules := SweepRules{
		Now: now, Limit: sweepBatch,
		SeenBefore: now.Add(-g.AbandonAfter), ApprovedBefore: now.Add(-g.ClaimWithin),
		PickupInteractive: g.PickupInteractive, PickupUnattended: g.PickupUnattended,
	}
	if alone {
		rules.Alone = g.Instance
	}
	for {
		ended, err := g.Ledger.Sweep(ctx, rules)
		g.logged("sweeping invocations", err)
		for _, inv := range ended {
			g.board.wake(inv.ID)
			g.announce(inv)
		}
		if err != nil || len(ended) < sweepBatch {
			return
		}
	}
}

// takeOver runs approved calls whose callers are gone.
func (g *Gate) takeOver(ctx context.Context, now time.Time) {
	left, err := g.Ledger.Unclaimed(ctx, now.Add(-g.ClaimGrace), sweepBatch)
	g.logged("looking for approved calls", err)
	for _, inv := range left {
		g.claim(inv)
	}
}

// poll looks at the rows that callers here wait for, in case a hint was lost.
func (g *Gate) poll(ctx context.Context) {
	ids := g.board.waited()
	for len(ids) > 0 {
		n := min(len(ids), 500)
		moved, err := g.Ledger.Settled(ctx, ids[:n])
		g.logged("looking at waited calls", err)
		for _, inv := range moved {
			g.moved(inv)
		}
		ids = ids[n:]
	}
}

// moved acts on a row that callers here wait for.
func (g *Gate) moved(inv Invocation) {
	if g.board.wake(inv.ID) && inv.Status == StatusApproved {
		g.claim(inv)
	}
}

// hinted acts on the hint that an invocation changed. It does not block.
func (g *Gate) hinted(h Hint) {
	if h.Kind == HintInvocation && h.Status != StatusPending {
		g.moved(Invocation{ID: h.Invocation, Organization: h.Organization, Status: h.Status})
	}
}

// Drain takes no new calls, answers callers of held ones with "pending", and
// waits until what executes has ended, or ctx.
func (g *Gate) Drain(ctx context.Context) error {
	if g.work.close() {
		close(g.drain)
	}
	done := make(chan struct{})
	go func() {
		g.work.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		g.ends()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work counts what a shutdown waits for.
type work struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// add counts one more, unless the gateway shuts down.
func (w *work) add() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.wg.Add(1)
	return true
}

func (w *work) done() { w.wg.Done() }

// run counts f, for a caller that is counted itself.
func (w *work) run(f func()) { w.wg.Go(f) }

// close ends the adding; false when it had ended before.
func (w *work) close() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.closed
	w.closed = true
	return first
}

func errDraining() error {
	return Errorf(ErrUnavailable, "shutting_down", "The gateway is shutting down; nothing was executed. Try again in a few seconds.")
}
