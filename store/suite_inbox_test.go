package store_test

import (
	"slices"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// receipt is a delivery at a trigger's own URL, as ingest would keep it.
func (h *house) receipt(t event.Trigger, key string) event.Receipt {
	return event.Receipt{
		ID: newID(), Organization: h.org.ID, Endpoint: "direct/" + t.Provider + "/" + t.ID, Provider: t.Provider, Trigger: t.ID, Key: key,
		Size: 100, ReceivedAt: h.now, Sealed: []byte("sealed " + key),
	}
}

// received keeps one and returns it.
func (h *house) received(t event.Trigger, key string) event.Receipt {
	h.Helper()
	r := h.receipt(t, key)
	must(h.db.Receive(h.ctx, r))(h)
	return r
}

// repeated receives the same one, and checks whether that is something to do.
func (h *house) repeated(t event.Trigger, key string, fresh bool) {
	h.Helper()
	h.equal(must(h.db.Receive(h.ctx, h.receipt(t, key)))(h), fresh, "something to do")
}

// taken claims deliveries for a worker, for an hour.
func (h *house) taken(worker string, want int) []event.Receipt {
	h.Helper()
	list := must(h.db.ClaimReceipts(h.ctx, worker, 100, time.Hour))(h)
	h.equal(len(list), want, "deliveries that "+worker+" claimed")
	return list
}

// match is an event of a trigger, with a run.
func (h *house) match(t event.Trigger, key string) event.Match {
	return event.Match{
		Run: newID(), Sealed: []byte("sealed context of " + key),
		Record: event.Record{
			ID: newID(), Organization: h.org.ID, Trigger: t.ID, Automation: t.Automation, Provider: t.Provider, Type: t.Type, Key: key,
			Native: "issues:opened", Title: "Issue " + key, URL: "https://example.com/" + key, OccurredAt: &h.now, CreatedAt: h.now,
			Redacted: []byte(`{"key":"` + key + `"}`),
		},
	}
}

func completed(r event.Receipt, matches ...event.Match) event.Settlement {
	for i := range matches {
		matches[i].Record.Receipt = r.ID
	}
	return event.Settlement{Receipt: r, Status: event.ReceiptCompleted, Native: "issues", Redacted: []byte(`{"action":"opened"}`), Matches: matches}
}

func (h *house) settle(worker string, list ...event.Settlement) []event.Run {
	h.Helper()
	return must(h.db.Settle(h.ctx, worker, list))(h).Runs
}

// tally counts events, those of them that are skipped, runs and deliveries.
func (h *house) tally() [4]int {
	h.Helper()
	skipped := true
	return [4]int{
		must(h.db.ListEvents(h.ctx, event.RecordFilter{Organization: h.org.ID}))(h).Total,
		must(h.db.ListEvents(h.ctx, event.RecordFilter{Organization: h.org.ID, Skipped: &skipped}))(h).Total,
		must(h.db.ListRuns(h.ctx, event.RunFilter{Organization: h.org.ID}))(h).Total,
		must(h.db.ListRunDeliveries(h.ctx, event.RunDeliveryFilter{Organization: h.org.ID, Status: event.DeliveryPending}))(h).Total,
	}
}

func (h *house) kept(id string) event.Receipt {
	h.Helper()
	return must(h.db.Receipt(h.ctx, h.org.ID, id))(h)
}

func (h *house) record(id string) event.Record {
	h.Helper()
	return must(h.db.Event(h.ctx, h.org.ID, id))(h)
}

var inboxStories = map[string]func(*house){
	"a delivery is received, claimed and settled": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		r := h.received(t, "k1")
		want := r
		want.Status, want.NextAt = event.ReceiptQueued, h.now
		h.equal(h.kept(r.ID), want, "what is kept")
		claimed := h.taken("w", 1)[0]
		want.Status, want.Attempt = event.ReceiptProcessing, 1
		h.equal(claimed, want, "what is claimed")

		m := h.match(t, "d1")
		runs := h.settle("w", completed(claimed, m))
		if len(runs) != 1 {
			h.Fatalf("runs %+v", runs)
		}
		h.equal(runs[0], event.Run{
			ID: m.Run, Organization: h.org.ID, Automation: t.Automation, Event: m.Record.ID, Trigger: t.ID, Status: event.RunQueued,
			Title: "Issue d1", CreatedAt: runs[0].CreatedAt,
		}, "what is returned of the run")
		run := must(h.db.Run(h.ctx, h.org.ID, m.Run))(h)
		run.Result = nil
		h.equal(run, runs[0], "the run")
		record := m.Record
		record.Receipt, record.Run, record.RunStatus = r.ID, m.Run, event.RunQueued
		h.equal(h.record(record.ID), record, "the event")
		h.equal(must(h.db.EventContext(h.ctx, h.org.ID, record.ID))(h), m.Sealed, "its context")
		h.equal(h.tally(), [4]int{1, 0, 1, 1}, "events, skipped ones, runs, deliveries")

		got := h.kept(r.ID)
		want.Status, want.Native, want.Redacted, want.Sealed, want.EndedAt = event.ReceiptCompleted, "issues", []byte(`{"action":"opened"}`), nil, got.EndedAt
		h.equal(got, want, "the delivery then")
		if got.EndedAt == nil {
			h.Error("it ended at no time")
		}
		if at := must(h.db.Trigger(h.ctx, h.org.ID, t.ID))(h).LastEventAt; at == nil {
			h.Error("the trigger does not know that something matched")
		}
		h.taken("w", 0)
	},
	"a repeated delivery changes nothing, except that a failed one is queued again": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		r := h.received(t, "k1")
		h.repeated(t, "k1", false)
		first := h.taken("w", 1)[0]
		h.equal(first.ID, r.ID, "the delivery")
		h.repeated(t, "k1", false)
		h.taken("w", 0)
		h.settle("w", event.Settlement{Receipt: first, Status: event.ReceiptFailed, Error: "no."})
		got := h.kept(r.ID)
		h.equal([]any{got.Status, got.LastError, got.Sealed}, []any{event.ReceiptFailed, "no.", r.Sealed}, "what failed")
		h.repeated(t, "k1", true)
		second := h.taken("w", 1)[0]
		h.equal([]any{second.ID, second.Attempt, second.LastError, second.Sealed}, []any{r.ID, 1, "", r.Sealed}, "the delivery then")
		h.settle("w", completed(second))
		h.repeated(t, "k1", false)
		h.taken("w", 0)
		other := t
		other.ID = newID()
		h.received(other, "k1") // at another endpoint
		h.taken("w", 1)
	},
	"an unmatched delivery is kept and can be queued again": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		r := h.received(t, "k1")
		nobody := func() {
			h.Helper()
			s := completed(h.taken("w", 1)[0])
			s.KeepPayload, s.Error, s.BodyHash, s.DedupWindow = true, "There is no integration.", "hash", time.Hour
			h.settle("w", s)
			got := h.kept(r.ID)
			h.equal([]any{got.Status, got.LastError, got.Sealed}, []any{event.ReceiptCompleted, "There is no integration.", r.Sealed}, "what is kept")
		}
		nobody()
		h.repeated(t, "k1", true)
		nobody()
		h.equal(must(h.db.RedriveReceipt(h.ctx, h.org.ID, r.ID, "alice"))(h).Status, event.ReceiptQueued, "the delivery")
		last := completed(h.taken("w", 1)[0], h.match(t, "d1"))
		last.Redacted = nil // it was somebody else's
		h.equal(len(h.settle("w", last)), 1, "runs")
		got := h.kept(r.ID)
		h.equal([]any{got.Status, got.LastError, got.Sealed, got.Redacted}, []any{event.ReceiptCompleted, "", []byte(nil), []byte(nil)}, "the delivery then")
		h.repeated(t, "k1", false)
		_, err := h.db.RedriveReceipt(h.ctx, h.org.ID, r.ID, "alice")
		h.refused(err, action.ErrConflict, "not_failed")
		other := h.received(t, "k2") // what reached nobody is the same as none
		s := completed(h.taken("w", 1)[0], h.match(t, "d2"))
		s.BodyHash, s.DedupWindow = "hash", time.Hour
		h.equal(len(h.settle("w", s)), 1, "runs of "+other.ID)
	},
	"groups are polled only when due": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		later := h.receipt(t, "later")
		later.NextAt = h.now.Add(time.Hour)
		must(h.db.Receive(h.ctx, later))(h)
		now := h.received(t, "now")
		claimed := h.taken("w", 1)[0]
		h.equal(claimed.ID, now.ID, "what is due")
		h.settle("w", event.Settlement{Receipt: claimed, Status: event.ReceiptQueued, NextAt: h.now.Add(time.Minute), Error: "The service is away.", Failures: 2, Losses: 3})
		got := h.kept(now.ID)
		h.equal([]any{got.Status, got.NextAt, got.LastError, got.EndedAt == nil, got.Failures, got.Losses}, []any{event.ReceiptQueued, h.now.Add(time.Minute), "The service is away.", true, 2, 3}, "what was given back")
		h.taken("w", 0)
	},
	"claims are the oldest first, not more than asked, and bounded by size": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		var ids []string
		for _, size := range []int{25 << 20, 7 << 20, 25 << 20, 40 << 20, 1} {
			r := h.receipt(t, newID())
			r.Size, r.ReceivedAt = size, h.now.Add(time.Duration(len(ids)-10)*time.Second)
			must(h.db.Receive(h.ctx, r))(h)
			ids = append(ids, r.ID)
		}
		for _, want := range [][]string{ids[:2], ids[2:4], ids[4:]} {
			var got []string
			for _, r := range must(h.db.ClaimReceipts(h.ctx, "w", 2, time.Hour))(h) {
				got = append(got, r.ID)
			}
			h.equal(got, want, "claimed")
		}
		h.taken("w", 0)
		h.ok(h.db.RenewReceipts(h.ctx, "w", ids, -time.Second))
		h.taken("other", 2) // of what the worker lost, the third is too much
	},
	"a lost worker loses its deliveries": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		h.received(t, "k1")
		lost := must(h.db.ClaimReceipts(h.ctx, "lost", 10, -time.Second))(h)
		h.equal(len(lost), 1, "claimed")
		taken := h.taken("next", 1)
		h.equal([]int{taken[0].Attempt, taken[0].Losses}, []int{2, 1}, "the attempt, and losses")
		h.ok(h.db.RenewReceipts(h.ctx, "lost", []string{lost[0].ID}, -time.Second))
		h.taken("third", 0)

		h.equal(len(h.settle("lost", completed(lost[0], h.match(t, "d1")))), 0, "runs of who lost it")
		mine := taken[0]
		mine.Attempt = 1 // an earlier claim of the same worker
		h.equal(len(h.settle("next", completed(mine, h.match(t, "d1")))), 0, "runs of an earlier claim")
		h.equal(h.tally(), [4]int{}, "events, skipped ones, runs, deliveries")
		h.equal(h.kept(mine.ID).Status, event.ReceiptProcessing, "the delivery")
		h.equal(len(h.settle("next", completed(taken[0], h.match(t, "d1")))), 1, "runs of who has it")
		h.equal(len(h.settle("next", completed(taken[0], h.match(t, "d2")))), 0, "runs when it is settled again")
		h.equal(h.kept(mine.ID).Losses, 0, "losses then")
		h.equal(h.tally(), [4]int{1, 0, 1, 1}, "events, skipped ones, runs, deliveries")
	},
	"the same body under another id is the same delivery, for a while": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		start := h.now.Add(-time.Hour)
		step := func(minutes int, key, endpoint string) event.Settlement {
			h.Helper()
			r := h.receipt(t, key)
			r.ReceivedAt = start.Add(time.Duration(minutes) * time.Minute)
			if endpoint != "" {
				r.Endpoint = endpoint
			}
			must(h.db.Receive(h.ctx, r))(h)
			s := completed(h.taken("w", 1)[0], h.match(t, key))
			s.BodyHash, s.DedupWindow = "hash", 5*time.Minute
			return s
		}
		for _, c := range []struct {
			minutes       int
			key, endpoint string
			runs          int
		}{{0, "a", "", 1}, {4, "b", "", 0}, {4, "c", "direct/slack", 1}, {5, "d", "", 1}, {9, "e", "", 0}, {6, "f", "", 0}, {-1, "g", "", 1}, {9, "h", "", 0}} {
			s := step(c.minutes, c.key, c.endpoint)
			out := must(h.db.Settle(h.ctx, "w", []event.Settlement{s}))(h)
			h.equal([]int{len(out.Runs), len(out.Duplicates)}, []int{c.runs, 1 - c.runs}, "runs and doubles of "+c.key)
			r := h.kept(s.Receipt.ID)
			h.equal([]any{r.Duplicate, r.Status, r.Sealed == nil}, []any{c.runs == 0, event.ReceiptCompleted, true}, "the delivery "+c.key)
		}
		// In one batch, the later one first.
		first, second, other := step(30, "i", ""), step(31, "j", ""), step(36, "k", "")
		failed := step(29, "l", "") // it came to nothing, so that the next one counts
		failed.Status, failed.Error, failed.Matches = event.ReceiptFailed, "no.", nil
		h.equal(len(h.settle("w", other, second, failed, first)), 2, "runs of a batch")
		h.equal([]bool{h.kept(first.Receipt.ID).Duplicate, h.kept(second.Receipt.ID).Duplicate, h.kept(other.Receipt.ID).Duplicate}, []bool{false, true, false}, "doubled")
	},
	"body hashes are kept as long as deliveries, and only of matched deliveries": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		for range 3 { // of two hours ago: the service asked to be left alone
			r := h.receipt(t, newID())
			r.ReceivedAt = h.now.Add(-2 * time.Hour)
			must(h.db.Receive(h.ctx, r))(h)
		}
		for i, r := range h.taken("w", 3) {
			s := completed(r)
			if s.BodyHash, s.DedupWindow = "hash", 5*time.Minute; i > 0 {
				s.Matches = []event.Match{h.match(t, newID())}
			}
			h.equal(len(h.settle("w", s)), []int{0, 1, 0}[i], "runs")
			must(h.db.PurgeInbound(h.ctx, h.now.Add(-720*time.Hour), 100))(h)
		}
	},
	"failed deliveries can be queued again": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		var ids []string
		for range 5 {
			h.later(time.Millisecond)
			ids = append(ids, h.received(t, newID()).ID)
		}
		claimed := must(h.db.ClaimReceipts(h.ctx, "w", 3, time.Hour))(h)
		h.settle("w", event.Settlement{Receipt: claimed[0], Status: event.ReceiptFailed, Error: "no."}, completed(claimed[1]))
		for status, want := range map[event.ReceiptStatus][]string{
			"": {ids[4], ids[3], ids[2], ids[1], ids[0]}, event.ReceiptQueued: {ids[4], ids[3]}, event.ReceiptProcessing: {ids[2]},
			event.ReceiptCompleted: {ids[1]}, event.ReceiptFailed: {ids[0]},
		} {
			for _, trigger := range []string{"", t.ID} {
				f := event.ReceiptFilter{Organization: h.org.ID, Trigger: trigger, Status: status, Limit: 2}
				var got []string
				for page := must(h.db.ListReceipts(h.ctx, f))(h); ; page = must(h.db.ListReceipts(h.ctx, f))(h) {
					h.equal(page.Total, len(want), "total")
					for _, r := range page.Items {
						got = append(got, r.ID)
						if r.Sealed != nil {
							h.Error("a list shows what is sealed")
						}
					}
					if f.Cursor = page.Next; f.Cursor == "" {
						break
					}
				}
				h.equal(got, want, "deliveries "+string(status))
			}
		}
		_, err := h.db.ListReceipts(h.ctx, event.ReceiptFilter{Organization: h.org.ID, Status: "lost"})
		h.refused(err, action.ErrInvalid, "invalid")
		_, err = h.db.Receipt(h.ctx, "another", ids[0])
		h.refused(err, action.ErrNotFound, "delivery_not_found")
		_, err = h.db.RedriveReceipt(h.ctx, "another", ids[0], "alice")
		h.refused(err, action.ErrNotFound, "delivery_not_found")
		_, err = h.db.RedriveReceipt(h.ctx, h.org.ID, ids[1], "alice")
		h.refused(err, action.ErrConflict, "not_failed")

		got := must(h.db.RedriveReceipt(h.ctx, h.org.ID, ids[0], "alice"))(h)
		h.equal([]any{got.Status, got.Attempt, got.LastError, got.EndedAt == nil}, []any{event.ReceiptQueued, 0, "", true}, "what is returned")
		h.equal(h.kept(ids[0]), got, "the delivery")
		h.equal(h.kinds(1), []string{action.EventDelivery}, "history")
		again := h.taken("w", 3)
		h.equal(slices.ContainsFunc(again, func(r event.Receipt) bool { return r.ID == ids[0] }), true, "it is worked off")
	},
}
