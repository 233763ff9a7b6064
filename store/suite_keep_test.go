package store_test

import (
	"fmt"
	"slices"
	"time"

	"sallyport/action"
)

var keepStories = map[string]func(*house){
	"a queued read is visible to a reader": func(h *house) {
		d := h.read(`{"a":1}`)
		h.began(d)
		h.status(d.ID, action.StatusExecuting)
		d = h.read(`{"a":1}`)
		h.began(d)
		if moved := must(h.db.Settled(h.ctx, []string{d.ID}))(h); len(moved) != 1 {
			h.Errorf("settled: %+v, want the queued read", moved)
		}
		d = h.read(`{"a":1}`)
		h.began(d)
		h.ok(h.db.MarkDelivered(h.ctx, h.org.ID, d.ID, h.now)) // too early: nothing to deliver yet
		h.finish(h.done(d.ID))
		if h.load(d.ID).Delivered {
			h.Error("delivered before it ended")
		}
		h.ok(h.db.MarkDelivered(h.ctx, h.org.ID, d.ID, h.now))
		if !h.load(d.ID).Delivered {
			h.Error("not delivered")
		}
	},
	"an answered caller keeps waiting": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		h.ok(h.db.MarkAnswered(h.ctx, h.org.ID, d.ID))
		h.equal(h.load(d.ID).Answered, true, "answered")
		h.later(4 * time.Minute)
		h.equal(len(h.swept(h.rules())), 0, "withdrawn")
		h.later(time.Minute)
		h.sweptOne(h.rules(), d.ID, action.StatusExpired)
		h.ok(h.db.MarkAnswered(h.ctx, h.org.ID, d.ID)) // too late, and no harm
		h.ok(h.db.MarkAnswered(h.ctx, h.org.ID, newID()))
	},
	"features of returning callers add up": func(h *house) {
		d, done := h.held(`{"a":1}`), h.held(`{"a":2}`)
		h.began(d)
		h.began(done)
		h.deny(done.ID, "")
		can := func(organization, id string) action.ClientFeatures {
			return must(h.db.CallerFeatures(h.ctx, organization, id))(h)
		}
		h.equal(can(h.org.ID, d.ID), action.ClientFeatures(0), "of nobody")
		h.ok(h.db.SaveCallerFeatures(h.ctx, h.org.ID, d.ID, action.ClientElicitsForm))
		h.ok(h.db.SaveCallerFeatures(h.ctx, h.org.ID, d.ID, action.ClientSamples))
		h.ok(h.db.SaveCallerFeatures(h.ctx, newID(), d.ID, action.ClientListsRoots)) // another organization's
		h.ok(h.db.SaveCallerFeatures(h.ctx, h.org.ID, done.ID, action.ClientSamples))
		h.ok(h.db.SaveCallerFeatures(h.ctx, h.org.ID, newID(), action.ClientSamples))
		h.equal(can(h.org.ID, d.ID), action.ClientElicitsForm|action.ClientSamples, "together")
		h.equal(can(newID(), d.ID), action.ClientFeatures(0), "to another organization")
		h.equal(can(h.org.ID, done.ID), action.ClientFeatures(0), "of a call that ended")
	},
	"callers of a held call are reported to its organization": func(h *house) {
		waits, told, done := h.held(`{"a":1}`), h.held(`{"a":2}`), h.held(`{"a":3}`)
		begun := h.now
		for _, d := range []*action.Draft{waits, told, done} {
			h.began(d)
		}
		h.ok(h.db.MarkAnswered(h.ctx, h.org.ID, told.ID))
		h.deny(done.ID, "")
		h.later(time.Minute)
		h.ok(h.db.MarkSeen(h.ctx, []string{waits.ID}, h.now))
		ids := []string{waits.ID, told.ID, done.ID, newID()}
		h.equal(must(h.db.Waiters(h.ctx, h.org.ID, ids))(h), map[string]action.CallerState{waits.ID: {SeenAt: h.now}, told.ID: {SeenAt: begun, Answered: true}}, "waiters")
		h.equal(must(h.db.SessionsOf(h.ctx, h.org.ID, []string{h.s.ID, newID()}))(h), map[string]action.Session{h.s.ID: must(h.db.Session(h.ctx, h.s.ID))(h)}, "sessions")
		h.equal(must(h.db.CountWaiting(h.ctx, h.org.ID))(h), action.InboxCounts{Calls: 2}, "what waits")
		other := newHouse(h.T, h.db)
		h.equal(len(must(h.db.Waiters(h.ctx, other.org.ID, ids))(h))+len(must(h.db.SessionsOf(h.ctx, other.org.ID, []string{h.s.ID}))(h)), 0, "what another organization hears")
	},
	"only what is no longer pending has settled": func(h *house) {
		var ids, want []string
		for i := range 600 {
			d := h.held(fmt.Sprintf(`{"a":%d}`, i))
			d.MaxPending = 0
			h.began(d)
			ids = append(ids, d.ID)
			if i%100 == 0 {
				h.approve(d.ID)
				want = append(want, d.ID)
			}
		}
		var got []string
		for _, inv := range must(h.db.Settled(h.ctx, append(ids, newID())))(h) {
			got = append(got, inv.ID)
		}
		slices.Sort(got)
		slices.Sort(want)
		h.equal(got, want, "settled")
		h.ok(h.db.MarkSeen(h.ctx, ids, h.now.Add(time.Second)))
		h.ok(h.db.MarkSeen(h.ctx, nil, h.now))
	},
	"unclaimed approved calls are found": func(h *house) {
		early, late := h.held(`{"a":1}`), h.held(`{"a":2}`)
		h.began(early)
		h.began(late)
		h.approve(early.ID)
		h.later(time.Second)
		h.approve(late.ID)
		found := func(t time.Time, limit int) (ids []string) {
			for _, inv := range must(h.db.Unclaimed(h.ctx, t, limit))(h) {
				if inv.Organization == h.org.ID {
					ids = append(ids, inv.ID)
				}
			}
			return ids
		}
		h.equal(found(h.now, 10), []string{early.ID}, "unclaimed")
		h.equal(found(h.now.Add(time.Second), 10), []string{early.ID, late.ID}, "unclaimed")
		h.equal(found(h.now.Add(time.Second), 1), []string{early.ID}, "unclaimed")
		h.claim(early.ID)
		h.equal(found(h.now.Add(time.Second), 10), []string{late.ID}, "unclaimed")
	},
	"events are appended to a row of the organization": func(h *house) {
		d := h.allowed(`{}`)
		h.began(d)
		e := action.Event{Organization: h.org.ID, Invocation: d.ID, Kind: "revealed", By: "alice", At: h.now, Data: []byte(`{"field":"/a"}`)}
		h.ok(h.db.AppendEvent(h.ctx, e))
		got := must(h.db.Events(h.ctx, h.org.ID, d.ID))(h)
		e.ID = got[0].ID
		h.equal(got, []action.Event{e}, "events")
		other := newHouse(h.T, h.db)
		e.ID, e.Organization = "", other.org.ID
		h.refused(h.db.AppendEvent(h.ctx, e), action.ErrNotFound, "invocation_not_found")
		h.equal(len(must(h.db.Events(h.ctx, other.org.ID, d.ID))(h)), 0, "events seen from outside")
	},
}
