package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sallyport/action"
)

func (h *house) wish(t action.Terms) action.GrantRequest {
	return action.GrantRequest{
		Organization: h.org.ID, Session: h.s.ID, Terms: t, ToolHash: "tool", Reason: "To close <many> issues.",
		CreatedAt: h.now, ExpiresAt: h.now.Add(time.Hour),
	}
}

func (h *house) request(t action.Terms) action.GrantRequest {
	h.Helper()
	r, _ := h.asks(h.wish(t))
	return r
}

func (h *house) asks(r action.GrantRequest) (_ action.GrantRequest, made bool) {
	h.Helper()
	r, made, err := h.db.RequestGrant(h.ctx, r)
	h.ok(err)
	return r, made
}

func (h *house) answer(id string) action.RequestVerdict {
	return action.RequestVerdict{Organization: h.org.ID, ID: id, By: "bob", Note: "For today."}
}

var grantRequestStories = map[string]func(*house){
	"a request waits for a person": func(h *house) {
		ends := h.now.Add(time.Hour)
		t := terms()
		t.MaxCalls, t.ExpiresAt, t.Pins = budget(5), &ends, map[string]json.RawMessage{"/team": json.RawMessage(`"<A>"`)}
		want := h.wish(t)
		got := h.request(t)
		want.ID, want.Status = got.ID, action.RequestPending
		h.equal(got, want, "the request")
		h.equal(must(h.db.GrantRequest(h.ctx, h.org.ID, got.ID))(h), want, "the stored request")
		_, err := h.db.GrantRequest(h.ctx, newHouse(h.T, h.db).org.ID, got.ID)
		h.refused(err, action.ErrNotFound, "grant_request_not_found")
		h.noGrants()
	},
	"asking again for the same is asking once": func(h *house) {
		first := h.request(terms())
		made := func(wish action.GrantRequest) []any {
			r, made := h.asks(wish)
			return []any{made, r.ID == first.ID}
		}
		h.later(time.Minute)
		h.equal(h.request(terms()), first, "the request")
		h.equal(made(h.wish(terms())), []any{false, true}, "the same again: made, the same")
		until := terms()
		until.ExpiresAt = ptr(h.now.Add(time.Hour))
		h.equal(h.request(until).ID, first.ID, "the request, with another end")
		more, hash := terms(), h.wish(terms())
		more.MaxCalls, hash.ToolHash = budget(2), "changed"
		h.equal(h.request(more).ID == first.ID, false, "other terms are the same")
		h.equal(made(hash), []any{true, false}, "another definition: made, the same")
		h.later(time.Hour)
		h.equal(h.request(terms()).ID == first.ID, false, "one that expired is asked for again")
	},
	"an expired request can be repeated": func(h *house) {
		t := terms()
		t.ExpiresAt = ptr(h.now.Add(time.Minute))
		first := h.request(t)
		h.equal(first.ExpiresAt, *t.ExpiresAt, "the end of the request")
		h.later(time.Minute)
		t.ExpiresAt = ptr(h.now.Add(time.Minute))
		h.equal(h.request(t).ID == first.ID, false, "the one that is over is the answer")
		must(h.db.SweepGrants(h.ctx, h.now, 0))(h)
		h.equal(must(h.db.GrantRequest(h.ctx, h.org.ID, first.ID))(h).Status, action.RequestExpired, "its status")
	},
	"a denial applies to the same request": func(h *house) {
		r := h.request(terms())
		denied := must(h.db.DenyRequest(h.ctx, h.answer(r.ID)))(h)
		h.equal(h.request(terms()), denied, "the same request again")
		h.now = time.Now().Add(15 * time.Minute)
		h.equal(h.request(terms()).Status, action.RequestPending, "a while later")
	},
	"the denial limit applies to similar requests": func(h *house) {
		h.choose(action.Settings{SelfApproval: true, DenialLimit: 2})
		calls := int64(0)
		more := func(t action.Terms) action.GrantRequest { // never the same
			calls++
			t.MaxCalls = budget(calls)
			return h.wish(t)
		}
		deny := func(t action.Terms) {
			h.Helper()
			r, _ := h.asks(more(t))
			must(h.db.DenyRequest(h.ctx, h.answer(r.ID)))(h)
		}
		often := func(t action.Terms) {
			h.Helper()
			_, made, err := h.db.RequestGrant(h.ctx, more(t))
			h.refused(err, action.ErrForbidden, "denied_often")
			h.equal(made, false, "made")
		}
		wide := terms()
		wide.Scope = action.ScopeOrganization
		deny(terms())
		deny(wide)
		often(terms())
		often(wide)
		elsewhere := terms()
		elsewhere.Action = "close_issue"
		deny(elsewhere)
		deny(action.Terms{Scope: action.ScopeSession, Source: "linear", Any: true})
		deny(action.Terms{Scope: action.ScopeSession, Any: true})
		often(action.Terms{Scope: action.ScopeSession, Source: "slack", Any: true})
		h.asks(more(elsewhere))
		h.choose(action.Settings{SelfApproval: true})
		h.asks(more(terms()))
		h.choose(action.Settings{SelfApproval: true, DenialLimit: 2})
		often(terms())
		h.now = time.Now().Add(23 * time.Hour)
		often(terms())
		h.now = time.Now().Add(24 * time.Hour)
		h.asks(more(terms()))
		h.s = h.session(action.Interactive)
		h.asks(more(terms()))
	},
	"at most ten requests are pending": func(h *house) {
		var last action.GrantRequest
		for i := range 10 {
			t := terms()
			t.Action = fmt.Sprint("action ", i)
			last = h.request(t)
		}
		_, _, err := h.db.RequestGrant(h.ctx, h.wish(terms()))
		h.refused(err, action.ErrTooMany, "too_many_requests")
		h.equal(h.request(last.Terms).ID, last.ID, "the same again")
		must(h.db.DenyRequest(h.ctx, h.answer(last.ID)))(h)
		h.request(terms())
	},
	"an invalid request is refused": func(h *house) {
		t := terms()
		t.MaxCalls = budget(-1)
		_, _, err := h.db.RequestGrant(h.ctx, h.wish(t))
		h.equal(h.refused(err, action.ErrInvalid, "invalid_grant").Field, "/max_calls", "field")
		foreign := h.wish(terms())
		foreign.Session = newHouse(h.T, h.db).s.ID
		_, _, err = h.db.RequestGrant(h.ctx, foreign)
		h.refused(err, action.ErrNotFound, "session_not_found")
		must(h.db.RevokeSession(h.ctx, h.org.ID, h.s.ID))(h)
		_, _, err = h.db.RequestGrant(h.ctx, h.wish(terms()))
		h.refused(err, action.ErrUnauthenticated, "session_revoked")
	},
	"an approved request becomes the requested grant": func(h *house) {
		t := terms()
		t.Pins = map[string]json.RawMessage{"/team": json.RawMessage(`"<A>"`)}
		asked := h.request(t)
		r, g, err := h.db.ApproveRequest(h.ctx, h.answer(asked.ID))
		h.ok(err)
		want := asked
		want.Status, want.Grant, want.DecidedBy, want.DecidedAt, want.DecidedNote = action.RequestApproved, g.ID, "bob", r.DecidedAt, "For today."
		h.equal(r, want, "the request")
		h.equal(must(h.db.GrantRequest(h.ctx, h.org.ID, r.ID))(h), want, "the stored request")
		h.equal(g, action.Grant{
			ID: g.ID, Organization: h.org.ID, Session: h.s.ID, Terms: t, ToolHash: "tool", Request: r.ID, CreatedBy: "bob", CreatedAt: *r.DecidedAt,
		}, "the grant")
		h.equal(must(h.db.Grant(h.ctx, h.org.ID, g.ID))(h), g, "the stored grant")
		h.recorded(r.ID, action.EventRequest, "bob", asked, r)
		h.recorded(g.ID, action.EventGrant, "bob", nil, g)
		h.began(h.by(`{"team":"<A>"}`, g.ID))
	},
	"a request is narrowed, never widened": func(h *house) {
		later, sooner := h.now.Add(2*time.Hour), h.now.Add(time.Hour)
		asked := action.Terms{Scope: action.ScopeSession, Source: "linear", Action: "create_issue", MaxCalls: budget(5), ExpiresAt: &later}
		r := h.request(asked)
		for field, widen := range map[string]func(*action.Terms){
			"/scope":      func(t *action.Terms) { t.Scope = action.ScopeOrganization },
			"/source_id":  func(t *action.Terms) { t.Source = "slack" },
			"/action":     func(t *action.Terms) { t.Action = "delete_issue" },
			"/max_calls":  func(t *action.Terms) { t.MaxCalls = budget(6) },
			"/expires_at": func(t *action.Terms) { t.ExpiresAt = nil },
		} {
			v, wide := h.answer(r.ID), asked
			widen(&wide)
			v.Terms = &wide
			_, _, err := h.db.ApproveRequest(h.ctx, v)
			h.equal(h.refused(err, action.ErrInvalid, "invalid_grant").Field, field, "field")
		}
		h.noGrants()
		v, narrow := h.answer(r.ID), asked
		narrow.MaxCalls, narrow.ExpiresAt, narrow.Pins = budget(1), &sooner, map[string]json.RawMessage{"/a": json.RawMessage("1")}
		v.Terms = &narrow
		got, g, err := h.db.ApproveRequest(h.ctx, v)
		h.ok(err)
		h.equal([]any{g.Terms, got.Terms}, []any{narrow, asked}, "what was granted, and what was asked")
	},
	"a request for any action can be narrowed": func(h *house) {
		r := h.wish(action.Terms{Scope: action.ScopeOrganization, Any: true})
		r.ToolHash = ""
		r, _ = h.asks(r)
		v := h.answer(r.ID)
		v.Terms = &action.Terms{Scope: action.ScopeOrganization, Source: "linear", Any: true}
		_, g, err := h.db.ApproveRequest(h.ctx, v)
		h.ok(err)
		h.equal([]any{g.Session, g.Terms}, []any{"", *v.Terms}, "the grant")
	},
	"a second decision gets the first decider's name": func(h *house) {
		h.ok(h.db.CreateUser(h.ctx, action.User{ID: "u" + h.org.ID, Organization: h.org.ID, Name: "Grace", Role: action.RoleAdmin}, "me"))
		for word, decide := range map[string]func(action.RequestVerdict) error{
			"approved": func(v action.RequestVerdict) error { _, _, err := h.db.ApproveRequest(h.ctx, v); return err },
			"denied":   func(v action.RequestVerdict) error { _, err := h.db.DenyRequest(h.ctx, v); return err },
		} {
			t := terms()
			t.Action = word
			v := h.answer(h.request(t).ID)
			v.By = "u" + h.org.ID
			h.ok(decide(v))
			_, _, err := h.db.ApproveRequest(h.ctx, h.answer(v.ID))
			if e := h.refused(err, action.ErrConflict, "already_decided"); !strings.Contains(e.Message, word) || !strings.Contains(e.Message, "Grace") {
				h.Errorf("%q does not say how and by whom", e.Message)
			}
			_, err = h.db.DenyRequest(h.ctx, h.answer(v.ID))
			h.refused(err, action.ErrConflict, "already_decided")
		}
		h.equal(must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID}))(h).Total, 1, "grants")
		_, _, err := h.db.ApproveRequest(h.ctx, h.answer(newID()))
		h.refused(err, action.ErrNotFound, "grant_request_not_found")
		nobody := h.answer(h.request(terms()).ID)
		nobody.By = ""
		if _, err := h.db.DenyRequest(h.ctx, nobody); err == nil {
			h.Error("nobody denied it")
		}
	},
	"self-approval of requests can be forbidden": func(h *house) {
		h.choose(action.Settings{SelfApproval: false})
		v := h.answer(h.request(terms()).ID)
		v.By = "alice"
		_, _, err := h.db.ApproveRequest(h.ctx, v)
		h.refused(err, action.ErrForbidden, "self_approval")
		must(h.db.DenyRequest(h.ctx, v))(h)
		h.noGrants()
	},
	"a request that expired is gone, swept or not": func(h *house) {
		h.later(-2 * time.Hour)
		r := h.request(terms())
		h.later(2 * time.Hour)
		for range 2 {
			_, _, err := h.db.ApproveRequest(h.ctx, h.answer(r.ID))
			h.refused(err, action.ErrGone, "request_expired")
			_, err = h.db.DenyRequest(h.ctx, h.answer(r.ID))
			h.refused(err, action.ErrGone, "request_expired")
			must(h.db.SweepGrants(h.ctx, h.now, 0))(h)
		}
		h.equal(must(h.db.GrantRequest(h.ctx, h.org.ID, r.ID))(h).Status, action.RequestExpired, "status")
		must(h.db.SweepGrants(h.ctx, h.now.Add(29*24*time.Hour), 0))(h)
		must(h.db.GrantRequest(h.ctx, h.org.ID, r.ID))(h)
		must(h.db.SweepGrants(h.ctx, h.now.Add(30*24*time.Hour), 0))(h)
		_, err := h.db.GrantRequest(h.ctx, h.org.ID, r.ID)
		h.refused(err, action.ErrNotFound, "grant_request_not_found")
	},
	"an ended session cannot request grants": func(h *house) {
		r := h.request(terms())
		ended := h.s
		h.s = h.session(action.Interactive)
		other := h.request(terms())
		must(h.db.RevokeSession(h.ctx, h.org.ID, ended.ID))(h)
		_, _, err := h.db.ApproveRequest(h.ctx, h.answer(r.ID))
		h.refused(err, action.ErrConflict, "session_ended")
		h.noGrants()
		must(h.db.SweepGrants(h.ctx, h.now, 0))(h)
		h.equal(must(h.db.GrantRequest(h.ctx, h.org.ID, r.ID))(h).Status, action.RequestExpired, "status")
		h.equal(must(h.db.GrantRequest(h.ctx, h.org.ID, other.ID))(h).Status, action.RequestPending, "status of another session's")
	},
	"requests are listed, newest first": func(h *house) {
		var ids []string
		for i := range 5 {
			h.later(time.Second)
			t := terms()
			t.Action = fmt.Sprint("action ", i)
			ids = append([]string{h.request(t).ID}, ids...)
		}
		h.s = h.session(action.Interactive)
		h.later(time.Second)
		other := h.request(terms()).ID
		must(h.db.DenyRequest(h.ctx, h.answer(ids[0])))(h)
		for name, row := range map[string]struct {
			f    action.RequestFilter
			want []string
		}{
			"all":          {action.RequestFilter{}, append([]string{other}, ids...)},
			"pending":      {action.RequestFilter{Status: action.RequestPending}, append([]string{other}, ids[1:]...)},
			"of a session": {action.RequestFilter{Session: h.s.ID}, []string{other}},
			"denied there": {action.RequestFilter{Session: h.s.ID, Status: action.RequestDenied}, nil},
		} {
			row.f.Organization, row.f.Limit = h.org.ID, 2
			var got []string
			for range 5 {
				p := must(h.db.ListGrantRequests(h.ctx, row.f))(h)
				h.equal(p.Total, len(row.want), "total, "+name)
				for _, r := range p.Items {
					got = append(got, r.ID)
				}
				if row.f.Cursor = p.Next; row.f.Cursor == "" {
					break
				}
			}
			h.equal(got, row.want, name)
		}
		_, err := h.db.ListGrantRequests(h.ctx, action.RequestFilter{Organization: h.org.ID, Status: "maybe"})
		h.refused(err, action.ErrInvalid, "invalid")
	},
}
