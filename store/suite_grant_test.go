package store_test

import (
	"encoding/json"
	"fmt"
	"time"

	"sallyport/action"
)

// terms are of a grant for exactly one action of the house's session.
func terms() action.Terms {
	return action.Terms{Scope: action.ScopeSession, Source: "linear", Action: "create_issue"}
}

func budget(n int64) *int64 { return &n }

// grant makes a grant that an admin gives.
func (h *house) grant(t action.Terms) action.Grant {
	h.Helper()
	return must(h.db.CreateGrant(h.ctx, h.newGrant(t)))(h)
}

func pins(n int) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := range n {
		m[fmt.Sprint("/", i)] = json.RawMessage("1")
	}
	return m
}

func (h *house) newGrant(t action.Terms) action.Grant {
	g := action.Grant{Organization: h.org.ID, Terms: t, CreatedBy: "bob", CreatedAt: h.now}
	if t.Scope == action.ScopeSession {
		g.Session = h.s.ID
	}
	return g
}

// settle changes what the organization chose.
func (h *house) choose(s action.Settings) {
	h.Helper()
	h.ok(h.db.SetSettings(h.ctx, h.org.ID, s, "owner"))
	h.org = must(h.db.Organization(h.ctx, h.org.ID))(h)
}

// events returns what was recorded of a subject, newest first.
func (h *house) events(subject string) []action.PolicyEvent {
	h.Helper()
	return must(h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org.ID, Subject: subject}))(h).Items
}

// recorded checks the newest event of a subject: its kind, who did it, and
// what it says was there before and after.
func (h *house) recorded(subject, kind, by string, before, after any) {
	h.Helper()
	e := h.events(subject)
	if len(e) == 0 {
		h.Fatalf("nothing was recorded of %s", subject)
	}
	h.equal([]string{e[0].Kind, e[0].By, string(e[0].Before), string(e[0].After)},
		[]string{kind, by, asJSON(h, before), asJSON(h, after)}, "the event")
}

func asJSON(h *house, v any) string {
	h.Helper()
	return string(must(json.Marshal(v))(h))
}

// full checks that the place of g takes no more, however it is made.
func (h *house) full(g action.Grant, held, asked string) {
	h.Helper()
	_, created := h.db.CreateGrant(h.ctx, g)
	_, approved := h.db.Approve(h.ctx, h.approving(held, g.Scope))
	_, _, granted := h.db.ApproveRequest(h.ctx, h.answer(asked))
	for _, err := range []error{created, approved, granted} {
		h.refused(err, action.ErrTooMany, "too_many_grants")
	}
	h.status(held, action.StatusPending)
	h.equal(must(h.db.GrantRequest(h.ctx, h.org.ID, asked))(h).Status, action.RequestPending, "the request")
}

var grantStories = map[string]func(*house){
	"a grant is stored as requested, with defaults": func(h *house) {
		ends := h.now.Add(time.Hour)
		t := terms()
		t.MaxCalls, t.ExpiresAt = budget(3), &ends
		t.Pins = map[string]json.RawMessage{"/b": json.RawMessage(`"<&>\u2028"`), "/a~1b": json.RawMessage(`{"n":1.10}`)}
		want := h.newGrant(t)
		want.ToolHash = "tool"
		asked := want
		asked.ID, asked.UsedCalls, asked.Invocation, asked.RevokedBy = "mine", 7, "some call", "eve"
		got := must(h.db.CreateGrant(h.ctx, asked))(h)
		if got.ID == "" || got.ID == "mine" {
			h.Errorf("the id is %q", got.ID)
		}
		want.ID = got.ID
		h.equal(got, want, "the grant")
		h.equal(must(h.db.Grant(h.ctx, h.org.ID, got.ID))(h), want, "the stored grant")
		h.recorded(got.ID, action.EventGrant, "bob", nil, want)
		everything := h.grant(action.Terms{Scope: action.ScopeOrganization, Any: true})
		h.equal(must(h.db.Grant(h.ctx, h.org.ID, everything.ID))(h), everything, "a grant of everything")
	},
	"an invalid grant is refused": func(h *house) {
		past := h.now
		for name, row := range map[string]struct {
			change func(*action.Grant)
			field  string
		}{
			"no scope":                {func(g *action.Grant) { g.Scope = "" }, "/scope"},
			"no session":              {func(g *action.Grant) { g.Session = "" }, "/session_id"},
			"a session too many":      {func(g *action.Grant) { g.Scope = action.ScopeOrganization }, "/session_id"},
			"no action":               {func(g *action.Grant) { g.Action = "" }, "/action"},
			"no source":               {func(g *action.Grant) { g.Source = "" }, "/action"},
			"any, and an action":      {func(g *action.Grant) { g.Any = true }, "/action"},
			"every action":            {func(g *action.Grant) { g.Action = "*" }, "/action"},
			"too many pins":           {func(g *action.Grant) { g.Pins = pins(21) }, "/pins"},
			"no call":                 {func(g *action.Grant) { g.MaxCalls = budget(0) }, "/max_calls"},
			"less than none":          {func(g *action.Grant) { g.MaxCalls = budget(-1) }, "/max_calls"},
			"an end that came":        {func(g *action.Grant) { g.ExpiresAt = &past }, "/expires_at"},
			"nobody who answers":      {func(g *action.Grant) { g.CreatedBy = "" }, ""},
			"any, for one definition": {func(g *action.Grant) { g.Any, g.Action, g.ToolHash = true, "", "tool" }, ""},
		} {
			g := h.newGrant(terms())
			row.change(&g)
			_, err := h.db.CreateGrant(h.ctx, g)
			if row.field == "" {
				if err == nil {
					h.Errorf("%s was taken", name)
				}
				continue
			}
			if e := h.refused(err, action.ErrInvalid, "invalid_grant"); e.Field != row.field {
				h.Errorf("%s: field %s, want %s", name, e.Field, row.field)
			}
		}
		h.equal(must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID}))(h).Total, 0, "grants")
		h.equal(len(must(h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org.ID}))(h).Items), 0, "events")
	},
	"a session's grant needs the organization's live session": func(h *house) {
		g := h.newGrant(terms())
		g.Session = newHouse(h.T, h.db).s.ID
		_, err := h.db.CreateGrant(h.ctx, g)
		h.refused(err, action.ErrNotFound, "session_not_found")
		must(h.db.RevokeSession(h.ctx, h.org.ID, h.s.ID))(h)
		_, err = h.db.CreateGrant(h.ctx, h.newGrant(terms()))
		h.refused(err, action.ErrConflict, "session_ended")
	},
	"revoking counts once, and is recorded once": func(h *house) {
		g := h.grant(terms())
		revoked := must(h.db.RevokeGrant(h.ctx, h.org.ID, g.ID, "carol"))(h)
		if revoked.RevokedAt == nil || revoked.RevokedBy != "carol" {
			h.Errorf("the revoked grant: %+v", revoked)
		}
		h.recorded(g.ID, action.EventGrant, "carol", g, revoked)
		h.equal(must(h.db.RevokeGrant(h.ctx, h.org.ID, g.ID, "dave"))(h), revoked, "the grant after a second time")
		h.equal(len(h.events(g.ID)), 2, "events")
		for organization, id := range map[string]string{h.org.ID: newID(), newHouse(h.T, h.db).org.ID: g.ID} {
			_, err := h.db.RevokeGrant(h.ctx, organization, id, "carol")
			h.refused(err, action.ErrNotFound, "grant_not_found")
			_, err = h.db.Grant(h.ctx, organization, id)
			h.refused(err, action.ErrNotFound, "grant_not_found")
		}
	},
	"grants are listed, newest first": func(h *house) {
		var ids []string
		add := func(g action.Grant) {
			h.later(time.Second)
			ids = append([]string{g.ID}, ids...)
		}
		mine := h.s
		add(h.grant(terms()))
		add(h.grant(action.Terms{Scope: action.ScopeOrganization, Source: "linear", Any: true}))
		h.s = h.session(action.Interactive)
		add(h.grant(terms()))
		add(h.grant(action.Terms{Scope: action.ScopeOrganization, Source: "slack", Action: "post"}))
		newHouse(h.T, h.db).grant(terms())
		must(h.db.RevokeGrant(h.ctx, h.org.ID, ids[0], "carol"))(h)
		for name, row := range map[string]struct {
			f    action.GrantFilter
			want []string
		}{
			"all":                        {action.GrantFilter{}, ids},
			"of a session":               {action.GrantFilter{Session: mine.ID}, ids[3:]},
			"covering a session":         {action.GrantFilter{Session: mine.ID, Covering: true}, []string{ids[0], ids[2], ids[3]}},
			"covering it, usable":        {action.GrantFilter{Session: mine.ID, Covering: true, Usable: true}, ids[2:]},
			"of sessions":                {action.GrantFilter{Scope: action.ScopeSession}, []string{ids[1], ids[3]}},
			"of the organization":        {action.GrantFilter{Scope: action.ScopeOrganization}, []string{ids[0], ids[2]}},
			"of a source":                {action.GrantFilter{Source: "slack"}, ids[:1]},
			"of an action":               {action.GrantFilter{Action: "create_issue"}, []string{ids[1], ids[3]}},
			"of another source's action": {action.GrantFilter{Source: "slack", Action: "create_issue"}, nil},
		} {
			if row.f.Usable {
				row.want = []string{ids[2], ids[3]}
			}
			row.f.Organization, row.f.Limit = h.org.ID, 2
			var got []string
			for range 5 {
				p := must(h.db.ListGrants(h.ctx, row.f))(h)
				h.equal(p.Total, len(row.want), "total, "+name)
				for _, g := range p.Items {
					got = append(got, g.ID)
				}
				if row.f.Cursor = p.Next; row.f.Cursor == "" {
					break
				}
			}
			h.equal(got, row.want, name)
		}
		_, err := h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID, Cursor: "x"})
		h.refused(err, action.ErrInvalid, "invalid")
	},
	"the grants for a call, narrowest first": func(h *house) {
		org := func(t action.Terms) action.Terms { t.Scope = action.ScopeOrganization; return t }
		some := func(t action.Terms) action.Terms { t.MaxCalls = budget(1); return t }
		everything := action.Terms{Scope: action.ScopeSession, Any: true}
		source := action.Terms{Scope: action.ScopeSession, Source: "linear", Any: true}
		var want []string
		for _, t := range []action.Terms{some(terms()), terms(), terms(), some(org(terms())), org(terms()), source, everything, org(source), org(everything)} {
			h.later(time.Second)
			want = append(want, h.grant(t).ID)
		}
		elsewhere := terms()
		elsewhere.Action = "close_issue"
		for _, t := range []action.Terms{elsewhere, {Scope: action.ScopeSession, Source: "slack", Any: true}} {
			h.grant(t)
		}
		star := h.held(`{"star":1}`) // of a tool that is called so
		star.Action = "*"
		h.began(star)
		must(h.db.Approve(h.ctx, h.approving(star.ID, action.ScopeSession)))(h)
		mine := h.s
		h.s = h.session(action.Interactive)
		h.grant(terms()) // another session's
		newHouse(h.T, h.db).grant(org(terms()))
		got := func() (ids []string) {
			for _, g := range must(h.db.GrantsFor(h.ctx, h.org.ID, mine.ID, "linear", "create_issue", h.now))(h) {
				h.equal(g, must(h.db.Grant(h.ctx, h.org.ID, g.ID))(h), "the grant")
				ids = append(ids, g.ID)
			}
			return ids
		}
		h.equal(got(), want, "grants")
		must(h.db.RevokeGrant(h.ctx, h.org.ID, want[2], "carol"))(h)
		h.equal(got(), append(want[:2:2], want[3:]...), "grants after one was revoked")
	},
	"a target has at most a hundred usable grants, and a call considers all of its targets": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		wish := h.request(terms())
		var last action.Grant
		for i := range 100 {
			t := terms()
			t.Pins = map[string]json.RawMessage{"/n": json.RawMessage(fmt.Sprint(i))}
			last = h.grant(t)
		}
		seen := func() int {
			return len(must(h.db.GrantsFor(h.ctx, h.org.ID, h.s.ID, "linear", "create_issue", h.now))(h))
		}
		h.full(h.newGrant(terms()), d.ID, wish.ID)
		for i, t := range []action.Terms{
			{Scope: action.ScopeOrganization, Source: "linear", Action: "create_issue"},
			{Scope: action.ScopeSession, Source: "linear", Any: true},
			{Scope: action.ScopeSession, Any: true},
		} {
			h.grant(t)
			h.equal(seen(), 101+i, "grants for the call")
		}
		must(h.db.RevokeGrant(h.ctx, h.org.ID, last.ID, "carol"))(h)
		soon := terms()
		soon.ExpiresAt = ptr(h.now.Add(time.Minute))
		h.grant(soon)
		h.full(h.newGrant(terms()), d.ID, wish.ID)
		h.later(time.Minute) // which ends one
		once := terms()
		once.MaxCalls = budget(1)
		h.began(h.by(`{"b":1}`, h.grant(once).ID)) // and one is used up
		must(h.db.Approve(h.ctx, h.approving(d.ID, action.ScopeSession)))(h)
		h.equal(seen(), 103, "grants for the call")
	},
	"an expired grant covers nothing": func(h *house) {
		ends := h.now.Add(time.Minute)
		t := terms()
		t.ExpiresAt = &ends
		h.grant(t)
		covered := func(now time.Time) int {
			return len(must(h.db.GrantsFor(h.ctx, h.org.ID, h.s.ID, "linear", "create_issue", now))(h))
		}
		h.equal([]int{covered(ends.Add(-time.Microsecond)), covered(ends)}, []int{1, 0}, "grants before and at the end")
	},
	"old grants are deleted": func(h *house) {
		day := 24 * time.Hour
		h.later(-60 * day)
		t := terms()
		ends := h.now.Add(time.Hour)
		t.ExpiresAt = &ends
		expired := h.grant(t)
		spent := h.grant(action.Terms{Scope: action.ScopeSession, Source: "linear", Action: "create_issue", MaxCalls: budget(1)})
		h.began(h.by(`{"a":1}`, spent.ID))
		kept := []action.Grant{h.grant(terms())}
		h.later(60 * day)
		revoked := h.grant(terms())
		must(h.db.RevokeGrant(h.ctx, h.org.ID, revoked.ID, "carol"))(h)
		kept = append(kept, h.grant(terms()))
		all := func() int { return must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID}))(h).Total }
		must(h.db.SweepGrants(h.ctx, h.now.Add(-40*day), 0))(h)
		h.equal(all(), 5, "grants, swept too early")
		must(h.db.SweepGrants(h.ctx, h.now, 0))(h)
		for _, id := range []string{expired.ID, spent.ID} {
			_, err := h.db.Grant(h.ctx, h.org.ID, id)
			h.refused(err, action.ErrNotFound, "grant_not_found")
			h.equal(len(h.events(id)), 1, "events that stay")
		}
		must(h.db.SweepGrants(h.ctx, time.Now().Add(31*day), 0))(h)
		h.equal(all(), len(kept), "grants that stay")
		for _, g := range kept {
			must(h.db.Grant(h.ctx, h.org.ID, g.ID))(h)
		}
	},
}
