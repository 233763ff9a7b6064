package store_test

import (
	"fmt"
	"strings"
	"time"

	"sallyport/action"
)

var sweepStories = map[string]func(*house){
	"a held call expires": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		h.later(5*time.Minute - time.Microsecond)
		h.ok(h.db.MarkSeen(h.ctx, []string{d.ID}, h.now))
		h.equal(len(h.swept(h.rules())), 0, "swept early")
		h.later(time.Microsecond)
		h.sweptOne(h.rules(), d.ID, action.StatusExpired)
	},
	"a held call without callers is withdrawn": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		h.later(time.Minute)
		h.ok(h.db.MarkSeen(h.ctx, []string{d.ID}, h.now))
		h.ok(h.db.MarkSeen(h.ctx, []string{d.ID}, h.now.Add(-time.Minute))) // a late note does not turn time back
		h.later(2 * time.Minute)
		h.equal(len(h.swept(h.rules())), 0, "swept early")
		h.later(time.Microsecond)
		rec := h.sweptOne(h.rules(), d.ID, action.StatusDenied)
		h.equal(rec.DeniedReason, action.DeniedWithdrawn, "reason")
	},
	"silence withdraws no unattended call": func(h *house) {
		h.s = h.session(action.Unattended)
		d := h.held(`{"a":1}`)
		h.began(d)
		h.later(4 * time.Minute)
		h.equal(len(h.swept(h.rules())), 0, "swept")
	},
	"an approved call that nobody claims expires": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		h.approve(d.ID)
		h.later(5 * time.Minute)
		h.equal(len(h.swept(h.rules())), 0, "swept early")
		h.later(time.Microsecond)
		h.sweptOne(h.rules(), d.ID, action.StatusExpired)
	},
	"an execution with an expired lease has an unknown outcome": func(h *house) {
		for _, kind := range []action.SessionKind{action.Interactive, action.Unattended} {
			h.s = h.session(kind)
			d := h.allowed(`{"a":1}`)
			h.began(d)
			h.later(time.Minute)
			h.equal(len(h.swept(h.rules())), 0, "swept early")
			h.later(time.Microsecond)
			rec := h.sweptOne(h.rules(), d.ID, action.StatusFailed)
			if rec.Error.Code != action.FailedUnknown || !strings.Contains(rec.Error.Message, "may or may not have happened") {
				h.Errorf("the failure is %+v", rec.Error)
			}
			h.later(14 * time.Minute)
			h.joins(h.allowed(`{"a":1}`), d.ID)
			h.later(2 * time.Minute)
			if kind == action.Unattended {
				h.joins(h.allowed(`{"a":1}`), d.ID)
				h.later(24 * time.Hour)
			}
			h.finish(h.done(h.began(h.allowed(`{"a":1}`)).ID))
		}
	},
	"a sole instance ends calls of earlier instances": func(h *house) {
		mine, theirs, lapsed := h.allowed(`{"a":1}`), h.allowed(`{"a":2}`), h.allowed(`{"a":3}`)
		theirs.Executor = "a dead process"
		lapsed.LeaseUntil = h.now.Add(-time.Second)
		h.began(mine)
		h.began(theirs)
		r := h.rules()
		r.SoleInstance = executor
		h.sweptOne(r, theirs.ID, action.StatusFailed)
		h.status(mine.ID, action.StatusExecuting)
		h.began(lapsed)
		h.sweptOne(r, lapsed.ID, action.StatusFailed)
	},
	"a sweep without a cutoff keeps leases": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		h.later(time.Hour)
		r := h.rules()
		r.LeaseBefore = time.Time{}
		h.equal(len(h.swept(r)), 0, "swept without a time")
		r.LeaseBefore = d.LeaseUntil
		h.equal(len(h.swept(r)), 0, "swept before the lease lapsed")
		r.LeaseBefore = time.Time{}
		r.SoleInstance = "the only one"
		h.sweptOne(r, d.ID, action.StatusFailed)
	},
	"sealed results are wiped when nobody may pick them up any more": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		h.finish(h.done(d.ID))
		h.ok(h.db.MarkDelivered(h.ctx, h.org.ID, d.ID, h.now)) // which wipes nothing early
		h.later(15 * time.Minute)
		h.equal(len(h.swept(h.rules())), 0, "ended")
		if h.load(d.ID).SealedResult == nil {
			h.Error("wiped too early")
		}
		h.later(time.Microsecond)
		if done := must(h.db.Sweep(h.ctx, h.rules()))(h); len(done.Ended) != 0 || done.Results < 1 {
			h.Errorf("ended %v, and %d results deleted", done.Ended, done.Results)
		}
		if h.load(d.ID).SealedResult != nil {
			h.Error("the sealed result outlived its time")
		}
	},
	"a sweep takes no more than its limit of each kind": func(h *house) {
		for i := range 7 {
			d := h.held(fmt.Sprintf(`{"a":%d}`, i))
			h.began(d)
			e := h.allowed(fmt.Sprintf(`{"b":%d}`, i))
			h.began(e)
		}
		h.later(10 * time.Minute)
		r := h.rules()
		r.Limit = 3
		r.SeenBefore = time.Time{}
		h.equal(len(h.swept(r)), 6, "first round")
		h.equal(len(h.swept(r)), 6, "second round")
		h.equal(len(h.swept(r)), 2, "third round")
		h.equal(len(h.swept(r)), 0, "fourth round")
	},
	"obsolete idempotency keys are deleted": func(h *house) {
		d := h.allowed(`{"a":1}`)
		d.IdempotencyKey = "k"
		h.began(d)
		h.finish(h.done(d.ID))
		h.later(80 * time.Hour)
		if done := must(h.db.Sweep(h.ctx, h.rules()))(h); len(done.Ended) != 0 || done.Keys < 1 {
			h.Errorf("ended %v, and %d keys deleted", done.Ended, done.Keys)
		}
		other := h.allowed(`{"a":2}`)
		other.IdempotencyKey = "k"
		h.began(other)
		h.equal(len(h.swept(h.rules())), 0, "ended")
		again := h.allowed(`{"a":2}`)
		again.IdempotencyKey = "k"
		h.joins(again, other.ID)
	},
}
