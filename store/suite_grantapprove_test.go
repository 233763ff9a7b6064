package store_test

import (
	"encoding/json"
	"strings"
	"time"

	"sallyport/action"
)

// approving is an approval that makes a grant.
func (h *house) approving(id string, scope action.GrantScope) action.Verdict {
	v := h.verdict(id)
	v.Grant = &action.Grant{Terms: action.Terms{Scope: scope}}
	return v
}

// noGrants checks that there is none, and no event of one.
func (h *house) noGrants() {
	h.Helper()
	events := must(h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org.ID, Kind: action.EventGrant}))(h)
	grants := must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID}))(h)
	h.equal([]int{grants.Total, events.Total}, []int{0, 0}, "grants, events")
}

var grantApproveStories = map[string]func(*house){
	"an approval creates its grant": func(h *house) {
		for i, scope := range []action.GrantScope{action.ScopeSession, action.ScopeOrganization} {
			d := h.held(`{"a":1,"scope":"` + string(scope) + `"}`)
			h.began(d)
			v := h.approving(d.ID, scope)
			ends := h.now.Add(time.Hour)
			v.Grant.Terms = action.Terms{
				Scope: scope, Source: "nonsense", Any: true, MaxCalls: budget(5), ExpiresAt: &ends, Pins: map[string]json.RawMessage{"/a": json.RawMessage("1")},
			}
			inv := must(h.db.Approve(h.ctx, v))(h)
			h.equal([]any{inv.Status, inv.Grant}, []any{action.StatusApproved, ""}, "the approved call, which is not of the grant")
			want := action.Grant{
				ID: v.Grant.ID, Organization: h.org.ID, ToolHash: d.ToolHash, Invocation: d.ID, CreatedBy: "alice", CreatedAt: h.now,
				Terms: action.Terms{Scope: scope, Source: d.Source, Action: d.Action, MaxCalls: budget(5), ExpiresAt: &ends, Pins: v.Grant.Pins},
			}
			if scope == action.ScopeSession {
				want.Session = h.s.ID
			}
			h.equal(*v.Grant, want, "the completed grant")
			h.equal(must(h.db.Grant(h.ctx, h.org.ID, v.Grant.ID))(h), want, "the stored grant")
			h.recorded(v.Grant.ID, action.EventGrant, "alice", nil, want)
			h.equal(h.began(h.by(`{"a":1,"again":"`+string(scope)+`"}`, v.Grant.ID)).Grant, v.Grant.ID, "the grant of the next call")
			h.used(want, 1)
			h.equal(must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID}))(h).Total, i+1, "grants")
		}
	},
	"a failed approval creates no grant": func(h *house) {
		past := h.now.Add(-time.Second)
		denied, gone, seen := h.held(`{"a":1}`), h.held(`{"a":2}`), h.held(`{"a":3}`)
		for _, d := range []*action.Draft{denied, gone, seen} {
			h.began(d)
		}
		h.deny(denied.ID, "No.")
		must(h.db.Withdraw(h.ctx, h.org.ID, gone.ID, h.now))(h)
		for name, row := range map[string]struct {
			id     string
			change func(*action.Verdict)
			kind   error
			code   string
		}{
			"denied before":     {denied.ID, func(*action.Verdict) {}, action.ErrConflict, "already_decided"},
			"withdrawn":         {gone.ID, func(*action.Verdict) {}, action.ErrConflict, "withdrawn"},
			"other params":      {seen.ID, func(v *action.Verdict) { v.ParamsHash = "other" }, action.ErrConflict, "params_changed"},
			"another tool":      {seen.ID, func(v *action.Verdict) { v.ToolHash = "other" }, action.ErrConflict, "params_changed"},
			"unknown":           {newID(), func(*action.Verdict) {}, action.ErrNotFound, "invocation_not_found"},
			"a scope of none":   {seen.ID, func(v *action.Verdict) { v.Grant.Scope = "all" }, action.ErrInvalid, "invalid_grant"},
			"a budget of none":  {seen.ID, func(v *action.Verdict) { v.Grant.MaxCalls = budget(0) }, action.ErrInvalid, "invalid_grant"},
			"an end that came":  {seen.ID, func(v *action.Verdict) { v.Grant.ExpiresAt = &past }, action.ErrInvalid, "invalid_grant"},
			"a grant that fits": {seen.ID, func(v *action.Verdict) { v.Now = v.Now.Add(time.Hour) }, action.ErrGone, "expired"},
		} {
			v := h.approving(row.id, action.ScopeSession)
			row.change(&v)
			asked := *v.Grant
			_, err := h.db.Approve(h.ctx, v)
			h.refused(err, row.kind, row.code)
			h.equal(*v.Grant, asked, "the grant of a failed approval, "+name)
		}
		h.noGrants()
		h.status(seen.ID, action.StatusPending)
	},
	"a grant that cannot be stored approves nothing": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		v := h.approving(d.ID, action.ScopeSession)
		v.Grant.Pins = map[string]json.RawMessage{"/a": json.RawMessage("{")} // no JSON
		if _, err := h.db.Approve(h.ctx, v); err == nil {
			h.Fatal("the pins were taken")
		}
		h.status(d.ID, action.StatusPending)
		h.noGrants()
		h.approve(d.ID)
	},
	"self-approval can be forbidden": func(h *house) {
		d, other := h.held(`{"a":1}`), h.held(`{"a":2}`)
		h.began(d)
		h.began(other)
		h.choose(action.Settings{SelfApproval: false, DenialLimit: 3})
		v := h.verdict(d.ID) // alice made the session
		_, err := h.db.Approve(h.ctx, v)
		e := h.refused(err, action.ErrForbidden, "self_approval")
		if e.Invocation != d.ID || !strings.Contains(e.Message, "another owner or admin") {
			h.Errorf("%+v does not say who can", e)
		}
		v = h.approving(d.ID, action.ScopeOrganization)
		_, err = h.db.Approve(h.ctx, v)
		h.refused(err, action.ErrForbidden, "self_approval")
		h.noGrants()
		h.status(d.ID, action.StatusPending)
		h.deny(other.ID, "Rather not.") // she may still say no
		v.By = "bob"
		must(h.db.Approve(h.ctx, v))(h)
		_, err = h.db.Approve(h.ctx, h.verdict(d.ID))
		h.refused(err, action.ErrConflict, "already_decided")
		h.choose(action.DefaultSettings())
		d = h.held(`{"a":3}`)
		h.began(d)
		h.approve(d.ID)
	},
	"grants of an excluded approver do not cover calls": func(h *house) {
		hers := h.newGrant(action.Terms{Scope: action.ScopeOrganization, Source: "linear", Action: "create_issue"})
		hers.CreatedBy = "alice"
		hers = must(h.db.CreateGrant(h.ctx, hers))(h)
		covered := func() int {
			return len(must(h.db.GrantsFor(h.ctx, h.org.ID, h.s.ID, "linear", "create_issue", h.now))(h))
		}
		h.equal(covered(), 1, "grants before")
		h.choose(action.Settings{SelfApproval: false})
		h.equal(covered(), 0, "grants")
		h.spent(h.by(`{"a":1}`, hers.ID))
		g := h.newGrant(terms())
		g.CreatedBy = "alice"
		_, err := h.db.CreateGrant(h.ctx, g)
		h.refused(err, action.ErrForbidden, "self_approval")
		h.s = must(h.db.CreateSession(h.ctx, action.Session{Organization: h.org.ID, CreatedBy: "bob"}))(h)
		h.equal(covered(), 1, "grants of alice for a session of bob")
		h.began(h.by(`{"a":1}`, hers.ID))
	},
}
