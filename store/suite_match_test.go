package store_test

import (
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store"
)

// settled keeps a delivery and settles it with matches.
func (h *house) settled(t event.Trigger, matches ...event.Match) []event.Run {
	h.Helper()
	h.received(t, newID())
	return h.settle("w", completed(h.taken("w", 1)[0], matches...))
}

func skipped(m event.Match, why event.SkipReason) event.Match {
	m.Record.Skip, m.Run, m.Sealed = why, "", nil
	return m
}

var matchStories = map[string]func(*house){
	"foreign text does not fail a delivery": func(h *house) {
		t := h.webhook(h.automation("Triage"))
		t = h.trigger(t)
		m := h.match(t, "k")
		m.Record.Title, m.Record.Native, m.Record.Error = "It said '\x00' \\ ? \xff {ü}.", "\xff", `{"a",NULL}`
		h.equal(len(h.settled(t, m)), 1, "runs")
		got := must(h.db.Event(h.ctx, h.org.ID, m.Record.ID))(h)
		h.equal([]bool{strings.HasPrefix(got.Title, "It said '"), strings.HasSuffix(got.Title, "{ü}.")}, []bool{true, true}, "its title")
		h.equal(got.Error, m.Record.Error, "its error")
	},
	"of one key of one trigger there is one event": func(h *house) {
		a := h.automation("Triage")
		t, u := h.trigger(h.webhook(a)), h.trigger(h.webhook(a))
		h.equal(len(h.settled(t, h.match(t, "b"), h.match(u, "a"), h.match(t, "b"), h.match(t, "a"))), 3, "runs")
		h.equal(h.tally(), [4]int{3, 0, 3, 3}, "events, skipped ones, runs, deliveries")
		h.equal(len(h.settled(t, h.match(t, "a"), h.match(t, "c"), skipped(h.match(u, "a"), event.SkipFilter))), 1, "runs of another delivery")
		h.equal(h.tally(), [4]int{4, 0, 4, 4}, "events, skipped ones, runs, deliveries")
	},
	"a skipped event has no run, and matches of deleted triggers are dropped": func(h *house) {
		a, idle := h.automation("Triage"), h.automation("Idle")
		t, gone, off, lazy := h.trigger(h.webhook(a)), h.trigger(h.webhook(a)), h.trigger(h.webhook(a)), h.trigger(h.webhook(idle))
		h.ok(h.db.DeleteTrigger(h.ctx, h.org.ID, gone.ID, "alice"))
		off.Enabled = false
		must(h.db.UpdateTrigger(h.ctx, off, "alice"))(h)
		idle.Enabled = false
		must(h.db.UpdateAutomation(h.ctx, idle, "alice"))(h)
		foreign := h.match(t, "foreign")
		foreign.Record.Organization = store.DefaultOrganization
		filtered, idled := skipped(h.match(t, "filtered"), event.SkipFilter), h.match(lazy, "idle")
		h.equal(len(h.settled(t, filtered, idled, h.match(gone, "gone"), h.match(off, "off"), foreign)), 0, "runs")
		h.equal(h.tally(), [4]int{2, 2, 0, 0}, "events, skipped ones, runs, deliveries")
		for m, want := range map[*event.Match]event.SkipReason{&filtered: event.SkipFilter, &idled: event.SkipDisabled} {
			h.equal(h.record(m.Record.ID).Skip, want, "why it was skipped")
			h.equal(must(h.db.EventContext(h.ctx, h.org.ID, m.Record.ID))(h), []byte(nil), "its context")
		}
		if at := must(h.db.Trigger(h.ctx, h.org.ID, t.ID))(h).LastEventAt; at != nil {
			h.Error("an event that the filter did not want counts as one that matched")
		}
		if at := must(h.db.Trigger(h.ctx, h.org.ID, lazy.ID))(h).LastEventAt; at == nil {
			h.Error("an event that matched does not count")
		}
	},
	"an event whose run could not be created is retried": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		failed := skipped(h.match(t, "a"), event.SkipRunFailed)
		failed.Record.Error = "The context was too large."
		h.settled(t, failed)
		h.equal(h.tally(), [4]int{1, 1, 0, 0}, "events, skipped ones, runs, deliveries")
		again := h.match(t, "a")
		h.equal(len(h.settled(t, again)), 1, "runs")
		want := again.Record
		want.Receipt = h.record(want.ID).Receipt
		want.Run, want.RunStatus = again.Run, event.RunQueued
		h.equal(h.record(again.Record.ID), want, "the event")
		h.settled(t, failed)
		h.equal(h.tally(), [4]int{1, 0, 1, 1}, "events, skipped ones, runs, deliveries")
	},
	"an unverified event does not block a verified one": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		h.settled(t, skipped(h.match(t, "a"), event.SkipUnverified))
		h.equal(len(h.settled(t, skipped(h.match(t, "b"), event.SkipUnverified), h.match(t, "a"), h.match(t, "b"))), 2, "runs")
		h.settled(t, skipped(h.match(t, "a"), event.SkipUnverified))
		h.equal(h.tally(), [4]int{2, 0, 2, 2}, "events, skipped ones, runs, deliveries")
	},
	"an event is skipped while its run is queued": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		waiting, taken, filtered := h.match(t, "a"), h.match(t, "b"), skipped(h.match(t, "c"), event.SkipFilter)
		h.settled(t, waiting, taken, filtered)
		must(h.db.ClaimRun(h.ctx, event.Claim{Organization: h.org.ID, Run: taken.Run, By: "worker", Lease: time.Hour, Life: time.Hour}))(h)
		got := must(h.db.SkipEvent(h.ctx, h.org.ID, waiting.Record.ID, "alice"))(h)
		h.equal([]any{got.Skip, got.RunStatus, got.Status()}, []any{event.SkipManual, event.RunSkipped, "skipped"}, "what is returned")
		h.equal(h.record(waiting.Record.ID), got, "the event")
		run := must(h.db.Run(h.ctx, h.org.ID, waiting.Run))(h)
		h.equal([]any{run.Status, run.EndedAt != nil}, []any{event.RunSkipped, true}, "its run")
		deliveries := must(h.db.ListRunDeliveries(h.ctx, event.RunDeliveryFilter{Organization: h.org.ID, Status: event.DeliveryVoid}))(h)
		h.equal([]any{deliveries.Total, deliveries.Items[0].Run}, []any{1, waiting.Run}, "its delivery")
		h.equal(h.kinds(1), []string{action.EventRun}, "history")

		_, err := h.db.SkipEvent(h.ctx, h.org.ID, waiting.Record.ID, "alice")
		h.refused(err, action.ErrConflict, "already_skipped")
		_, err = h.db.SkipEvent(h.ctx, h.org.ID, filtered.Record.ID, "alice")
		h.refused(err, action.ErrConflict, "already_skipped")
		_, err = h.db.SkipEvent(h.ctx, h.org.ID, taken.Record.ID, "alice")
		h.refused(err, action.ErrConflict, "run_taken")
		_, err = h.db.SkipEvent(h.ctx, "another", taken.Record.ID, "alice")
		h.refused(err, action.ErrNotFound, "event_not_found")
		_, err = h.db.EventContext(h.ctx, "another", taken.Record.ID)
		h.refused(err, action.ErrNotFound, "event_not_found")
	},
	"events are listed with filters, newest first": func(h *house) {
		a, b := h.automation("Triage"), h.automation("Other")
		t, u := h.trigger(h.webhook(a)), h.trigger(h.webhook(b))
		name := map[string]string{}
		made := func(m event.Match, key string) event.Match {
			h.later(time.Millisecond)
			m.Record.CreatedAt, name[m.Record.ID] = h.now, key
			return m
		}
		h.settled(t, made(h.match(t, "1"), "1"), made(skipped(h.match(t, "2"), event.SkipFilter), "2"), made(h.match(u, "3"), "3"))
		h.settled(t, made(h.match(t, "4"), "4"), made(skipped(h.match(u, "5"), event.SkipFilter), "5"))
		receipts := must(h.db.ListReceipts(h.ctx, event.ReceiptFilter{Organization: h.org.ID}))(h).Items
		yes, no := true, false
		for want, f := range map[string]event.RecordFilter{
			"54321": {}, "421": {Trigger: t.ID}, "53": {Automation: b.ID}, "321": {Receipt: receipts[1].ID}, "52": {Skipped: &yes}, "431": {Skipped: &no},
			"5": {Trigger: u.ID, Automation: b.ID, Receipt: receipts[0].ID, Skipped: &yes},
		} {
			got := ""
			f.Organization, f.Limit = h.org.ID, 2
			for page := must(h.db.ListEvents(h.ctx, f))(h); ; page = must(h.db.ListEvents(h.ctx, f))(h) {
				h.equal(page.Total, len(want), "total")
				for _, r := range page.Items {
					got += name[r.ID]
					h.equal(r, h.record(r.ID), "an event in the list")
				}
				if f.Cursor = page.Next; f.Cursor == "" {
					break
				}
			}
			h.equal(got, want, "events")
		}
	},
	"payloads are forgotten, and what is still needed is not": func(h *house) {
		t := h.trigger(h.webhook(h.automation("Triage")))
		old, young := h.match(t, "old"), h.match(t, "young")
		young.Record.CreatedAt = h.now.Add(time.Minute)
		h.settled(t, old, young, skipped(h.match(t, "filtered"), event.SkipFilter))
		done := must(h.db.ListReceipts(h.ctx, event.ReceiptFilter{Organization: h.org.ID}))(h).Items[0]
		open := h.received(t, "open")
		before := h.now.Add(time.Second)
		got := 0
		for range 10 {
			n := must(h.db.PurgeInbound(h.ctx, before, 2))(h)
			if got += n; n > 2 {
				h.Errorf("%d at once", n)
			}
		}
		h.equal(got, 3, "rows: two events and a delivery")
		for id, want := range map[string]bool{old.Record.ID: false, young.Record.ID: true} {
			h.equal(h.record(id).Redacted != nil, want, "what is shown")
			h.equal(must(h.db.EventContext(h.ctx, h.org.ID, id))(h) != nil, want, "the context")
		}
		_, err := h.db.Receipt(h.ctx, h.org.ID, done.ID)
		h.refused(err, action.ErrNotFound, "delivery_not_found")
		h.equal(h.kept(open.ID).Sealed != nil, true, "what waits is kept")
		work := must(h.db.ClaimRun(h.ctx, event.Claim{Organization: h.org.ID, Run: old.Run, By: "worker", Lease: time.Hour, Life: time.Hour}))(h)
		h.equal([]any{work.Record.Title, work.Sealed == nil}, []any{"Issue old", true}, "a run without its context")
	},
}
