package server

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/store"
	"sallyport/store/coord"
)

// These are the stories of policy over the real Gate and the real store.

// onBoth tells a story over SQLite and over PostgreSQL.
func onBoth(t *testing.T, story func(t *testing.T, h *house)) {
	many := func(c *gate.Config) { c.MaxPending = 1000 }
	t.Run("SQLite", func(t *testing.T) { story(t, newHouse(t, many)) })
	t.Run("PostgreSQL", func(t *testing.T) {
		story(t, newHouseOn(t, store.Config{URL: postgresTables(t)}, many, func(c *gate.Config) { c.Alone = false }))
	})
}

// notes is the tool of which these stories are, with what it did.
func (h *house) notes(name string, risk action.Risk) *effects {
	e := &effects{}
	h.catalog.put(tool(name, risk, e.run))
	return e
}

func (h *house) grant(g action.Grant) action.Grant {
	h.t.Helper()
	g.Organization, g.CreatedBy = org, "alice"
	if g.Scope == "" {
		g.Scope = action.ScopeOrganization
	}
	if !g.Any && g.Action == "" {
		g.Source, g.Action = "notes", "write"
	}
	made, err := h.db.CreateGrant(h.t.Context(), g)
	if err != nil {
		h.t.Fatal(err)
	}
	return made
}

func calls(n int64) *int64 { return &n }

// at once calls the tool with its own params from each caller, and gives up
// on those that are held.
func (h *house) atOnce(callers int, name string) (completed, pending int64) {
	var ran, held atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			c := h.call(name, fmt.Sprintf(`{"n":%d}`, i))
			c.Patience = 0
			out, err := h.gate.Call(context.Background(), &c)
			switch {
			case err != nil:
				h.t.Error(err)
			case out.Invocation.Status == action.StatusCompleted:
				ran.Add(1)
			case out.Invocation.Status == action.StatusPending:
				held.Add(1)
			default:
				h.t.Errorf("a call is %s: %+v", out.Invocation.Status, out.Invocation.Error)
			}
		})
	}
	all.Wait()
	return ran.Load(), held.Load()
}

func TestBudgetOfNRunsExactlyN(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		const budget, callers = 7, 64
		e := h.notes("write", action.RiskWrite)
		g := h.grant(action.Grant{Terms: action.Terms{MaxCalls: calls(budget)}})
		ran, held := h.atOnce(callers, "write")
		if ran != budget || e.n.Load() != budget || held != callers-budget {
			t.Errorf("%d ran with %d effects and %d are held; want %d and %d", ran, e.n.Load(), held, budget, callers-budget)
		}
		now, err := h.db.Grant(t.Context(), org, g.ID)
		if err != nil || now.UsedCalls != budget {
			t.Errorf("used %d of %d (%v)", now.UsedCalls, budget, err)
		}
		for _, inv := range h.rows(action.StatusCompleted) {
			if inv.Grant != g.ID || inv.ModeSource != action.LayerGrant || inv.Mode != action.ModeAllow {
				t.Errorf("a row names grant %q, %s by %s", inv.Grant, inv.Mode, inv.ModeSource)
			}
		}
	})
}

func TestApproveWithGrant(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		e := h.notes("write", action.RiskWrite)
		done := h.begin(t.Context(), h.call("write", `{"channel":"C1","text":"one"}`))
		v := h.verdict(h.pending().ID)
		v.Grant, v.Pin = &action.Grant{Terms: action.Terms{Scope: action.ScopeSession, MaxCalls: calls(2)}}, []string{"/channel"}
		if _, err := h.gate.Approve(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		h.want(h.get(done), action.StatusCompleted)
		if g := v.Grant; g.ID == "" || g.Session != h.session.ID || g.Action != "write" || g.ToolHash != "h1" || string(g.Pins["/channel"]) != `"C1"` {
			t.Fatalf("the grant is %+v", g)
		}
		// The approval itself is not counted: two more calls go through.
		for _, text := range []string{"two", "three"} {
			out := h.want(h.get(h.begin(t.Context(), h.call("write", `{"channel":"C1","text":"`+text+`"}`))), action.StatusCompleted)
			if out.Invocation.Grant != v.Grant.ID {
				t.Errorf("ran with grant %q", out.Invocation.Grant)
			}
		}
		for what, params := range map[string]string{"beyond the budget": `{"channel":"C1"}`, "in another channel": `{"channel":"C2"}`} {
			c := h.call("write", params)
			c.Patience = 0
			h.want(h.get(h.begin(t.Context(), c)), action.StatusPending)
			_ = what
		}
		if e.n.Load() != 3 {
			t.Errorf("%d effects", e.n.Load())
		}
	})
}

func TestPinnedGrantOfAnApproval(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.notes("write", action.RiskWrite)
	h.begin(t.Context(), h.call("write", `{"channel":"C1","token":"xoxb-hidden-value-1"}`))
	id := h.pending().ID
	for name, test := range map[string]struct {
		terms action.Terms
		pin   []string
		field string
	}{
		"no pointer":           {action.Terms{Scope: action.ScopeSession}, []string{"channel"}, "/grant/pin"},
		"no such param":        {action.Terms{Scope: action.ScopeSession}, []string{"/room"}, "/grant/pin"},
		"a secret":             {action.Terms{Scope: action.ScopeSession}, []string{"/token"}, "/pins"},
		"another value":        {action.Terms{Scope: action.ScopeSession, Pins: map[string]json.RawMessage{"/channel": json.RawMessage(`"C2"`)}}, nil, "/grant/pins"},
		"unknown scope":        {action.Terms{Scope: "galaxy"}, nil, "/scope"},
		"negative budget":      {action.Terms{Scope: action.ScopeSession, MaxCalls: calls(-1)}, nil, "/max_calls"},
		"expired from scratch": {action.Terms{Scope: action.ScopeSession, ExpiresAt: ago(time.Minute)}, nil, "/expires_at"},
	} {
		v := h.verdict(id)
		v.Grant, v.Pin = &action.Grant{Terms: test.terms}, test.pin
		_, err := h.gate.Approve(t.Context(), v)
		if e := action.Public(err); !errors.Is(err, action.ErrInvalid) || e.Field != test.field {
			t.Errorf("%s: %v (field %q)", name, err, e.Field)
		}
	}
	if inv := h.row(id); inv.Status != action.StatusPending {
		t.Errorf("the call is %s", inv.Status)
	}
	if page, err := h.db.ListGrants(t.Context(), action.GrantFilter{Organization: org}); err != nil || len(page.Items) > 0 {
		t.Errorf("%d grants (%v)", len(page.Items), err)
	}
}

func ago(d time.Duration) *time.Time {
	then := time.Now().Add(-d)
	return &then
}

func TestRevokedGrantCoversNoNextCall(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		h.notes("write", action.RiskWrite)
		g := h.grant(action.Grant{})
		h.want(h.get(h.begin(t.Context(), h.call("write", `{"n":1}`))), action.StatusCompleted)
		if _, err := h.db.RevokeGrant(t.Context(), org, g.ID, "alice"); err != nil {
			t.Fatal(err)
		}
		c := h.call("write", `{"n":2}`)
		c.Patience = 0
		h.want(h.get(h.begin(t.Context(), c)), action.StatusPending)
	})
}

// A grant that is used up between the decision and the row is not used.
func TestGrantSpentBetweenDecisionAndRow(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	e := h.notes("write", action.RiskWrite)
	g := h.grant(action.Grant{Terms: action.Terms{MaxCalls: calls(1)}})
	stale := h.rules.grants
	var once atomic.Bool
	h.rules.grants = func(ctx context.Context, organization, session, source, act string, now time.Time) ([]action.Grant, error) {
		list, err := stale(ctx, organization, session, source, act, now)
		if once.CompareAndSwap(false, true) {
			if _, err := h.db.RevokeGrant(ctx, org, g.ID, "alice"); err != nil {
				return nil, err
			}
		}
		return list, err
	}
	c := h.call("write", `{}`)
	c.Patience = 0
	h.want(h.get(h.begin(t.Context(), c)), action.StatusPending)
	if e.n.Load() != 0 {
		t.Error("it ran")
	}
}

func TestGrantCoversOnlyWhatItWasMadeFor(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.notes("write", action.RiskWrite)
	h.grant(action.Grant{ToolHash: "h1"})
	h.want(h.get(h.begin(t.Context(), h.call("write", `{"n":1}`))), action.StatusCompleted)
	changed := tool("write", action.RiskWrite, (&effects{}).run)
	changed.Hash = "h2"
	h.catalog.put(changed)
	c := h.call("write", `{"n":2}`)
	c.Patience = 0
	h.want(h.get(h.begin(t.Context(), c)), action.StatusPending)
}

func TestThreeDenialsDenyTheActionInTheSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		h.notes("write", action.RiskWrite)
		h.notes("other", action.RiskWrite)
		for i := range 3 {
			done := h.begin(t.Context(), h.call("write", fmt.Sprintf(`{"n":%d}`, i)))
			if _, err := h.gate.Deny(t.Context(), h.verdict(h.pending().ID)); err != nil {
				t.Fatal(err)
			}
			h.want(h.get(done), action.StatusDenied)
		}
		out := h.want(h.get(h.begin(t.Context(), h.call("write", `{"n":"another"}`))), action.StatusDenied)
		if inv := out.Invocation; inv.DeniedReason != action.DeniedOften || inv.DeniedNote == "" {
			t.Errorf("denied because of %q: %q", inv.DeniedReason, inv.DeniedNote)
		}
		for _, c := range []action.Call{h.call("other", `{}`), {Session: h.newSession(action.Interactive), Source: "notes", Action: "write"}} {
			c.Patience = 0
			h.want(h.get(h.begin(t.Context(), c)), action.StatusPending)
		}
	})
}

func TestCreatorMayNotApproveHisOwn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		h.notes("write", action.RiskWrite)
		if err := h.db.SetSettings(t.Context(), org, action.Settings{SelfApproval: false}, "alice"); err != nil {
			t.Fatal(err)
		}
		done := h.begin(t.Context(), h.call("write", `{}`))
		v := h.verdict(h.pending().ID)
		own := v
		own.By = h.session.CreatedBy
		for _, v := range []action.Verdict{own, {Organization: own.Organization, ID: own.ID, By: own.By, Grant: &action.Grant{Terms: action.Terms{Scope: action.ScopeSession}}}} {
			_, err := h.gate.Approve(t.Context(), v)
			if e := action.Public(err); !errors.Is(err, action.ErrForbidden) || e.Code != "self_approval" {
				t.Fatalf("the creator approves: %v", err)
			}
		}
		h.approve(v.ID)
		h.want(h.get(done), action.StatusCompleted)
	})
}

// capable gives the group a capability.
func (h *house) capable(c action.Capability) {
	h.t.Helper()
	c.Organization, c.GrantedBy = org, "alice"
	if c.Group == "" {
		c.Group, c.Provider = "developer", "notes"
	}
	if _, err := h.db.PutCapability(h.t.Context(), c); err != nil {
		h.t.Fatal(err)
	}
}

// grouped makes a session of the group.
func (h *house) grouped(task string) action.Session {
	h.t.Helper()
	s, err := h.db.CreateSession(h.t.Context(), action.Session{
		Organization: org, Group: "developer", Task: task, CreatedBy: "test", Kind: action.Interactive,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// TestDefaultGroup: a session that is created without a group is held to the ceilings of
// the default group, and one from before is not.
func TestDefaultGroup(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		read, write := h.notes("read", action.RiskRead), h.notes("write", action.RiskWrite)
		h.capable(action.Capability{Level: action.LevelRead})
		plain := func() action.Session {
			s, err := h.db.CreateSession(t.Context(), action.Session{Organization: org, CreatedBy: "member"})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		before := plain()
		if err := h.db.SetSettings(t.Context(), org, action.Settings{SelfApproval: true, DefaultGroup: "developer"}, "alice"); err != nil {
			t.Fatal(err)
		}
		after := plain()
		for _, row := range []struct {
			session action.Session
			tool    string
			want    action.Status
		}{
			{before, "write", action.StatusPending},
			{after, "read", action.StatusCompleted},
			{after, "write", action.StatusDenied},
		} {
			c := h.call(row.tool, `{"text":"milk"}`)
			c.Session, c.Patience = row.session, 0
			out, err := h.gate.Call(t.Context(), &c)
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Invocation; got.Status != row.want || (row.want == action.StatusDenied) != (got.ModeSource == action.LayerCeiling) {
				t.Errorf("%s in group %q: %s by %s, want %s", row.tool, row.session.Group, got.Status, got.ModeSource, row.want)
			}
		}
		if read.n.Load() != 1 || write.n.Load() != 0 {
			t.Errorf("%d reads and %d writes ran", read.n.Load(), write.n.Load())
		}
	})
}

func TestCeilings(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.notes("read", action.RiskRead)
	h.notes("write", action.RiskWrite)
	h.notes("merge", action.RiskDanger)
	s := h.grouped("T-1")
	n := 0
	says := func(name string, status action.Status, why string) {
		t.Helper()
		n++
		out := h.want(h.get(h.begin(t.Context(), action.Call{Session: s, Source: "notes", Action: name, Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})), status)
		inv := out.Invocation
		if status == action.StatusDenied && (inv.ModeSource != action.LayerCeiling || inv.DeniedReason != action.DeniedPolicy) {
			t.Errorf("%s: denied by %s (%s)", name, inv.ModeSource, inv.DeniedReason)
		}
		if !strings.Contains(inv.DeniedNote, why) || h.row(inv.ID).DeniedNote != inv.DeniedNote {
			t.Errorf("%s: the note is %q, want %q in it, in the row too", name, inv.DeniedNote, why)
		}
	}
	says("read", action.StatusDenied, "group 'developer' has no capability at notes") // groups begin with nothing
	h.capable(action.Capability{Level: action.LevelRead})
	says("read", action.StatusCompleted, "")
	says("write", action.StatusDenied, "group 'developer' has level 1 (read) at notes, write needs level 2")
	h.capable(action.Capability{Level: action.LevelWrite})
	says("write", action.StatusCompleted, "")
	h.capable(action.Capability{Level: action.LevelWrite, DeniedActions: []string{"write"}})
	says("write", action.StatusDenied, "write")
	h.capable(action.Capability{Level: action.LevelWrite, AllowedActions: []string{"read"}})
	says("write", action.StatusDenied, "write")
	says("read", action.StatusCompleted, "")
	h.capable(action.Capability{Level: action.LevelProduction, Gate: "Security"})
	says("merge", action.StatusDenied, "Security")
	for _, other := range []action.GateApproval{
		{Group: "developer", Task: "T-2", Gate: "Security"},
		{Group: "ops", Task: "T-1", Gate: "Security"},
		{Group: "developer", Task: "T-1", Gate: "Legal"},
		{Group: "developer", Task: "T-1", Gate: "Security", Actions: []string{"notes:read"}},
	} {
		h.gateApproved(other)
	}
	says("merge", action.StatusDenied, "Security")
	approval := h.gateApproved(action.GateApproval{Group: "developer", Task: "T-1", Gate: "Security", Actions: []string{"notes:merge"}})
	says("merge", action.StatusCompleted, "")
	if err := h.db.RevokeGate(t.Context(), org, approval.ID, "alice"); err != nil {
		t.Fatal(err)
	}
	h.rules.invalidate(org) // as the hint does
	says("merge", action.StatusDenied, "Security")
	if err := h.db.DeleteCapability(t.Context(), org, "developer", "notes", "alice"); err != nil {
		t.Fatal(err)
	}
	h.rules.invalidate(org)
	says("read", action.StatusDenied, "no capability")
}

func (h *house) gateApproved(a action.GateApproval) action.GateApproval {
	h.t.Helper()
	a.Organization, a.ApprovedBy = org, "alice"
	made, err := h.db.ApproveGate(h.t.Context(), a)
	if err != nil {
		h.t.Fatal(err)
	}
	h.rules.invalidate(org)
	return made
}

// What was approved under a capability that is gone by then does not run.
func TestCapabilityRevokedBetweenApprovalAndRun(t *testing.T) {
	t.Parallel()
	h := late(t)
	e := h.notes("write", action.RiskWrite)
	h.capable(action.Capability{Level: action.LevelWrite})
	if err := h.db.SetOverride(t.Context(), action.Override{Organization: org, Key: action.Key{Source: "notes", Action: "write"}, Mode: action.ModeRequireApproval, UpdatedBy: "alice"}); err != nil {
		t.Fatal(err)
	}
	h.session = h.grouped("")
	done := h.begin(t.Context(), h.call("write", `{}`))
	v := h.verdict(h.pending().ID)
	v.Now = time.Now()
	inv, err := h.db.Approve(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.db.DeleteCapability(t.Context(), org, "developer", "notes", "alice"); err != nil {
		t.Fatal(err)
	}
	h.hub.Publish(action.Hint{Kind: action.HintInvocation, Organization: org, Invocation: inv.ID, Status: inv.Status})
	if out := h.want(h.get(done), action.StatusDenied); !strings.Contains(out.Invocation.DeniedNote, "no capability") || e.n.Load() != 0 {
		t.Errorf("it was denied because %q, after %d effects", out.Invocation.DeniedNote, e.n.Load())
	}
}

func TestCapabilityExpires(t *testing.T) {
	t.Parallel()
	clock := &shifted{}
	h := newHouse(t)
	h.rules.clock = clock.now
	h.notes("read", action.RiskRead)
	soon := time.Now().Add(time.Minute)
	h.capable(action.Capability{Level: action.LevelRead, ExpiresAt: &soon})
	s := h.grouped("")
	before, version, err := h.gate.Available(t.Context(), &s)
	if err != nil || len(before) != 1 {
		t.Fatalf("%d actions before it expires (%v)", len(before), err)
	}
	clock.move(2 * time.Minute)
	after, now, err := h.gate.Available(t.Context(), &s)
	if err != nil || len(after) != 0 || now == version {
		t.Errorf("%d actions after it expired, version %s and %s (%v)", len(after), version, now, err)
	}
	out := h.want(h.get(h.begin(t.Context(), action.Call{Session: s, Source: "notes", Action: "read"})), action.StatusDenied)
	if !strings.Contains(out.Invocation.DeniedNote, "expired") {
		t.Error(out.Invocation.DeniedNote)
	}
}

func TestQuotasCountByIdentity(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *gate.Config) { c.Limiter = coord.NewCounter(0, time.Now) })
	h.notes("read", action.RiskRead)
	h.capable(action.Capability{Level: action.LevelRead, Rate: &action.Rate{Calls: 3, Seconds: 3600}})
	if err := h.db.SetQuota(t.Context(), action.Quota{
		Organization: org, Key: action.Key{Source: "notes", Action: "read"}, Per: action.PerSession,
		Rate: action.Rate{Calls: 2, Seconds: 3600}, UpdatedBy: "alice",
	}); err != nil {
		t.Fatal(err)
	}
	one := &action.Call{Session: h.grouped(""), Source: "notes", Action: "read"} // also when it is made again
	two := &action.Call{Session: h.grouped(""), Source: "notes", Action: "read"}
	for i, want := range []struct {
		call *action.Call
		good bool
	}{{one, true}, {one, true}, {one, false}, {two, true}, {two, false}} { // the last one: the group's three are used up
		_, err := h.gate.Call(t.Context(), want.call)
		if e := action.Public(err); want.good != (err == nil) || !want.good && (!errors.Is(err, action.ErrTooMany) || e.Code != "quota_reached" || e.RetryAfter <= 0) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if rows := h.rows(); len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestExplainWritesAndUsesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	e := h.notes("write", action.RiskWrite)
	g := h.grant(action.Grant{Terms: action.Terms{MaxCalls: calls(1), Pins: map[string]json.RawMessage{"/channel": json.RawMessage(`"C1"`)}}})
	for params, mode := range map[string]action.Mode{`{"channel":"C1"}`: action.ModeAllow, `{"channel":"C2"}`: action.ModeRequireApproval, "": action.ModeRequireApproval} {
		for range 3 {
			var raw json.RawMessage
			if params != "" {
				raw = json.RawMessage(params)
			}
			a, err := h.gate.Explain(t.Context(), &h.session, "notes", "write", raw)
			if err != nil || a.Decision.Mode != mode || a.Decision.Why() == "" {
				t.Errorf("%s: %s because %q (%v)", params, a.Decision.Mode, a.Decision.Why(), err)
			}
		}
	}
	if _, err := h.gate.Explain(t.Context(), &h.session, "notes", "write", json.RawMessage(`{"wrong":1}`)); !errors.Is(err, action.ErrInvalid) {
		t.Errorf("wrong params: %v", err)
	}
	now, err := h.db.Grant(t.Context(), org, g.ID)
	if err != nil || now.UsedCalls != 0 || len(h.rows()) != 0 || e.n.Load() != 0 {
		t.Errorf("%d calls used, %d rows, %d effects (%v)", now.UsedCalls, len(h.rows()), e.n.Load(), err)
	}
}

// An organization's allow of a write does not reach sessions that an inbound
// event started; their automation's does.
func TestEventSessionsAskForWrites(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.notes("write", action.RiskWrite)
	key := action.Key{Source: "notes", Action: "write"}
	allow := func(automation string) {
		t.Helper()
		if err := h.db.SetOverride(t.Context(), action.Override{Organization: org, Automation: automation, Key: key, Mode: action.ModeAllow, UpdatedBy: "alice"}); err != nil {
			t.Fatal(err)
		}
		h.rules.invalidate(org)
	}
	allow("")
	s, err := h.db.CreateSession(t.Context(), action.Session{Organization: org, Automation: "nightly", Event: "event-1", CreatedBy: "test"})
	if err != nil || s.Event != "event-1" {
		t.Fatal(s, err)
	}
	call := action.Call{Session: s, Source: "notes", Action: "write", Params: json.RawMessage(`{"n":1}`)}
	h.want(h.get(h.begin(t.Context(), call)), action.StatusPending)
	allow("nightly")
	call.Params = json.RawMessage(`{"n":2}`)
	h.want(h.get(h.begin(t.Context(), call)), action.StatusCompleted)
}

// A person's no to a call goes before the grant that would cover it.
func TestDenialGoesBeforeAGrant(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		e := h.notes("write", action.RiskWrite)
		done := h.begin(t.Context(), h.call("write", `{"n":1}`))
		if _, err := h.gate.Deny(t.Context(), h.verdict(h.pending().ID)); err != nil {
			t.Fatal(err)
		}
		h.want(h.get(done), action.StatusDenied)
		g := h.grant(action.Grant{Terms: action.Terms{MaxCalls: calls(2)}})
		out := h.want(h.get(h.begin(t.Context(), h.call("write", `{"n":1}`))), action.StatusDenied)
		if out.Invocation.DeniedReason != action.DeniedRepeated {
			t.Errorf("denied because of %q", out.Invocation.DeniedReason)
		}
		h.want(h.get(h.begin(t.Context(), h.call("write", `{"n":2}`))), action.StatusCompleted)
		if now, err := h.db.Grant(t.Context(), org, g.ID); err != nil || now.UsedCalls != 1 || e.n.Load() != 1 {
			t.Errorf("%d calls of the grant are used, %d effects (%v)", now.UsedCalls, e.n.Load(), err)
		}
	})
}

// What a person reads of a held call is what runs, whoever writes to the rows.
func TestRowChangedWhileHeld(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	e := h.notes("write", action.RiskWrite)
	done := h.begin(t.Context(), h.call("write", `{"channel":"real"}`))
	id := h.pending().ID
	h.exec(`UPDATE open_calls SET params = '{"channel":"nice"}' WHERE id = ?`, id)
	h.approve(id)
	out := h.want(h.get(done), action.StatusFailed)
	if inv := out.Invocation; inv.Error.Code != action.FailedStale || e.n.Load() != 0 {
		t.Errorf("%+v, %d effects", inv.Error, e.n.Load())
	}
}

// exec writes to the rows as somebody with the file does.
func (h *house) exec(statement string, args ...any) {
	h.t.Helper()
	db, err := sql.Open("sqlite", "file:"+h.path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		h.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(h.t.Context(), statement, args...); err != nil {
		h.t.Fatal(err)
	}
}

func TestExplainForeseesRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.notes("write", action.RiskWrite)
	says := func(params, refused string) {
		t.Helper()
		x, err := h.gate.Explain(t.Context(), &h.session, "notes", "write", json.RawMessage(params))
		if err != nil || x.Refused != refused {
			t.Errorf("%s would be refused with %q (%q), want %q (%v)", params, x.Refused, x.Note, refused, err)
		}
	}
	says(`{"n":0}`, "")
	for i := range 3 {
		done := h.begin(t.Context(), h.call("write", fmt.Sprintf(`{"n":%d}`, i)))
		if _, err := h.gate.Deny(t.Context(), h.verdict(h.pending().ID)); err != nil {
			t.Fatal(err)
		}
		h.want(h.get(done), action.StatusDenied)
		if i == 0 {
			says(`{"n":0}`, action.DeniedRepeated)
			says(`{"n":9}`, "")
		}
	}
	says(`{"n":9}`, action.DeniedOften)
	if rows := h.rows(); len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestNoStandingYesToAnUnreviewedTool(t *testing.T) {
	t.Parallel()
	w := newWorkshop(newHouse(t), action.ReviewTrust)
	w.lists(1)
	w.lists(2)
	terms := action.Terms{Scope: action.ScopeOrganization, Source: w.connector.Source(), Action: "sell"}
	if _, err := w.gate.Terms(t.Context(), org, &terms, false); action.Public(err).Code != "tool_unreviewed" {
		t.Errorf("a grant is made unseen: %v", err)
	}
	if hash, err := w.gate.Terms(t.Context(), org, &terms, true); err != nil || hash != "b2" {
		t.Errorf("a grant for the tool as it is: %q, %v", hash, err)
	}
	inv := w.sells().Invocation
	if alerts := action.Alerts(inv.Steps); len(alerts) != 1 {
		t.Errorf("the approver is told %+v", alerts)
	}
	v := w.verdict(inv.ID)
	v.Grant = &action.Grant{Terms: action.Terms{Scope: action.ScopeSession}}
	if _, err := w.gate.Approve(t.Context(), v); action.Public(err).Code != "tool_unreviewed" {
		t.Errorf("approved with a grant unseen: %v", err)
	}
	v.Unreviewed = true
	if _, err := w.gate.Approve(t.Context(), v); err != nil {
		t.Error(err)
	}
}
