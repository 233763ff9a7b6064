package store_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// retain removes what ended before a time, few rows at a time.
func (h *house) retain(before time.Time) (n int) {
	h.Helper()
	for {
		done := must(h.db.Retain(h.ctx, h.org.ID, before, auditKey, 7))(h)
		if n += done; done < 7 {
			return n
		}
	}
}

func (h *house) gone(id string) {
	h.Helper()
	if _, err := h.db.Load(h.ctx, h.org.ID, id); !errors.Is(err, action.ErrNotFound) {
		h.Fatalf("invocation %s is there (%v)", id, err)
	}
	h.equal(len(must(h.db.Events(h.ctx, h.org.ID, id))(h)), 0, "events of what is gone")
}

var retainStories = map[string]func(*house){
	"retention removes old calls, and the chain stays valid": func(h *house) {
		var old []string
		for i := range 20 {
			d := h.allowed(fmt.Sprintf(`{"i":%d}`, i))
			d.IdempotencyKey = fmt.Sprint("key", i)
			h.began(d)
			h.finish(h.done(d.ID))
			old = append(old, d.ID)
			if i%5 == 0 {
				h.event(d.ID)
			}
		}
		h.seal()
		first := h.head()
		h.later(time.Hour)
		young := h.ended(`{"young":1}`)
		open := h.began(h.held(`{"open":1}`)).ID
		h.seal()
		second := h.head()

		h.equal(h.retain(h.now.Add(-2*time.Hour)), 0, "removed before their time")
		h.equal(must(h.db.Retain(h.ctx, h.org.ID, h.now, auditKey, 3))(h), 3, "removed at first")
		h.sound(first)
		h.equal(h.retain(h.now), 17, "removed then")
		h.equal(h.retain(h.now), 0, "removed again")
		for _, id := range old {
			h.gone(id)
		}
		h.load(young)
		h.load(open)
		h.equal(h.sound(nil), int64(1), "links")
		h.sound(first)
		h.sound(second)
		h.equal(h.verify(nil).From, int64(25), "the first link")

		d := h.allowed(`{"again":1}`) // with a key of a row that is gone
		d.IdempotencyKey = "key3"
		h.began(d)
		h.finish(h.done(d.ID))
		h.seal()
		h.equal(h.sound(second), int64(2), "links after more was sealed")
	},
	"retention may remove all links": func(h *house) {
		h.ended(`{"a":1}`)
		h.seal()
		kept := h.head()
		h.equal(h.retain(h.now.Add(time.Second)), 1, "removed")
		h.equal(h.sound(kept), int64(0), "links")
		h.ended(`{"a":2}`)
		h.seal()
		h.equal(h.sound(kept), int64(1), "links then")
		h.equal(h.head().Seq, int64(2), "the head")
	},
	"what is not sealed stays": func(h *house) {
		id := h.ended(`{"a":1}`)
		h.equal(h.retain(h.now.Add(time.Hour)), 0, "removed")
		h.load(id)
		h.seal()
		h.equal(h.retain(h.now.Add(time.Hour)), 1, "removed when it was sealed")
	},
	"retention stops at a later end": func(h *house) {
		h.later(time.Hour)
		young := h.ended(`{"a":1}`)
		h.seal()
		h.later(-time.Hour)
		old := h.ended(`{"a":2}`)
		h.seal()
		h.equal(h.retain(h.now.Add(time.Minute)), 0, "removed")
		h.load(old)
		h.load(young)
		h.sound(nil)
	},
	"a later event keeps its invocation until it is sealed": func(h *house) {
		h.ended(`{"a":0}`)
		id := h.ended(`{"a":1}`)
		h.ended(`{"a":2}`)
		h.seal()
		kept := h.head()
		h.event(id)
		before := h.now.Add(time.Minute)
		h.equal(h.retain(before), 2, "removed while the event waits")
		h.equal(len(must(h.db.Events(h.ctx, h.org.ID, id))(h)), 1, "events")
		h.faults(kept)
		h.seal()
		h.equal(h.sound(kept), int64(2), "links of the invocation and its event")
		h.equal(h.retain(before), 1, "removed with its event")
		h.gone(id)
		h.sound(kept)
	},
	"policy events are sealed and kept": func(h *house) {
		set := func(mode action.Mode) {
			h.Helper()
			h.ok(h.db.SetOverride(h.ctx, action.Override{Organization: h.org.ID, Key: action.Key{Source: "linear", Action: "x"}, Mode: mode, UpdatedBy: "alice"}))
			h.org.PolicyVersion++
		}
		set(action.ModeAllow)
		h.ended(`{"a":1}`)
		set(action.ModeDeny)
		h.ended(`{"a":2}`)
		set(action.ModeAllow)
		h.seal()
		kept := h.head()
		h.equal(h.sound(nil), int64(5), "links")
		h.equal(h.retain(h.now.Add(time.Minute)), 2, "removed")
		h.equal(h.sound(kept), int64(3), "links of the changes of policy")
		at := h.head().Seq
		h.equal(h.retain(h.now.Add(time.Minute)), 0, "removed again")
		h.equal(h.head().Seq, at, "the head: nothing is sealed anew in vain")
		events := 0
		h.ok(h.db.ExportPolicy(h.ctx, h.org.ID, time.Time{}, time.Time{}, func(action.PolicyEvent) error { events++; return nil }))
		h.equal(events, 3, "changes of policy")
	},
	"links after the last removed one stay in place": func(h *house) {
		h.ended(`{"a":1}`)
		h.seal()
		h.ok(h.db.SetOverride(h.ctx, action.Override{Organization: h.org.ID, Key: action.Key{Source: "linear", Action: "x"}, Mode: action.ModeAllow, UpdatedBy: "alice"}))
		h.org.PolicyVersion++
		h.event(h.began(h.held(`{"open":1}`)).ID)
		h.seal()
		h.later(time.Hour)
		h.ended(`{"a":2}`)
		h.seal()
		at := h.head().Seq
		h.equal(h.retain(h.now), 1, "removed")
		h.equal(h.sound(nil), int64(3), "links")
		h.equal([]int64{h.head().Seq, h.verify(nil).From}, []int64{at, 2}, "the head and the first link")
	},
	"concurrent retention removes each row once": func(h *house) {
		for i := range 60 {
			id := h.ended(fmt.Sprintf(`{"i":%d}`, i))
			if i%10 == 0 {
				h.event(id)
			}
		}
		h.seal()
		kept := h.head()
		before := h.now.Add(time.Minute)
		h.later(time.Hour)
		var removed atomic.Int64
		together(6, func(i int) {
			for range 12 {
				var err error
				switch i {
				case 0, 1:
					var n int
					n, err = h.any(i).Retain(h.ctx, h.org.ID, before, auditKey, 5)
					removed.Add(int64(n))
				case 2:
					_, err = h.any(i).Seal(h.ctx, auditKey, 3)
				case 3:
					d := h.read(`{"r":1}`)
					if _, err = h.any(i).Begin(h.ctx, d); err == nil {
						_, _, err = h.any(i).Finish(h.ctx, h.done(d.ID))
					}
				default:
					var r action.AuditReport
					if r, err = h.any(i).VerifyAudit(h.ctx, h.org.ID, auditKey, kept); err == nil && !r.OK {
						err = fmt.Errorf("verified meanwhile: %+v", r)
					}
				}
				if err != nil {
					h.Error(err)
					return
				}
			}
		})
		removed.Add(int64(h.retain(before)))
		h.equal(removed.Load(), int64(60), "removed")
		h.seal()
		h.equal(h.sound(kept), int64(12), "links")
	},
	"an event appended during retention is kept": func(h *house) {
		for range 10 {
			id := h.ended(`{"a":1}`)
			h.seal()
			var n int
			var appended error
			together(2, func(i int) {
				if i == 0 {
					n, _ = h.any(0).Retain(h.ctx, h.org.ID, h.now.Add(time.Minute), auditKey, 5)
					return
				}
				appended = h.any(1).AppendEvent(h.ctx, action.Event{Organization: h.org.ID, Invocation: id, Kind: action.ParamsRevealed, At: h.now})
			})
			if (n == 1) == (appended == nil) {
				h.Fatalf("removed %d, appending: %v", n, appended)
			}
			h.seal()
			h.sound(nil)
			h.retain(h.now.Add(time.Minute))
		}
	},
}
