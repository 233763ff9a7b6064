package store_test

import (
	"strings"
	"time"

	"sallyport/action"
)

var settleStories = map[string]func(*house){
	"an approved call keeps its params until it ends": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		inv := h.approve(d.ID)
		h.equal([]any{inv.Status, inv.ApprovedBy, *inv.ApprovedAt}, []any{action.StatusApproved, "alice", h.now}, "the approved call")
		rec := h.claim(d.ID)
		h.equal([]any{rec.Status, rec.Executor, string(rec.SealedParams), *rec.StartedAt},
			[]any{action.StatusExecuting, executor, `sealed {"a":1}`, h.now}, "the claimed call")
		h.equal(h.load(d.ID), rec, "what Claim returned and what is stored")
		inv = h.finish(h.done(d.ID))
		rec = h.load(d.ID)
		h.equal(rec.Invocation, inv, "what Finish returned and what is stored")
		if rec.SealedParams != nil {
			h.Error("the sealed params outlived the end")
		}
	},
	"a denied call ends at once": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		inv := h.deny(d.ID, "Ask Bob.")
		h.equal([]any{inv.Status, inv.DeniedReason, inv.DeniedNote, inv.ApprovedBy, *inv.CompletedAt},
			[]any{action.StatusDenied, action.DeniedHuman, "Ask Bob.", "alice", h.now}, "the denied call")
		rec := h.load(d.ID)
		h.equal(rec.Invocation, inv, "what Deny returned and what is stored")
		if rec.SealedParams != nil {
			h.Error("the sealed params outlived the end")
		}
	},
	"a second decision gets the first decider's name": func(h *house) {
		h.ok(h.db.CreateUser(h.ctx, action.User{ID: "u" + h.org.ID, Organization: h.org.ID, Name: "Grace", Role: action.RoleAdmin}, "me"))
		approved, denied := h.held(`{"a":1}`), h.held(`{"a":2}`)
		h.began(approved)
		h.began(denied)
		v := h.verdict(approved.ID)
		v.By = "u" + h.org.ID
		must(h.db.Approve(h.ctx, v))(h)
		v.ID = denied.ID
		must(h.db.Deny(h.ctx, v))(h)
		for id, word := range map[string]string{approved.ID: "approved", denied.ID: "denied"} {
			for name, again := range map[string]func() error{
				"approve": func() error { _, err := h.db.Approve(h.ctx, h.verdict(id)); return err },
				"deny":    func() error { _, err := h.db.Deny(h.ctx, h.verdict(id)); return err },
			} {
				e := h.refused(again(), action.ErrConflict, "already_decided")
				if !strings.Contains(e.Message, word) || !strings.Contains(e.Message, "Grace") || e.Invocation != id {
					h.Errorf("%s again: %+v does not say how and by whom", name, e)
				}
			}
		}
	},
	"an expired call is gone, swept or not": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		h.later(5 * time.Minute)
		for range 2 {
			_, err := h.db.Approve(h.ctx, h.verdict(d.ID))
			h.refused(err, action.ErrGone, "expired")
			_, err = h.db.Deny(h.ctx, h.verdict(d.ID))
			h.refused(err, action.ErrGone, "expired")
			h.swept(h.rules())
		}
		h.status(d.ID, action.StatusExpired)
	},
	"a withdrawn call cannot be decided": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		inv := must(h.db.Withdraw(h.ctx, h.org.ID, d.ID, h.now))(h)
		h.equal([]any{inv.Status, inv.DeniedReason, inv.ApprovedBy}, []any{action.StatusDenied, action.DeniedWithdrawn, ""}, "the withdrawn call")
		_, err := h.db.Approve(h.ctx, h.verdict(d.ID))
		h.refused(err, action.ErrConflict, "withdrawn")
		_, err = h.db.Withdraw(h.ctx, h.org.ID, d.ID, h.now)
		h.refused(err, action.ErrConflict, "withdrawn")
		if h.load(d.ID).SealedParams != nil {
			h.Error("the sealed params outlived the end")
		}
	},
	"an approved call cannot be withdrawn": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		h.approve(d.ID)
		_, err := h.db.Withdraw(h.ctx, h.org.ID, d.ID, h.now)
		h.refused(err, action.ErrConflict, "already_decided")
	},
	"a call decided by policy has no pending approval": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		_, err := h.db.Approve(h.ctx, h.verdict(d.ID))
		h.refused(err, action.ErrConflict, "already_decided")
	},
	"what is approved is what was seen": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		v := h.verdict(d.ID)
		v.ParamsHash = "other"
		_, err := h.db.Approve(h.ctx, v)
		h.refused(err, action.ErrConflict, "params_changed")
		v.ParamsHash, v.ToolHash = d.ParamsHash, "other"
		_, err = h.db.Deny(h.ctx, v)
		h.refused(err, action.ErrConflict, "params_changed")
		v.ToolHash = d.ToolHash
		must(h.db.Approve(h.ctx, v))(h)
	},
	"another organization or session sees nothing": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		v := h.verdict(d.ID)
		v.Session = h.session(action.Interactive).ID
		_, err := h.db.Approve(h.ctx, v)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		v = h.verdict(d.ID)
		v.Organization = newHouse(h.T, h.db).org.ID
		_, err = h.db.Approve(h.ctx, v)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		_, err = h.db.Deny(h.ctx, v)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		_, err = h.db.Load(h.ctx, v.Organization, d.ID)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		_, err = h.db.Withdraw(h.ctx, v.Organization, d.ID, h.now)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		c := h.claimOf(d.ID)
		c.Organization = v.Organization
		_, err = h.db.Claim(h.ctx, c)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		h.status(d.ID, action.StatusPending)
		h.approve(d.ID)
		_, err = h.db.Claim(h.ctx, c)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		h.claim(d.ID)
		f := h.done(d.ID)
		f.Organization = v.Organization
		_, _, err = h.db.Finish(h.ctx, f)
		h.refused(err, action.ErrNotFound, "invocation_not_found")
		h.ok(h.db.MarkDelivered(h.ctx, v.Organization, d.ID, h.now))
		h.status(d.ID, action.StatusExecuting)
		h.finish(h.done(d.ID))
		h.ok(h.db.MarkDelivered(h.ctx, v.Organization, d.ID, h.now))
		h.equal(h.load(d.ID).Delivered, false, "delivered by another organization")
	},
	"a verdict needs a user": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		v := h.verdict(d.ID)
		v.By = ""
		if _, err := h.db.Approve(h.ctx, v); err == nil {
			h.Error("nobody approved it")
		}
	},
	"only an approved call is claimed, and once": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		_, err := h.db.Claim(h.ctx, h.claimOf(d.ID))
		h.refused(err, action.ErrConflict, "not_approved")
		h.approve(d.ID)
		h.claim(d.ID)
		_, err = h.db.Claim(h.ctx, h.claimOf(d.ID))
		h.refused(err, action.ErrConflict, "already_claimed")
		h.finish(h.done(d.ID))
		_, err = h.db.Claim(h.ctx, h.claimOf(d.ID))
		h.refused(err, action.ErrConflict, "already_claimed")
	},
	"an approved call that expired is not claimed": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		h.approve(d.ID)
		h.later(6 * time.Minute)
		h.sweptOne(h.rules(), d.ID, action.StatusExpired)
		_, err := h.db.Claim(h.ctx, h.claimOf(d.ID))
		h.refused(err, action.ErrGone, "expired")
	},
}
