package store_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"sallyport/ingest/event"
)

// work claims and settles until nothing is left.
func (h *house) work(i int, settle func(r event.Receipt) event.Settlement) {
	worker := fmt.Sprint("w", i)
	for empty := 0; empty < 3; {
		list, err := h.any(i).ClaimReceipts(h.ctx, worker, 7, time.Hour)
		if err != nil {
			h.Error(err)
			return
		}
		if len(list) == 0 {
			empty++
			continue
		}
		settlements := make([]event.Settlement, 0, len(list))
		for _, r := range list {
			settlements = append(settlements, settle(r))
		}
		if _, err := h.any(i).Settle(h.ctx, worker, settlements); err != nil {
			h.Error(err)
		}
	}
}

var inboxRaceStories = map[string]func(*house){
	"500 copies of one delivery come in while two workers work: one run": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		together(502, func(i int) {
			if i >= 500 {
				h.work(i, func(r event.Receipt) event.Settlement { return completed(r, h.match(t, "d1")) })
				return
			}
			if _, err := h.any(i).Receive(h.ctx, h.receipt(t, "k1")); err != nil {
				h.Error(err)
			}
		})
		h.work(0, func(r event.Receipt) event.Settlement { return completed(r, h.match(t, "d1")) })
		h.equal(h.tally(), [4]int{1, 0, 1, 1}, "events, skipped ones, runs, deliveries")
		h.equal(must(h.db.ListReceipts(h.ctx, event.ReceiptFilter{Organization: h.org.ID}))(h).Total, 1, "deliveries")
	},
	"workers with the same events in another order do not deadlock": func(h *house) {
		a := h.automation("Triage")
		triggers := []event.Trigger{h.trigger(h.webhook(a)), h.trigger(h.webhook(a)), h.trigger(h.webhook(a))}
		for range 120 {
			h.received(triggers[0], newID())
		}
		var claims atomic.Int64
		together(6, func(i int) {
			h.work(i, func(r event.Receipt) event.Settlement {
				claims.Add(1)
				var list []event.Match
				for key := range 5 {
					for _, t := range triggers {
						list = append(list, h.match(t, fmt.Sprint(key)))
					}
				}
				if i%2 == 0 {
					slices.Reverse(list)
				}
				return completed(r, list...)
			})
		})
		h.equal(claims.Load(), int64(120), "claims")
		h.equal(h.tally(), [4]int{15, 0, 15, 15}, "events, skipped ones, runs, deliveries")
	},
	"two concurrent deliveries of one body create one run": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		const pairs = 20
		for i := range 2 * pairs {
			h.received(t, fmt.Sprint(i))
		}
		all := h.taken("w", 2*pairs)
		together(2, func(i int) {
			for n := range pairs {
				s := completed(all[2*n+i], h.match(t, all[2*n+i].Key))
				s.BodyHash, s.DedupWindow = fmt.Sprint("body ", n), 5*time.Minute
				if _, err := h.any(i).Settle(h.ctx, "w", []event.Settlement{s}); err != nil {
					h.Error(err)
				}
			}
		})
		h.equal(h.tally(), [4]int{pairs, 0, pairs, pairs}, "events, skipped ones, runs, deliveries")
		doubled := 0
		for _, r := range must(h.db.ListReceipts(h.ctx, event.ReceiptFilter{Organization: h.org.ID}))(h).Items {
			if r.Duplicate {
				doubled++
			}
		}
		h.equal(doubled, pairs, "doubled")
	},
	"an automation is deleted while its events come in: no run outlives it": func(h *house) {
		for range 5 {
			a := h.automation(newID())
			t := h.trigger(h.webhook(a))
			for range 12 {
				h.received(t, newID())
			}
			together(4, func(i int) {
				if i > 0 {
					h.work(i, func(r event.Receipt) event.Settlement { return completed(r, h.match(t, r.Key)) })
					return
				}
				if err := h.db.DeleteAutomation(h.ctx, h.org.ID, a.ID, "alice"); err != nil {
					h.Error(err)
				}
			})
		}
		h.equal(must(h.db.ListRuns(h.ctx, event.RunFilter{Organization: h.org.ID, Status: event.RunQueued}))(h).Total, 0, "runs that wait")
	},
}
