package store_test

import (
	"fmt"
	"time"

	"sallyport/action"
)

// by is a call that the grants let through.
func (h *house) by(params string, grants ...string) *action.Draft {
	d := h.allowed(params)
	d.ModeSource, d.Grants = action.LayerGrant, grants
	return d
}

// used checks how many calls of a grant are used up.
func (h *house) used(g action.Grant, want int64) {
	h.Helper()
	h.equal(must(h.db.Grant(h.ctx, h.org.ID, g.ID))(h).UsedCalls, want, "used calls")
}

// spent checks that a draft is refused, and that nothing was written.
func (h *house) spent(d *action.Draft) {
	h.Helper()
	_, err := h.db.Begin(h.ctx, d)
	h.refused(err, action.ErrGrantSpent, "grant_spent")
	_, err = h.db.Load(h.ctx, h.org.ID, d.ID)
	h.refused(err, action.ErrNotFound, "invocation_not_found")
}

var grantUseStories = map[string]func(*house){
	"a call records the grant that it used": func(h *house) {
		t := terms()
		t.MaxCalls = budget(2)
		g := h.grant(t)
		for i := range 2 {
			d := h.by(fmt.Sprintf(`{"a":%d}`, i), g.ID)
			b := h.began(d)
			h.equal([]any{b.Grant, b.Executor, b.Status}, []any{g.ID, executor, action.StatusExecuting}, "the call")
			h.equal(h.load(d.ID), b.Record, "what Begin returned and what is stored")
			h.equal(h.finish(h.done(d.ID)).Grant, g.ID, "the grant of the call that ended")
			h.used(g, int64(i+1))
		}
		h.spent(h.by(`{"a":2}`, g.ID))
		h.used(g, 2)
		h.equal(len(must(h.db.GrantsFor(h.ctx, h.org.ID, h.s.ID, "linear", "create_issue", h.now))(h)), 0, "grants for the next call")
	},
	"a grant without a budget counts its calls": func(h *house) {
		g := h.grant(terms())
		for i := range 3 {
			h.began(h.by(fmt.Sprintf(`{"a":%d}`, i), g.ID))
		}
		h.used(g, 3)
	},
	"a read also uses a grant": func(h *house) {
		t := terms()
		t.Action, t.MaxCalls = "list_issues", budget(1)
		g := h.grant(t)
		for range 2 {
			d := h.read(`{}`)
			d.Snapshot, d.ModeSource, d.Grants = false, action.LayerGrant, []string{g.ID}
			if _, err := h.db.Begin(h.ctx, d); err != nil {
				h.refused(err, action.ErrGrantSpent, "grant_spent")
			}
		}
		h.used(g, 1)
	},
	"the first grant that is usable is used": func(h *house) {
		ends := h.now.Add(time.Minute)
		one, short := terms(), terms()
		one.MaxCalls, short.ExpiresAt = budget(1), &ends
		spent, revoked, expired, last := h.grant(one), h.grant(terms()), h.grant(short), h.grant(terms())
		h.began(h.by(`{"a":1}`, spent.ID))
		must(h.db.RevokeGrant(h.ctx, h.org.ID, revoked.ID, "carol"))(h)
		h.later(time.Minute)
		b := h.began(h.by(`{"a":2}`, spent.ID, revoked.ID, expired.ID, last.ID, newID()))
		h.equal(b.Grant, last.ID, "the grant")
		for g, n := range map[*action.Grant]int64{&spent: 1, &revoked: 0, &expired: 0, &last: 1} {
			h.used(*g, n)
		}
		h.spent(h.by(`{"a":3}`, spent.ID, revoked.ID, expired.ID))
	},
	"a grant of another session or organization is not used": func(h *house) {
		g := h.grant(terms())
		h.s = h.session(action.Interactive)
		h.spent(h.by(`{"a":1}`, g.ID))
		foreign := newHouse(h.T, h.db)
		t := terms()
		t.Scope = action.ScopeOrganization
		theirs := foreign.grant(t)
		h.spent(h.by(`{"a":1}`, theirs.ID))
		h.used(g, 0)
		foreign.used(theirs, 0)
		ours := h.grant(t)
		h.began(h.by(`{"a":1}`, ours.ID))
	},
	"a joined or refused call uses no grant": func(h *house) {
		g := h.grant(terms())
		first := h.began(h.by(`{"a":1}`, g.ID))
		h.joins(h.by(`{"a":1}`, g.ID), first.ID)
		stale := h.by(`{"a":2}`, g.ID)
		stale.PolicyVersion--
		_, err := h.db.Begin(h.ctx, stale)
		h.refused(err, action.ErrPolicyMoved, "policy_moved")
		clash := h.by(`{"a":3}`, g.ID)
		clash.ID = first.ID // the insert fails, behind the grant
		if _, err := h.db.Begin(h.ctx, clash); err == nil {
			h.Error("two rows have one id")
		}
		must(h.db.RevokeSession(h.ctx, h.org.ID, h.s.ID))(h)
		_, err = h.db.Begin(h.ctx, h.by(`{"a":4}`, g.ID))
		h.refused(err, action.ErrUnauthenticated, "session_revoked")
		h.used(g, 1)
	},
	"a call by a grant and its key are one": func(h *house) {
		g := h.grant(terms())
		d := h.by(`{"a":1}`, g.ID)
		d.IdempotencyKey = "k"
		first := h.began(d)
		h.finish(h.done(first.ID))
		h.ok(h.db.MarkDelivered(h.ctx, h.org.ID, first.ID, h.now))
		again := h.by(`{"a":1}`, g.ID)
		again.IdempotencyKey = "k"
		h.joins(again, first.ID)
		h.used(g, 1)
	},
	"repeated denials deny the action for the session": func(h *house) {
		held := func(i int) *action.Draft {
			d := h.held(fmt.Sprintf(`{"a":%d}`, i))
			d.DenialLimit = 3
			return d
		}
		for i := range 3 {
			d := held(i)
			h.equal(h.began(d).Status, action.StatusPending, "status")
			h.deny(d.ID, "No.")
		}
		d := held(3)
		b := h.began(d)
		h.equal([]string{string(b.Status), b.DeniedReason}, []string{"denied", action.DeniedOften}, "the fourth")
		h.equal(h.load(d.ID), b.Record, "what Begin returned and what is stored")
		if b.DeniedNote == "" || b.SealedParams != nil || b.CompletedAt == nil {
			h.Errorf("the refused call is not at rest, or the agent is told nothing: %+v", b)
		}
		h.equal(h.began(held(2)).DeniedReason, action.DeniedRepeated, "the same call again")
		h.later(time.Hour)
		h.equal(h.began(held(4)).DeniedReason, action.DeniedOften, "an hour later")
		for name, change := range map[string]func(*action.Draft){
			"no limit":         func(d *action.Draft) { d.DenialLimit = 0 },
			"one more allowed": func(d *action.Draft) { d.DenialLimit = 4 },
			"another action":   func(d *action.Draft) { d.Action = "close_issue" },
			"another source":   func(d *action.Draft) { d.Source = "jira" },
			"another session":  func(d *action.Draft) { d.Session = h.session(action.Interactive).ID },
		} {
			d := held(5)
			change(d)
			if b := h.began(d); b.Status != action.StatusPending {
				h.Errorf("%s: %s", name, b.DeniedReason)
			}
			must(h.db.Withdraw(h.ctx, h.org.ID, d.ID, h.now))(h)
		}
		h.began(h.by(`{"a":6}`, h.grant(terms()).ID)) // a person has said yes since
	},
	"summaries are kept beside what they are of": func(h *house) {
		d := h.allowed(`{}`)
		d.Summary = "Create an issue <&> ü"
		h.equal(h.began(d).Summary, d.Summary, "the summary")
		f := h.done(d.ID)
		f.ResultNote = "Issue 7"
		inv := h.finish(f)
		h.equal([]string{inv.Summary, inv.ResultNote}, []string{d.Summary, "Issue 7"}, "the summaries")
		h.equal(h.load(d.ID).Invocation, inv, "what Finish returned and what is stored")
		page := must(h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID}))(h)
		h.equal(page.Items, []action.Invocation{inv}, "the list")
	},
}
