package gate

import (
	"context"
	"errors"
	"sync"
	"time"

	"sallyport/action"
)

// lookBatch is how many rows one look takes.
const lookBatch = 100

// Run keeps the invocations moving that callers of this instance wait for, or
// nobody, until ctx ends: it runs approved calls whose callers are gone, says
// that callers still wait, and looks at rows whose hint was lost. It returns
// ctx's error.
func (g *Gate) Run(ctx context.Context) error {
	ticker := time.NewTicker(g.LookEvery)
	defer ticker.Stop()
	var seen, polled time.Time
	for {
		now := g.Now()
		g.takeOver(ctx, now)
		if due(polled, now, g.PollEvery) {
			polled = now
			g.Poll(ctx)
		}
		if due(seen, now, g.SeenEvery) {
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

// due tells whether it is time again. A clock that was set back must not stop
// the work until it has caught up.
func due(last, now time.Time, every time.Duration) bool {
	return now.Sub(last) >= every || now.Before(last)
}

func (g *Gate) logged(doing string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		g.Log.Error(doing, "error", err)
	}
}

// takeOver runs approved calls whose callers are gone. The instance where a
// caller waits comes first: it learns of the approval by a hint, or else by
// looking at the row, and has that much time.
func (g *Gate) takeOver(ctx context.Context, now time.Time) {
	grace := g.ClaimGrace
	if !g.Hinted() {
		grace = max(grace, g.ClaimGraceBlind)
	}
	left, err := g.Ledger.Unclaimed(ctx, now.Add(-grace), lookBatch)
	g.logged("looking for approved calls", err)
	for _, inv := range left {
		g.claim(inv)
	}
}

// Poll looks at the rows that callers here wait for, in case a hint was lost.
func (g *Gate) Poll(ctx context.Context) {
	ids := g.board.waited()
	for len(ids) > 0 {
		n := min(len(ids), 500)
		moved, err := g.Ledger.Settled(ctx, ids[:n])
		g.logged("looking at waited calls", err)
		var running []string
		for _, inv := range moved {
			g.moved(inv)
			if inv.Status == action.StatusExecuting {
				running = append(running, inv.ID)
			}
		}
		g.lookForQuestions(ctx, running)
		ids = ids[n:]
	}
}

// lookForQuestions wakes the callers of calls that run elsewhere and ask
// something.
func (g *Gate) lookForQuestions(ctx context.Context, running []string) {
	if len(running) == 0 {
		return
	}
	asking, err := g.Ledger.Asking(ctx, running)
	g.logged("looking for questions", err)
	for _, id := range asking {
		g.board.asks(id)
	}
}

// moved acts on a row that callers here wait for.
func (g *Gate) moved(inv action.Invocation) {
	if g.board.wake(inv.ID) && inv.Status == action.StatusApproved {
		g.claim(inv)
	}
}

// hinted acts on the hint that an invocation changed. It does not block.
func (g *Gate) hinted(h action.Hint) {
	switch {
	case h.Kind == action.HintInvocation && h.Asking:
		g.board.asks(h.Invocation)
	case h.Kind == action.HintInvocation && h.Status != action.StatusPending:
		g.moved(action.Invocation{ID: h.Invocation, Organization: h.Organization, Status: h.Status})
	}
}

// Refuse takes no new calls, and answers callers of held ones with "pending".
// What executes goes on, and who comes back for a call is told where it
// stands; [Gate.Drain] ends that, too.
func (g *Gate) Refuse() {
	if g.refusing.CompareAndSwap(false, true) {
		close(g.drain)
	}
}

// Drain refuses everything, and waits until what executes has ended, or ctx.
func (g *Gate) Drain(ctx context.Context) error {
	g.Refuse()
	g.work.close()
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

// close ends the adding.
func (w *work) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

func errDraining() error {
	return action.Errorf(action.ErrNotReady, "shutting_down", "The gateway is shutting down; nothing was executed. Try again in a few seconds.")
}
