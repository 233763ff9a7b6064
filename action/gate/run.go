package gate

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// lastRefusals bounds the write of the last counts of refusals at a shutdown.
const lastRefusals = time.Second

// takeOverBatch bounds the approved calls that one round takes over.
const takeOverBatch = 100

// Run works until ctx ends: it claims approved calls whose callers are gone,
// records that callers still wait, and reads rows whose hint was lost. It returns
// ctx's error.
func (g *Gate) Run(ctx context.Context) error {
	ticker := time.NewTicker(g.SweepEvery)
	defer ticker.Stop()
	var seen, polled time.Time
	for {
		now := g.Now()
		g.takeOver(ctx, now)
		if due(polled, now, g.PollEvery) {
			polled = now
			g.Poll(ctx)
		}
		g.flushRefusals(ctx, now.Add(-refusalWindow))
		if due(seen, now, g.SeenEvery) {
			seen = now
			g.logError("could not record the waiting callers", g.Ledger.MarkSeen(ctx, g.board.waiting(), now))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// due reports whether the interval is over. A clock that was set back must not
// stop the work until it has caught up.
func due(last, now time.Time, every time.Duration) bool {
	return now.Sub(last) >= every || now.Before(last)
}

func (g *Gate) logError(message string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		g.Log.Error(message, "error", err)
	}
}

// takeOver claims approved calls that no instance claimed within the grace period.
// The instance of a waiting caller comes first: it learns of the approval by a
// hint, or by polling the row.
func (g *Gate) takeOver(ctx context.Context, now time.Time) {
	grace := g.ClaimGrace
	if !g.Hinted() {
		grace = max(grace, g.ClaimGraceBlind)
	}
	unclaimed, err := g.Ledger.Unclaimed(ctx, now.Add(-grace), takeOverBatch)
	g.logError("could not read approved calls", err)
	for _, inv := range unclaimed {
		act, err := g.Catalog.Find(ctx, inv.Organization, inv.Source, inv.Action, false)
		if err == nil && act.Here != nil && !act.Here(&inv) {
			continue // another instance has what it needs, or the approval expires
		}
		g.claim(inv)
	}
}

// Poll reads the rows that callers here wait for, in case a hint was lost.
func (g *Gate) Poll(ctx context.Context) {
	ids := g.board.waiting()
	for len(ids) > 0 {
		n := min(len(ids), 500)
		moved, err := g.Ledger.Settled(ctx, ids[:n])
		g.logError("could not poll pending calls", err)
		var running []string
		for _, inv := range moved {
			g.rowChanged(inv)
			if inv.Status == action.StatusExecuting {
				running = append(running, inv.ID)
			}
		}
		if len(running) > 0 { // on other instances: their sources may have asked
			asking, err := g.Ledger.OpenRounds(ctx, running)
			g.logError("could not read open questions", err)
			for _, id := range asking {
				g.board.notifyQuestion(id)
			}
		}
		ids = ids[n:]
	}
}

// rowChanged wakes the callers of a row, and claims it if it was approved.
func (g *Gate) rowChanged(inv action.Invocation) {
	if g.board.wake(inv.ID) && inv.Status == action.StatusApproved {
		g.claim(inv)
	}
}

// onHint handles a hint about an invocation. It does not block.
func (g *Gate) onHint(h action.Hint) {
	switch {
	case h.Kind == action.HintInvocation && h.Asking:
		g.board.notifyQuestion(h.Invocation)
	case h.Kind == action.HintInvocation && h.Status != action.StatusPending:
		g.rowChanged(action.Invocation{ID: h.Invocation, Organization: h.Organization, Status: h.Status})
	}
}

// Refuse refuses new calls and answers the callers of held ones with "pending".
// Executions continue, and callers can still ask for the state of a call until
// [Gate.Drain].
func (g *Gate) Refuse() {
	if g.refusing.CompareAndSwap(false, true) {
		close(g.drain)
	}
}

// Drain refuses everything and waits until all executions have ended, or ctx.
func (g *Gate) Drain(ctx context.Context) error {
	g.Refuse()
	g.work.mu.Lock()
	g.work.closed = true
	g.work.mu.Unlock()
	done := make(chan struct{})
	go func() {
		g.work.wg.Wait()
		g.work.close()
		close(done)
	}()
	var err error
	select {
	case <-done:
		g.unsubscribe()
	case <-ctx.Done():
		err = ctx.Err()
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastRefusals)
	defer stop()
	g.flushRefusals(last, g.Now())
	return err
}

// work counts the callers and executions that a shutdown waits for.
type work struct {
	mu     sync.Mutex
	closed bool // add refuses
	wg     sync.WaitGroup

	next  chan func()  // to an idle goroutine
	idle  atomic.Int32 // goroutines that wait for it
	close func()       // ends them; may be called again
}

// maxIdle bounds the goroutines that are kept for the next executions.
const maxIdle = 64

func newWork() *work {
	next := make(chan func())
	return &work{next: next, close: sync.OnceFunc(func() { close(next) })}
}

// add counts one more; false if the gateway shuts down.
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

// run counts and starts f. The caller must be counted itself. An execution needs
// a deep stack, which a new goroutine would have to grow in several steps: idle
// goroutines are therefore reused.
func (w *work) run(f func()) {
	w.wg.Add(1)
	select {
	case w.next <- f:
	default:
		go w.runAll(f)
	}
}

// runAll runs f, and what [work.run] passes on while this goroutine is idle.
func (w *work) runAll(f func()) {
	for more := true; more; {
		f()
		f = nil // may hold a large result
		w.wg.Done()
		if w.idle.Add(1) <= maxIdle {
			f, more = <-w.next
		} else {
			more = false
		}
		w.idle.Add(-1)
	}
}

func errDraining() error {
	return action.Errorf(action.ErrNotReady, "shutting_down", "The gateway is shutting down; nothing was executed. Try again in a few seconds.")
}

// sweepBatch bounds the rows of a kind in one sweep, so that the writer is busy for
// a few milliseconds only.
const sweepBatch = 100

// sweepState is what a sweep must know of earlier ones.
type sweepState struct {
	mu                sync.Mutex // one sweep at a time
	sweptBefore       bool       // a first sweep was done
	last              time.Time  // the last sweep that reached the database
	lastAbandonCheck  time.Time  // the last look for abandoned calls
	abandonGraceUntil time.Time  // until then no call counts as abandoned
	leaseGraceUntil   time.Time  // until then no lease counts as lapsed
}

// Sweep ends what is overdue: it expires and withdraws held calls, expires
// approvals that nobody claimed, ends executions whose owner died, and wipes
// results past their pick-up time. One of the instances that share rows should call
// it about four times a second; several do no harm.
func (g *Gate) Sweep(ctx context.Context) {
	g.sweeps.mu.Lock()
	defer g.sweeps.mu.Unlock()
	now := g.Now()
	rules := action.SweepRules{
		Now: now, Limit: sweepBatch, LeaseBefore: g.sweeps.leaseBefore(now, 4*g.SweepEvery),
		SeenBefore: g.sweeps.seenBefore(now, g.AbandonAfter, max(g.SeenEvery, 4*g.SweepEvery)), ApprovedBefore: now.Add(-g.ClaimWithin),
		PickupInteractive: g.PickupInteractive, PickupUnattended: g.PickupUnattended,
	}
	if g.Alone && !g.sweeps.sweptBefore {
		rules.SoleInstance = g.Instance // only the first sweep can find rows of an earlier process
	}
	counts := map[string]int{}
	defer func() { logCounts(g.Log, "overdue calls swept", counts) }()
	for {
		done, err := g.Ledger.Sweep(ctx, rules)
		g.logError("could not sweep overdue calls", err)
		counts["results"] += done.Results
		counts["idempotency_keys"] += done.Keys
		counts["questions"] += done.Rounds
		for _, inv := range done.Ended {
			counts[sweptAs(&inv)]++
			if inv.Error != nil {
				g.Log.Warn("an execution was ended because its lease expired", "invocation", inv.ID, "error", inv.Error.Code)
			}
			g.board.wake(inv.ID)
			g.changed(&inv)
		}
		if err != nil {
			return
		}
		if len(done.Ended) < sweepBatch {
			break
		}
	}
	g.sweeps.sweptBefore, g.sweeps.last = true, now
}

// sweptAs returns the name that a call which a sweep ended is counted by.
func sweptAs(inv *action.Invocation) string {
	switch {
	case inv.Status == action.StatusDenied:
		return "withdrawn"
	case inv.Status == action.StatusFailed:
		return "outcome_unknown"
	case inv.ApprovedAt != nil:
		return "approvals_expired"
	}
	return "expired"
}

// logCounts logs what a sweep did, if it did anything.
func logCounts(log *slog.Logger, message string, counts map[string]int) {
	var line []any
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			line = append(line, name, counts[name])
		}
	}
	if line != nil {
		log.Info(message, line...)
	}
}

// leaseGrace is the time that executors get to record the end of a call once the
// database is reachable again. It exceeds their pause between attempts.
const leaseGrace = 3 * time.Second

// leaseBefore returns the time before which leases have lapsed. A gap between
// sweeps starts a grace: if the database was unreachable for this instance, it may
// have been for the executors too.
func (s *sweepState) leaseBefore(now time.Time, usual time.Duration) time.Time {
	if now.Sub(s.last) > max(usual, leaseGrace/2) {
		s.leaseGraceUntil = now.Add(leaseGrace)
	}
	if now.Before(s.leaseGraceUntil) {
		return time.Time{}
	}
	return now
}

// seenBefore returns the time since which a caller must have been seen. After a gap,
// when the database was unreachable or no gateway ran, every instance gets time to
// record its callers again before their calls count as abandoned.
func (s *sweepState) seenBefore(now time.Time, abandon, every time.Duration) time.Time {
	if now.Sub(s.last) > every {
		s.abandonGraceUntil = now.Add(2 * every)
	}
	if now.Before(s.abandonGraceUntil) || !due(s.lastAbandonCheck, now, every/4) {
		return time.Time{} // each look reads all held calls that are old enough, so not at every sweep
	}
	s.lastAbandonCheck = now
	return now.Add(-abandon)
}
