package gate

import (
	"context"
	"sync"
	"time"

	"sallyport/action"
)

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
	g.sweeps.noteGap(now, 4*g.SweepEvery)
	rules := action.SweepRules{
		Now: now, Limit: sweepBatch, LeaseBefore: g.sweeps.leaseBefore(now),
		SeenBefore: g.sweeps.seenBefore(now, g.AbandonAfter, max(g.SeenEvery, 4*g.SweepEvery)), ApprovedBefore: now.Add(-g.ClaimWithin),
		PickupInteractive: g.PickupInteractive, PickupUnattended: g.PickupUnattended,
	}
	if g.Alone && !g.sweeps.sweptBefore {
		rules.SoleInstance = g.Instance // only the first sweep can find rows of an earlier process
	}
	for {
		ended, err := g.Ledger.Sweep(ctx, rules)
		g.logError("sweeping invocations", err)
		for _, inv := range ended {
			if inv.Error != nil {
				g.Log.Warn("an execution was ended because its lease lapsed", "invocation", inv.ID, "error", inv.Error.Code)
			}
			g.board.wake(inv.ID)
			g.changed(&inv)
		}
		if err != nil {
			return
		}
		if len(ended) < sweepBatch {
			break
		}
	}
	g.sweeps.sweptBefore, g.sweeps.last = true, now
}

// leaseGrace is the time that executors get to record the end of a call once the
// database is reachable again. It exceeds their pause between attempts.
const leaseGrace = 3 * time.Second

// noteGap starts the grace of leases after a gap between sweeps: if the database
// was unreachable for this instance, it may have been for the executors too.
func (s *sweepState) noteGap(now time.Time, usual time.Duration) {
	if now.Sub(s.last) > max(usual, leaseGrace/2) {
		s.leaseGraceUntil = now.Add(leaseGrace)
	}
}

// leaseBefore returns the time before which leases have lapsed.
func (s *sweepState) leaseBefore(now time.Time) time.Time {
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
