package store_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"sallyport/action"
)

var beginStories = map[string]func(*house){
	"what Begin returns is what Load returns": func(h *house) {
		for name, d := range map[string]*action.Draft{
			"held": h.held(`{"n":12345678901234567890.10}`), "allowed": h.allowed(`{"a":"\u0000 <&> \ud83d\ude00"}`), "read": h.read(`{"b":1}`),
			"denied": func() *action.Draft {
				d := h.draft("delete", `{}`)
				d.Status, d.Mode, d.DeniedReason, d.DeniedNote, d.Joins = action.StatusDenied, action.ModeDeny, action.DeniedPolicy, "No.", false
				return d
			}(),
		} {
			b := h.began(d)
			h.equal(h.load(d.ID), b.Record, name)
		}
	},
	"times are truncated to microseconds": func(h *house) {
		d := h.allowed(`{}`)
		d.CreatedAt = h.now.Add(1234 * time.Nanosecond).In(time.FixedZone("somewhere", 3600))
		b := h.began(d)
		h.equal(b.CreatedAt, h.now.Add(time.Microsecond), "created_at")
		h.equal(h.load(d.ID).CreatedAt, b.CreatedAt, "created_at")
	},
	"a status that ends or was decided cannot begin": func(h *house) {
		for _, s := range []action.Status{action.StatusApproved, action.StatusCompleted, action.StatusFailed, action.StatusExpired, ""} {
			d := h.allowed(`{}`)
			if d.Status = s; s == "" {
				d.Status = "nonsense"
			}
			if _, err := h.db.Begin(h.ctx, d); err == nil {
				h.Errorf("a row began as %s", d.Status)
			}
		}
	},
	"a revoked, expired, unknown or foreign session writes nothing": func(h *house) {
		foreign := newHouse(h.T, h.db)
		expired := h.now.Add(-time.Second)
		old := must(h.db.CreateSession(h.ctx, action.Session{Organization: h.org.ID, CreatedBy: "alice", ExpiresAt: &expired}))(h)
		must(h.db.RevokeSession(h.ctx, h.org.ID, h.s.ID))(h)
		for id, code := range map[string]string{
			h.s.ID: "session_revoked", old.ID: "session_expired", newID(): "session_unknown", foreign.s.ID: "session_unknown",
		} {
			for _, d := range []*action.Draft{h.held(`{}`), h.allowed(`{}`)} {
				d.Session = id
				_, err := h.db.Begin(h.ctx, d)
				h.refused(err, action.ErrUnauthenticated, code)
				_, err = h.db.Load(h.ctx, h.org.ID, d.ID)
				h.refused(err, action.ErrNotFound, "invocation_not_found")
			}
		}
	},
	"a session makes no more calls than its budget": func(h *house) {
		denied := h.draft("delete", `{}`) // does not count
		denied.Status, denied.Mode, denied.DeniedReason, denied.Joins = action.StatusDenied, action.ModeDeny, action.DeniedPolicy, false
		h.began(denied)
		var allowed, over atomic.Int64
		together(12, func(i int) {
			d := h.allowed(fmt.Sprintf(`{"n":%d}`, i))
			if i%3 == 0 {
				d = h.held(fmt.Sprintf(`{"n":%d}`, i))
			}
			d.MaxCalls = 5
			b, err := h.any(i).Begin(h.ctx, d)
			switch {
			case err != nil:
				h.Errorf("call %d: %v", i, err)
			case b.Status != action.StatusDenied:
				allowed.Add(1)
			case b.DeniedReason == action.DeniedQuota && b.DeniedNote != "" && b.StartedAt == nil && b.CompletedAt != nil:
				over.Add(1)
			default:
				h.Errorf("call %d: %+v", i, b.Invocation)
			}
		})
		h.equal([]int64{allowed.Load(), over.Load()}, []int64{5, 7}, "calls within the budget, and over it")
	},
	"a moved policy writes nothing": func(h *house) {
		h.ok(h.db.SetOverride(h.ctx, action.Override{Organization: h.org.ID, Key: action.Key{Source: "linear", Action: "x"}, Mode: action.ModeDeny, UpdatedBy: "alice"}))
		d := h.allowed(`{}`)
		_, err := h.db.Begin(h.ctx, d)
		h.refused(err, action.ErrPolicyMoved, "policy_moved")
		_, err = h.db.Load(h.ctx, h.org.ID, d.ID)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		d.PolicyVersion = must(h.db.PolicyVersion(h.ctx, h.org.ID))(h)
		h.began(d)
	},
	"a read may use an older policy snapshot": func(h *house) {
		h.ok(h.db.SetOverride(h.ctx, action.Override{Organization: h.org.ID, Key: action.Key{Source: "linear", Action: "x"}, Mode: action.ModeDeny, UpdatedBy: "alice"}))
		h.began(h.read(`{}`))
	},
	"the same call joins while it is open": func(h *house) {
		first := h.began(h.held(`{"a":1}`))
		h.joins(h.held(`{"a":1}`), first.ID)
		h.approve(first.ID)
		h.joins(h.held(`{"a":1}`), first.ID)
		h.claim(first.ID)
		b := h.joins(h.held(`{"a":1}`), first.ID)
		h.equal(b.Status, action.StatusExecuting, "status")
	},
	"another action, source, session or params does not join": func(h *house) {
		h.began(h.held(`{"a":1}`))
		h.began(h.held(`{"a":2}`))
		d := h.held(`{"a":1}`)
		d.Action = "close_issue"
		h.began(d)
		d = h.held(`{"a":1}`)
		d.Source = "jira"
		h.began(d)
		h.s = h.session(action.Interactive)
		h.began(h.held(`{"a":1}`))
	},
	"reads never join": func(h *house) {
		h.began(h.read(`{"a":1}`))
		h.began(h.read(`{"a":1}`))
		d := h.read(`{"a":1}`)
		d.Snapshot = false
		h.began(d)
	},
	"an undelivered result is returned again": func(h *house) {
		first := h.began(h.allowed(`{"a":1}`))
		h.finish(h.done(first.ID))
		b := h.joins(h.allowed(`{"a":1}`), first.ID)
		h.equal(string(b.SealedResult), "sealed result", "the result")
		h.ok(h.db.MarkDelivered(h.ctx, h.org.ID, first.ID, h.now))
		h.began(h.allowed(`{"a":1}`)) // seen at once, though Delivered is queued
	},
	"an expired grant is not usable": func(h *house) {
		first := h.began(h.allowed(`{"a":1}`))
		h.finish(h.done(first.ID))
		h.later(15 * time.Minute)
		h.began(h.allowed(`{"a":1}`))
	},
	"the same key means the same row, delivered or not": func(h *house) {
		d := h.allowed(`{"a":1}`)
		d.IdempotencyKey = "k"
		first := h.began(d)
		again := func() *action.Draft {
			d := h.allowed(`{"a":1}`)
			d.IdempotencyKey = "k"
			return d
		}
		h.joins(again(), first.ID)
		h.finish(h.done(first.ID))
		h.ok(h.db.MarkDelivered(h.ctx, h.org.ID, first.ID, h.now))
		b := h.joins(again(), first.ID)
		h.equal(string(b.SealedResult), "sealed result", "the result")
		if !b.Delivered {
			h.Error("it is not said to be delivered")
		}
		h.later(15 * time.Minute)
		h.began(again())
	},
	"a key with other params is refused": func(h *house) {
		d := h.allowed(`{"a":1}`)
		d.IdempotencyKey = "k"
		first := h.began(d)
		other := h.allowed(`{"a":2}`)
		other.IdempotencyKey = "k"
		_, err := h.db.Begin(h.ctx, other)
		if e := h.refused(err, action.ErrConflict, "idempotency_key_reused"); e.Invocation != first.ID {
			h.Errorf("the error names invocation %q", e.Invocation)
		}
		_, err = h.db.Load(h.ctx, h.org.ID, other.ID)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
	},
	"an idempotency key applies to one action, source and session": func(h *house) {
		for i := range 4 {
			d := h.allowed(fmt.Sprintf(`{"a":%d}`, i))
			d.IdempotencyKey = "k"
			switch i {
			case 1:
				d.Action = "close_issue"
			case 2:
				d.Source = "jira"
			case 3:
				d.Session = h.session(action.Interactive).ID
			}
			h.began(d)
		}
	},
	"a key that joined a row keeps referring to it": func(h *house) {
		first := h.began(h.held(`{"a":1}`))
		d := h.held(`{"a":1}`)
		d.IdempotencyKey = "k"
		h.joins(d, first.ID)
		h.approve(first.ID)
		h.claim(first.ID)
		h.finish(h.done(first.ID))
		h.ok(h.db.MarkDelivered(h.ctx, h.org.ID, first.ID, h.now))
		d = h.held(`{"a":1}`)
		d.IdempotencyKey = "k"
		h.joins(d, first.ID)
	},
	"a withdrawn or expired row counts as absent, with its key": func(h *house) {
		for _, end := range []func(id string){
			func(id string) { must(h.db.Withdraw(h.ctx, h.org.ID, id, h.now))(h) },
			func(id string) { h.later(5 * time.Minute); h.sweptOne(h.rules(), id, action.StatusExpired) },
			func(string) { h.later(5 * time.Minute) }, // not swept yet
		} {
			d := h.held(`{"a":1}`)
			d.IdempotencyKey = "k"
			first := h.began(d)
			end(first.ID)
			again := h.held(`{"a":2}`) // other params: the key is free
			again.IdempotencyKey = "k"
			h.began(again)
			must(h.db.Withdraw(h.ctx, h.org.ID, again.ID, h.now))(h)
		}
	},
	"an overdue call is expired by its repeat": func(h *house) {
		first := h.began(h.held(`{"a":1}`))
		h.later(5 * time.Minute)
		h.began(h.held(`{"a":1}`))
		h.status(first.ID, action.StatusExpired)
	},
	"a denial applies to the same call": func(h *house) {
		first := h.began(h.held(`{"a":1}`))
		h.deny(first.ID, "Not on a Friday.")
		h.later(14 * time.Minute)
		d := h.held(`{"a":1}`)
		b := h.began(d)
		h.equal([]string{string(b.Status), b.DeniedReason, b.DeniedNote}, []string{"denied", action.DeniedRepeated, "Not on a Friday."}, "the repeat")
		h.equal(h.load(d.ID), b.Record, "what Begin returned and what is stored")
		if b.SealedParams != nil || b.CompletedAt == nil {
			h.Error("the refused repeat is not at rest")
		}
		h.began(h.held(`{"a":2}`))
	},
	"a denial applies for a limited time, which a repeat does not extend": func(h *house) {
		first := h.began(h.held(`{"a":1}`))
		h.deny(first.ID, "No.")
		h.later(14 * time.Minute)
		h.began(h.held(`{"a":1}`)) // refused
		h.later(2 * time.Minute)
		h.equal(h.began(h.held(`{"a":1}`)).Status, action.StatusPending, "status")
	},
	"pending calls are limited": func(h *house) {
		for i := range 10 {
			h.began(h.held(fmt.Sprintf(`{"a":%d}`, i)))
		}
		_, err := h.db.Begin(h.ctx, h.held(`{"a":10}`))
		h.refused(err, action.ErrTooMany, "too_many_pending")
		h.began(h.allowed(`{"a":10}`)) // does not wait
		free := h.held(`{"a":11}`)
		free.MaxPending = 0
		h.began(free)
		h.s = h.session(action.Interactive)
		h.began(h.held(`{"a":12}`)) // another session
	},
	"a joined call counts once": func(h *house) {
		for i := range 10 {
			h.began(h.held(fmt.Sprintf(`{"a":%d}`, i)))
		}
		h.equal(h.begin(h.held(`{"a":3}`)).Created, false, "new")
	},
	"a joining caller is recorded": func(h *house) {
		first := h.began(h.held(`{"a":1}`))
		h.later(3 * time.Minute)
		h.joins(h.held(`{"a":1}`), first.ID)
		if ended := h.swept(h.rules()); len(ended) != 0 {
			h.Errorf("the call was withdrawn under its new caller: %+v", ended)
		}
	},
}
