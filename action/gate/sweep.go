package gate

import (
	"context"
	"sync"
	"time"

	"sallyport/action"
)

// sweepBatch is how many rows of a kind one sweep takes: the writer is busy
// for a few milliseconds only.
const sweepBatch = 100

// sweeps remembers what one round of Sweep must know of those before.
type sweeps struct {
	mu    sync.Mutex // one round at a time
	again bool       // there was a first round
	last  time.Time  // when rows could last be swept
	gone  time.Time  // when callers were last looked for who are gone
	spare time.Time  // until then no silence is held against a caller
	late  time.Time  // until then no lease is taken for lapsed
}

// Sweep ends what is overdue: it expires and withdraws held calls, gives up
// approvals that nobody used and executions whose owner died, and wipes what
// is kept no longer. Of the instances that share rows one should do it, every
// quarter of a second or so; more than one do no harm.
func (g *Gate) Sweep(ctx context.Context) {
	g.sweeps.mu.Lock()
	defer g.sweeps.mu.Unlock()
	now := g.Now()
	g.sweeps.gap(now, 4*g.LookEvery)
	rules := action.SweepRules{
		Now: now, Limit: sweepBatch, LeaseBefore: g.sweeps.leaseBefore(now),
		SeenBefore: g.sweeps.seenBefore(now, g.AbandonAfter, max(g.SeenEvery, 4*g.LookEvery)), ApprovedBefore: now.Add(-g.ClaimWithin),
		PickupInteractive: g.PickupInteractive, PickupUnattended: g.PickupUnattended,
	}
	if g.Alone && !g.sweeps.again {
		rules.Alone = g.Instance // only the first round can find rows of an earlier process
	}
	for {
		ended, err := g.Ledger.Sweep(ctx, rules)
		g.logged("sweeping invocations", err)
		for _, inv := range ended {
			if inv.Error != nil {
				g.Log.Warn("an execution was given up", "invocation", inv.ID, "error", inv.Error.Code)
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
	g.sweeps.again, g.sweeps.last = true, now
}

// leaseSpare is how long an executor may take to write down how a call ended
// once the rows can be reached again; longer than the pauses between its tries.
const leaseSpare = 3 * time.Second

// gap notes that rows could not be swept for a while: out of reach for this
// instance, they may have been so for those that execute, too.
func (s *sweeps) gap(now time.Time, usual time.Duration) {
	if now.Sub(s.last) > max(usual, leaseSpare/2) {
		s.late = now.Add(leaseSpare)
	}
}

// leaseBefore says which leases have lapsed.
func (s *sweeps) leaseBefore(now time.Time) time.Time {
	if now.Before(s.late) {
		return time.Time{}
	}
	return now
}

// seenBefore says since when a caller must have been seen. Who could not write
// that callers wait, because the rows were out of reach or this program not
// running, must not find their calls withdrawn when they are back: after such
// a gap every instance gets time to say so again.
func (s *sweeps) seenBefore(now time.Time, abandon, every time.Duration) time.Time {
	if now.Sub(s.last) > every {
		s.spare = now.Add(2 * every)
	}
	if now.Before(s.spare) || !due(s.gone, now, every/4) {
		return time.Time{} // every look reads all held calls that are old enough
	}
	s.gone = now
	return now.Add(-abandon)
}
