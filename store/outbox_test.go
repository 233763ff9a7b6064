package store

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/ingest/event"
)

func TestOutbox(t *testing.T) { playRuns(t, outboxStories) }

// endpoint says where the house's runs are delivered to.
func (h *runHouse) endpoint(enabled bool) {
	h.Helper()
	_, err := h.db.SetRunEndpoint(h.ctx, event.Endpoint{Organization: h.org, URL: "https://example.com/runs", Enabled: enabled, UpdatedBy: "alice"},
		&event.Secret{ID: uuid.NewString(), Sealed: []byte("sealed secret"), CreatedAt: h.db.db.Now()})
	h.ok(err)
}

// dispatches are what a worker is given to send of this house.
func (h *runHouse) dispatches(worker string) (mine []event.Dispatch) {
	h.Helper()
	list, err := h.db.ClaimRunDeliveries(h.ctx, worker, 1000, time.Minute, 48*time.Hour)
	h.ok(err)
	for _, d := range list {
		if d.Delivery.Organization == h.org {
			mine = append(mine, d)
		}
	}
	return mine
}

func (h *runHouse) dispatch() event.Dispatch {
	h.Helper()
	list := h.dispatches("dispatcher")
	if len(list) != 1 {
		h.Fatalf("%d deliveries to send, want one", len(list))
	}
	return list[0]
}

func (h *runHouse) settle(d event.Dispatch, s event.RunDeliveryStatus) (event.Run, bool) {
	h.Helper()
	if d.Delivery.FirstAt == nil {
		now := h.db.db.Now()
		d.Delivery.FirstAt = &now
	}
	r, held, err := h.db.SettleRunDelivery(h.ctx, "dispatcher", event.DispatchResult{Delivery: d.Delivery, Status: s, NextAt: h.db.db.Now(), HTTP: 503, Error: "It is away."})
	h.ok(err)
	return r, held
}

func (h *runHouse) delivery(id string, want event.RunDeliveryStatus) event.RunDelivery {
	h.Helper()
	p, err := h.db.RunDelivery(h.ctx, h.org, id)
	h.ok(err)
	if p.Status != want {
		h.Fatalf("the delivery is %s, want %s", p.Status, want)
	}
	return p
}

var outboxStories = map[string]func(*runHouse){
	"without an enabled endpoint nothing is sent": func(h *runHouse) {
		h.queued()
		h.equal(len(h.dispatches("d")), 0, "without one")
		h.endpoint(false)
		h.equal(len(h.dispatches("d")), 0, "with one that is disabled")
		h.endpoint(true)
		h.equal(len(h.dispatches("d")), 1, "with an enabled one")
		h.equal(len(h.dispatches("d")), 0, "a second time")
	},
	"runs of a disabled automation are not sent, but for what was begun": func(h *runHouse) {
		h.endpoint(true)
		begun := h.queued()
		d := h.dispatch()
		h.enabled(false)
		waits := h.queued()
		h.settle(d, event.DeliveryPending)
		h.equal(h.dispatch().Work.Run.ID, begun, "what is sent")
		h.run(waits, event.RunQueued)
		h.enabled(true)
		h.equal(h.dispatch().Work.Run.ID, waits, "what is sent then")
	},
	"a delivery claims its run": func(h *runHouse) {
		h.endpoint(true)
		id := h.queued()
		d := h.dispatch()
		r := h.run(id, event.RunClaimed)
		h.equal(d.Work.Run, r, "what was returned and what is stored")
		h.equal([]any{r.ClaimedBy, r.LeaseUntil == nil, r.Attempt, string(d.Work.Sealed)}, []any{"endpoint", true, 1, "sealed"}, "the run")
		h.equal([]any{d.Endpoint.URL, len(d.Endpoint.Secrets), d.Delivery.Attempt, d.Delivery.FirstAt == nil}, []any{"https://example.com/runs", 1, 1, true}, "the delivery")
		h.equal(h.delivery(d.Delivery.ID, event.DeliverySending), d.Delivery, "what was returned and what is stored")
		_, err := h.db.ClaimRun(h.ctx, h.wish())
		h.refused(err, action.ErrNotFound, "no_run")
		got, held := h.settle(d, event.DeliveryDelivered)
		h.equal([]any{got, held}, []any{r, true}, "the run")
		p := h.delivery(d.Delivery.ID, event.DeliveryDelivered)
		h.equal([]any{p.LastStatus, p.LastError, p.EndedAt != nil}, []any{503, "It is away.", true}, "the delivery")
		h.finish(r, succeeded)
		_, held = h.settle(d, event.DeliveryDead)
		h.equal(held, false, "held after it was settled")
		h.run(id, event.RunSucceeded)
	},
	"each attempt carries the same session and claim": func(h *runHouse) {
		h.endpoint(true)
		h.queued()
		first := h.dispatch()
		h.settle(first, event.DeliveryPending)
		h.equal(h.delivery(first.Delivery.ID, event.DeliveryPending).LastStatus, 503, "what it answered")
		second := h.dispatch()
		h.equal(second.Work, first.Work, "the work of the second attempt")
		h.equal([]any{second.Delivery.Attempt, second.Delivery.FirstAt != nil}, []any{2, true}, "the second attempt")
		// The dispatcher dies.
		h.equal(len(h.dispatches("other")), 0, "while it has its lease")
		h.sweep(2 * time.Minute)
		third := h.dispatches("other")
		h.equal(third[0].Work, first.Work, "the work of the third attempt")
		_, held := h.settle(second, event.DeliveryDelivered)
		h.equal(held, false, "held by who died")
		h.sweep(2 * time.Minute)
		h.dispatch()
		_, held = h.settle(second, event.DeliveryDelivered)
		h.equal(held, false, "held by an attempt of before")
		h.delivery(first.Delivery.ID, event.DeliverySending)
	},
	"what is due later waits": func(h *runHouse) {
		h.endpoint(true)
		h.queued()
		d := h.dispatch()
		_, _, err := h.db.SettleRunDelivery(h.ctx, "dispatcher", event.DispatchResult{Delivery: d.Delivery, Status: event.DeliveryPending, NextAt: h.db.db.Now().Add(time.Hour)})
		h.ok(err)
		h.equal(len(h.dispatches("d")), 0, "deliveries that are due")
	},
	"an undelivered run fails, and can be delivered again": func(h *runHouse) {
		h.endpoint(true)
		h.queued()
		d := h.dispatch()
		r, held := h.settle(d, event.DeliveryDead)
		h.equal([]any{r, held}, []any{h.run(r.ID, event.RunFailed), true}, "the run")
		h.equal(r.Code, event.RunUndelivered, "code")
		h.live(r.Session, false)
		dead, err := h.db.ListRunDeliveries(h.ctx, event.RunDeliveryFilter{Organization: h.org, Status: event.DeliveryDead})
		h.ok(err)
		h.equal([]any{dead.Total, dead.Items[0]}, []any{1, h.delivery(d.Delivery.ID, event.DeliveryDead)}, "dead ones")
		_, err = h.db.RedriveRun(h.ctx, h.org, r.ID, "alice")
		h.ok(err)
		again := h.dispatch()
		if again.Delivery.ID == d.Delivery.ID || again.Work.Run.Session == d.Work.Run.Session || again.Work.Run.Claim == d.Work.Run.Claim {
			h.Error("delivery, session or claim are the old ones")
		}
		_, held = h.settle(d, event.DeliveryDelivered)
		h.equal(held, false, "held by the first")
	},
	"a run that is worked on is delivered, whatever its endpoint answered": func(h *runHouse) {
		h.endpoint(true)
		h.queued()
		d := h.dispatch()
		h.renew(d.Work.Run)
		h.delivery(d.Delivery.ID, event.DeliveryDelivered)
		_, held := h.settle(d, event.DeliveryDead)
		h.equal(held, false, "held")
		h.run(d.Work.Run.ID, event.RunRunning)
		// Another one makes a call at once, which waits.
		h.queued()
		d = h.dispatch()
		h.held(d.Work.Run.Session)
		h.settle(d, event.DeliveryDead)
		h.run(d.Work.Run.ID, event.RunNeedsHuman)
		h.live(d.Work.Run.Session, true)
		h.delivery(d.Delivery.ID, event.DeliveryDelivered)
		// A third one writes without asking anybody, and its answer is lost.
		h.queued()
		d = h.dispatch()
		h.began(d.Work.Run.Session, action.RiskWrite)
		h.settle(d, event.DeliveryDead)
		h.run(d.Work.Run.ID, event.RunClaimed)
		h.live(d.Work.Run.Session, true)
		h.delivery(d.Delivery.ID, event.DeliveryDelivered)
	},
	"a changed endpoint gets undelivered runs again": func(h *runHouse) {
		set := func(url string, enabled bool) func() {
			return func() {
				_, err := h.db.SetRunEndpoint(h.ctx, event.Endpoint{Organization: h.org, URL: url, Enabled: enabled, UpdatedBy: "alice"}, nil)
				h.ok(err)
			}
		}
		for what, change := range map[string]func(){
			"gone":     func() { h.ok(h.db.DeleteRunEndpoint(h.ctx, h.org, "alice")) },
			"disabled": set("https://example.com/runs", false),
			"another":  set("https://example.com/other", true),
		} {
			set("https://example.com/runs", true)()
			id := h.queued()
			d := h.dispatch()
			changed, _ := h.sweep(0)
			h.equal(len(changed), 0, "changed while it is sent")
			h.settle(d, event.DeliveryPending)
			changed, _ = h.sweep(0)
			h.equal(len(changed), 0, "changed while its endpoint is there")
			change()
			changed, _ = h.sweep(0)
			h.equal(changed, []event.Run{h.run(id, event.RunQueued)}, what)
			h.live(d.Work.Run.Session, false)
			h.equal(h.deliveries(id), []event.RunDeliveryStatus{event.DeliveryVoid, event.DeliveryPending}, "deliveries")
			h.finish(h.claim().Run, succeeded)
		}
		// One that was begun stays in its hands.
		set("https://example.com/runs", true)()
		h.queued()
		d := h.dispatch()
		h.began(d.Work.Run.Session, action.RiskWrite)
		h.settle(d, event.DeliveryPending)
		set("https://example.com/runs", false)()
		changed, _ := h.sweep(0)
		h.equal(len(changed), 0, "changed though it was begun")
	},
	"organizations share the limit of a claim": func(h *runHouse) {
		h.dispatches("what others left")
		var houses []*runHouse
		for i, n := range []int{10, 1} {
			houses = append(houses, newRunHouse(h.T, h.dbs))
			houses[i].endpoint(true)
			for range n {
				houses[i].queued()
			}
		}
		list, err := h.db.ClaimRunDeliveries(h.ctx, "dispatcher", 8, time.Minute, time.Hour)
		h.ok(err)
		of := map[string]int{}
		for _, d := range list {
			of[d.Delivery.Organization]++
		}
		h.equal([]int{of[houses[0].org], of[houses[1].org]}, []int{7, 1}, "deliveries of each")
		for _, o := range houses {
			o.dispatches("the rest")
		}
	},
	"an ended call is not notified": func(h *runHouse) {
		h.endpoint(true)
		id := h.queued()
		d := h.dispatch()
		_, _, err := h.db.CancelRun(h.ctx, h.org, id, "alice", "")
		h.ok(err)
		_, held := h.settle(d, event.DeliveryPending)
		h.equal(held, false, "held after it was cancelled")
		h.delivery(d.Delivery.ID, event.DeliveryVoid)
		// One whose run ended without it.
		stray := h.queued()
		_, err = h.db.db.Write.DB.ExecContext(h.ctx, "UPDATE outbox SET attempt = 1 WHERE run_id = ?", stray)
		h.ok(err)
		_, err = h.db.db.Write.DB.ExecContext(h.ctx, "UPDATE runs SET status = 'skipped', completed_at = created_at WHERE id = ?", stray)
		h.ok(err)
		h.equal(len(h.dispatches("d")), 0, "deliveries to send")
		h.equal(h.deliveries(stray), []event.RunDeliveryStatus{event.DeliveryVoid}, "deliveries")
	},
	"dispatchers and workers share the runs, each once": func(h *runHouse) {
		h.endpoint(true)
		const n = 30
		for range n {
			h.queued()
		}
		var mu sync.Mutex
		got := map[string]int{}
		atOnce(24, func(i int) {
			for range 4 {
				if i%2 == 0 {
					w, err := h.any(i/2).ClaimRun(h.ctx, h.wish())
					mu.Lock()
					if err == nil {
						got[w.Run.ID]++
					} else if e := action.Public(err); e.Code != "no_run" {
						h.Error(err)
					}
					mu.Unlock()
					continue
				}
				list, err := h.any(i/2).ClaimRunDeliveries(h.ctx, uuid.NewString(), 3, time.Minute, time.Hour)
				if err != nil {
					h.Error(err)
				}
				mu.Lock()
				for _, d := range list {
					got[d.Work.Run.ID]++
				}
				mu.Unlock()
			}
		})
		for id, times := range got {
			if times != 1 {
				h.Errorf("run %s was given away %d times", id, times)
			}
		}
		h.equal(len(got), n, "runs that somebody has")
		p, err := h.db.ListRunDeliveries(h.ctx, event.RunDeliveryFilter{Organization: h.org, Status: event.DeliveryPending})
		h.ok(err)
		h.equal(p.Total, 0, "deliveries that are still due")
	},
	"deliveries are listed, newest first": func(h *runHouse) {
		first := "o" + h.queued()
		second := "o" + h.queued()
		p, err := h.db.ListRunDeliveries(h.ctx, event.RunDeliveryFilter{Organization: h.org, Limit: 1})
		h.ok(err)
		h.equal([]any{p.Total, p.Items[0].ID}, []any{2, second}, "the first page")
		p, err = h.db.ListRunDeliveries(h.ctx, event.RunDeliveryFilter{Organization: h.org, Limit: 1, Cursor: p.Next})
		h.ok(err)
		h.equal([]any{p.Items[0].ID, p.Next}, []any{first, ""}, "the second page")
		_, err = h.db.ListRunDeliveries(h.ctx, event.RunDeliveryFilter{Organization: h.org, Status: "x"})
		h.refused(err, action.ErrInvalid, "invalid")
		_, err = h.db.RunDelivery(h.ctx, newRunHouse(h.T, h.dbs).org, first)
		h.refused(err, action.ErrNotFound, "parcel_not_found")
	},
}
