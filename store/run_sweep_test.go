package store

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/inbound"
)

func TestRunSweep(t *testing.T) { playRuns(t, runSweepStories) }

// began begins a call of a session that needs nobody.
func (h *runHouse) began(session string, risk action.Risk) {
	h.Helper()
	d := heldCall(h.org, session)
	d.Risk, d.Status, d.Mode, d.ExpiresAt, d.SealedParams, d.Joins = risk, action.StatusExecuting, action.ModeAllow, nil, nil, false
	d.Executor, d.LeaseUntil = "me", time.Now().Add(time.Hour)
	_, err := h.db.Begin(h.ctx, d)
	h.ok(err)
}

var runSweepStories = map[string]func(*runHouse){
	"queued and live runs are not swept": func(h *runHouse) {
		waits := h.queued()
		h.finish(h.claim().Run, succeeded)
		h.queued()
		r := h.claim().Run
		changed, _ := h.sweep(4 * time.Minute)
		h.equal(len(changed), 0, "changed")
		h.run(r.ID, event.RunClaimed)
		h.run(waits, event.RunSucceeded)
		h.renew(r)
		changed, _ = h.sweep(4 * time.Minute)
		h.equal(len(changed), 0, "changed after it was renewed")
	},
	"a run whose worker is lost before it began is queued again twice": func(h *runHouse) {
		id := h.queued()
		for attempt := 1; attempt < 3; attempt++ {
			r := h.claim().Run
			changed, _ := h.sweep(6 * time.Minute)
			h.equal(changed, []event.Run{h.run(id, event.RunQueued)}, "changed")
			h.equal([]any{changed[0].Attempt, changed[0].Claim, changed[0].Code}, []any{attempt, "", ""}, "the run")
			h.live(r.Session, false)
			_, err := h.db.RenewRun(h.ctx, h.org, id, r.Claim)
			h.refused(err, action.ErrConflict, "claim_lost")
		}
		h.equal(h.deliveries(id), []event.RunDeliveryStatus{event.DeliveryDelivered, event.DeliveryDelivered, event.DeliveryPending}, "deliveries")
		r := h.claim().Run
		h.sweep(6 * time.Minute)
		lost := h.run(id, event.RunFailed)
		h.equal([]any{lost.Attempt, lost.Code}, []any{3, event.RunWorkerLost}, "the third time")
		h.live(r.Session, false)
	},
	"a run whose worker is lost fails": func(h *runHouse) {
		h.queued()
		r := h.renew(h.claim().Run)
		changed, _ := h.sweep(6 * time.Minute)
		h.equal(changed, []event.Run{h.run(r.ID, event.RunFailed)}, "changed")
		h.equal(changed[0].Code, event.RunWorkerLost, "code")
		h.equal(h.deliveries(r.ID), []event.RunDeliveryStatus{event.DeliveryDelivered}, "deliveries")
		h.live(r.Session, false)
	},
	"a lost run whose session wrote is not queued again": func(h *runHouse) {
		id := h.queued()
		h.began(h.claim().Run.Session, action.RiskRead)
		h.sweep(6 * time.Minute)
		h.run(id, event.RunQueued)
		h.began(h.claim().Run.Session, action.RiskWrite)
		h.run(id, event.RunClaimed)
		changed, _ := h.sweep(6 * time.Minute)
		h.equal(changed, []event.Run{h.run(id, event.RunFailed)}, "changed")
		h.equal(changed[0].Code, event.RunWorkerLost, "code")
		h.live(changed[0].Session, false)
	},
	"a run that waits for a person keeps its lease": func(h *runHouse) {
		h.queued()
		r := h.renew(h.claim().Run)
		call := h.held(r.Session)
		changed, _ := h.sweep(4*time.Minute + 30*time.Second)
		h.equal(len(changed), 0, "changed")
		if until := h.run(r.ID, event.RunNeedsHuman).LeaseUntil; until.Sub(*r.LeaseUntil) < 4*time.Minute {
			h.Errorf("the lease ends at %s, and did at %s", until, r.LeaseUntil)
		}
		h.approve(call)
		changed, _ = h.sweep(9 * time.Minute)
		h.equal(len(changed), 0, "changed after the decision")
		h.sweep(10 * time.Minute)
		h.equal(h.run(r.ID, event.RunFailed).Code, event.RunWorkerLost, "code in the end")
	},
	"a pending call created since the sweep's read keeps the run": func(h *runHouse) {
		h.queued()
		r := h.renew(h.claim().Run)
		row, err := inbound.ReadRun(h.ctx, h.db.db.Read, h.org, r.ID)
		h.ok(err)
		call := h.held(r.Session)
		if _, err := h.db.SweepRun(h.ctx, row, inbound.EndLostRun(row), h.db.db.Now()); !errors.Is(err, inbound.ErrRunChanged) {
			h.Fatalf("error %v", err)
		}
		h.run(r.ID, event.RunNeedsHuman)
		h.live(r.Session, true)
		h.approve(call)
	},
	"a lease renewed since the sweep's read keeps the run": func(h *runHouse) {
		h.queued()
		r := h.claim().Run
		row, err := inbound.ReadRun(h.ctx, h.db.db.Read, h.org, r.ID)
		h.ok(err)
		h.renew(r)
		if _, err := h.db.SweepRun(h.ctx, row, inbound.EndLostRun(row), h.db.db.Now()); !errors.Is(err, inbound.ErrRunChanged) {
			h.Fatalf("error %v", err)
		}
		h.run(r.ID, event.RunRunning)
		h.live(r.Session, true)
	},
	"a run fails after its deadline, also while it waits for a person": func(h *runHouse) {
		h.queued()
		h.queued()
		c := h.wish()
		c.Lease = 0
		w, err := h.db.ClaimRun(h.ctx, c)
		h.ok(err)
		h.equal(w.Run.LeaseUntil == nil, true, "it has no lease")
		waits := h.renew(h.claim().Run)
		call := h.held(waits.Session)
		changed, _ := h.sweep(59 * time.Minute)
		h.equal(len(changed), 0, "changed before")
		changed, withdrew := h.sweep(61 * time.Minute)
		h.equal([]any{len(changed), len(withdrew), withdrew[0].ID}, []any{2, 1, call}, "changed, withdrawn")
		for _, r := range []event.Run{w.Run, waits} {
			h.equal(h.run(r.ID, event.RunFailed).Code, event.RunTimedOut, "code")
			h.live(r.Session, false)
		}
	},
	"a run fails when its session is revoked": func(h *runHouse) {
		h.queued()
		r := h.claim().Run
		h.held(r.Session)
		_, err := h.db.RevokeSession(h.ctx, h.org, r.Session)
		h.ok(err)
		changed, _ := h.sweep(0)
		h.equal(changed, []event.Run{h.run(r.ID, event.RunFailed)}, "changed")
		h.equal(changed[0].Code, event.RunSessionLost, "code")
	},
	"a sweep respects its limit": func(h *runHouse) {
		h.sweep(6 * time.Minute) // what others left
		for range 5 {
			h.queued()
			h.renew(h.claim().Run)
		}
		changed, _, err := h.db.SweepRuns(h.ctx, h.db.db.Now().Add(6*time.Minute), 2)
		h.ok(err)
		h.equal(len(changed), 2, "changed")
		rest, _ := h.sweep(6 * time.Minute)
		h.equal(len(rest), 3, "changed afterwards")
	},
	"people decide, workers finish and sweeps end, all at once": func(h *runHouse) {
		const n = 8
		var claims [n]event.Run
		var calls [n][2]string
		for i := range n {
			h.queued()
			claims[i] = h.renew(h.claim().Run)
			calls[i] = [2]string{h.held(claims[i].Session), h.held(claims[i].Session)}
		}
		var finished, cancelled, swept atomic.Int64
		told := func(err error, kinds ...error) {
			for _, kind := range kinds {
				if errors.Is(err, kind) {
					return
				}
			}
			if err != nil {
				h.Error(err)
			}
		}
		atOnce(6*n, func(i int) {
			r, db := claims[i%n], h.any(i)
			switch i / n {
			case 0, 1:
				_, err := db.Approve(h.ctx, h.verdict(calls[i%n][i/n]))
				told(err, action.ErrConflict)
			case 2:
				_, _, err := db.FinishRun(h.ctx, h.org, r.ID, r.Claim, succeeded)
				if err == nil {
					finished.Add(1)
				}
				told(err, action.ErrConflict)
			case 3:
				changed, _, err := db.SweepRuns(h.ctx, h.db.db.Now().Add(6*time.Minute), 100)
				for _, r := range changed {
					if r.Organization == h.org {
						swept.Add(1)
					}
				}
				told(err)
			case 4:
				_, _, err := db.CancelRun(h.ctx, h.org, r.ID, "alice", "")
				if err == nil {
					cancelled.Add(1)
				}
				told(err, action.ErrConflict)
			case 5:
				_, err := db.Begin(h.ctx, heldCall(h.org, r.Session))
				told(err, action.ErrUnauthenticated)
			}
		})
		h.equal(finished.Load()+cancelled.Load()+swept.Load(), int64(n), "runs that were ended")
		for _, r := range claims {
			end, err := h.db.Run(h.ctx, h.org, r.ID)
			h.ok(err)
			h.equal([]any{end.Status.Ended(), end.Waiting, end.Claim}, []any{true, 0, ""}, "the run")
			h.live(r.Session, false)
		}
	},
}
