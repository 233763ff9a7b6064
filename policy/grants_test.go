package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/policy"
)

// pins pairs pointers and values.
func pins(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for pair := range slices.Chunk(pairs, 2) {
		m[pair[0]] = json.RawMessage(pair[1])
	}
	return m
}

func TestGrants(t *testing.T) {
	const self = "u1"
	session := action.Session{ID: "s1", Organization: "o1", CreatedBy: self}
	exact := action.Grant{
		ID: "g1", Organization: "o1", Session: "s1", CreatedBy: "u2", ToolHash: "h1",
		Terms: action.Terms{Scope: action.ScopeSession, Source: "chat", Action: "post"},
	}
	for _, tt := range []struct {
		name     string
		grant    func(g *action.Grant)
		session  func(s *action.Session)
		action   func(a *action.Action)
		params   string // {"channel":"C1","to":{"n":[1,2]}} where empty
		settings action.Settings
		covers   bool
		says     string
	}{
		{name: "exact, of the session", covers: true, says: "Grant g1 covers this call and has no call limit."},
		{name: "exact, of the organization", grant: func(g *action.Grant) { g.Scope, g.Session = action.ScopeOrganization, "" }, covers: true},
		{name: "another session's", grant: func(g *action.Grant) { g.Session = "s2" }, says: "No grant exists for this call."},
		{name: "of no scope", grant: func(g *action.Grant) { g.Scope = "" }, says: "No grant exists"},
		{name: "another organization's", grant: func(g *action.Grant) { g.Organization, g.Scope, g.Session = "o2", action.ScopeOrganization, "" }, says: "No grant exists"},
		{name: "for another action", grant: func(g *action.Grant) { g.Action = "send" }, says: "No grant exists"},
		{name: "for another source", grant: func(g *action.Grant) { g.Source = "mail" }, says: "No grant exists"},
		{name: "for a tool named *", grant: func(g *action.Grant) { g.Action = "*" }, says: "No grant exists"},
		{name: "for a source named *", grant: func(g *action.Grant) { g.Source, g.Action = "*", "*" }, says: "No grant exists"},
		{name: "that tool", grant: func(g *action.Grant) { g.Action = "*" }, action: func(a *action.Action) { a.Name = "*" }, covers: true},
		{name: "without a hash", grant: func(g *action.Grant) { g.ToolHash = "" }, covers: true},
		{name: "for another definition", grant: func(g *action.Grant) { g.ToolHash = "h0" }, says: "No grant covers this call: grant g1 was created for another definition of the action."},
		{name: "of a danger", action: func(a *action.Action) { a.Risk = action.RiskDanger }, covers: true},

		{name: "any", grant: anyOf(""), covers: true},
		{name: "any of the source", grant: anyOf("chat"), covers: true},
		{name: "any of another source", grant: anyOf("mail"), says: "No grant exists"},
		{name: "any, and a danger", grant: anyOf(""), action: func(a *action.Action) { a.Risk = action.RiskDanger }, says: "grant g1 does not cover dangerous actions"},
		{name: "any, and an unknown risk", grant: anyOf("chat"), action: func(a *action.Action) { a.Risk = "odd" }, says: "not cover dangerous actions"},
		{name: "any, and a drifted tool", grant: anyOf("chat"), action: drifted, says: "grant g1 does not cover the current version of the tool"},
		{name: "any, made for the tool as it is", grant: func(g *action.Grant) { anyOf("chat")(g); g.ToolHash = "h1" }, action: drifted, says: "does not cover the current version of the tool"},

		{name: "drifted, made for it as it is", action: drifted, covers: true},
		{name: "drifted, made for it as it was", grant: func(g *action.Grant) { g.ToolHash = "h0" }, action: drifted, says: "created for another definition"},
		{name: "drifted, made without a hash", grant: func(g *action.Grant) { g.ToolHash = "" }, action: drifted, says: "does not cover the current version of the tool"},
		{name: "unreviewed, made for it as it is", action: func(a *action.Action) { drifted(a); a.Source = "new" }, grant: func(g *action.Grant) { g.Source = "new" }, covers: true},
		{name: "unreviewed, any", action: func(a *action.Action) { drifted(a); a.Source = "new" }, grant: anyOf(""), says: "which is not reviewed"},
		{name: "only texts changed, which do not count", grant: anyOf(""), action: func(a *action.Action) { drifted(a); a.Hashes.Behaviour = "b1" }, covers: true},

		{name: "revoked", grant: func(g *action.Grant) { g.RevokedAt = &past }, says: "grant g1 was revoked"},
		{name: "expired", grant: func(g *action.Grant) { g.ExpiresAt = &noon }, says: "grant g1 expired on 2026-11-21T12:00:00Z"},
		{name: "not yet expired", grant: func(g *action.Grant) { g.ExpiresAt = &later }, covers: true},
		{name: "used up", grant: func(g *action.Grant) { g.MaxCalls, g.UsedCalls = new(int64(3)), 3 }, says: "grant g1 is used up"},
		{name: "over its budget", grant: func(g *action.Grant) { g.MaxCalls, g.UsedCalls = new(int64(3)), 4 }, says: "is used up"},
		{name: "with a call left", grant: func(g *action.Grant) { g.MaxCalls, g.UsedCalls = new(int64(3)), 2 }, covers: true, says: "Grant g1 covers this call and has 1 of 3 calls left."},

		{name: "pinned", grant: pinned("/channel", `"C1"`), covers: true},
		{name: "pinned deep", grant: pinned("/to/n/1", `2`), covers: true},
		{name: "pinned to an object", grant: pinned("/to", `{"n":[1,2]}`), covers: true},
		{name: "pinned twice", grant: pinned("/channel", `"C1"`, "/to/n/0", "1"), covers: true},
		{name: "pinned to another value", grant: pinned("/channel", `"C2"`), says: "grant g1 is pinned to another value at /channel"},
		{name: "of two pins one differs", grant: pinned("/channel", `"C1"`, "/to/n/0", "2"), says: "at /to/n/0"},
		{name: "pinned to what begins alike", grant: pinned("/to/n/0", "1"), params: `{"to":{"n":[10]}}`, says: "at /to/n/0"},
		{name: "pinned to the same number in other digits", grant: pinned("/to/n/0", "1"), params: `{"to":{"n":[1.0]}}`, says: "at /to/n/0"},
		{name: "the pinned param is absent", grant: pinned("/channel", `"C1"`), params: `{}`, says: "at /channel"},
		{name: "null is not absent", grant: pinned("/channel", `null`), params: `{}`, says: "at /channel"},
		{name: "a pin without a value", grant: pinned("/channel", ``), params: `{}`, says: "at /channel"},
		{name: "a pin that is no pointer", grant: pinned("channel", `"C1"`), says: "at channel"},

		{name: "the creator's own", grant: func(g *action.Grant) { g.CreatedBy = self }, settings: action.Settings{SelfApproval: true}, covers: true},
		{name: "the creator's own, who may not", grant: func(g *action.Grant) { g.CreatedBy = self }, says: "grant g1 was created by the session's creator"},
		{name: "the creator's own for everybody, who may not", grant: func(g *action.Grant) { anyOf("")(g); g.CreatedBy = self }, says: "created by the session's creator"},

		{name: "after an event, the session's", session: func(s *action.Session) { s.Event = "e1" }, covers: true},
		{name: "after an event, any of the session's", session: func(s *action.Session) { s.Event = "e1" }, grant: func(g *action.Grant) { g.Any, g.Source, g.Action, g.ToolHash = true, "", "", "" }, covers: true},
		{name: "after an event, the organization's", session: func(s *action.Session) { s.Event = "e1" }, grant: func(g *action.Grant) { g.Scope, g.Session = action.ScopeOrganization, "" }, says: "grant g1 is for all sessions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, s := exact, session
			a := action.Action{Source: "chat", Name: "post", Risk: "write", Hash: "h1"}
			params := tt.params
			if params == "" {
				params = `{"channel":"C1","to":{"n":[1,2]}}`
			}
			if tt.grant != nil {
				tt.grant(&g)
			}
			if tt.session != nil {
				tt.session(&s)
			}
			if tt.action != nil {
				tt.action(&a)
			}
			p := policy.New(action.Rules{
				Settings: tt.settings, Overrides: overrides(t, nil, map[string]action.Mode{"*": approve}),
				Reviewed: map[action.Key]action.ToolHashes{{Source: "chat", Action: "post"}: {Behaviour: "b1", Text: "t1"}},
			})
			before := p.Decide(noon, &s, &a)
			d := p.WithGrants(noon, before, &s, &a, []byte(params), []action.Grant{g})
			step := d.Steps[len(d.Steps)-1]
			if step.Layer != action.LayerGrant || !strings.Contains(step.Note, tt.says) || len(d.Steps) != len(before.Steps)+1 {
				t.Errorf("the step is %+v, want %q", step, tt.says)
			}
			if tt.covers {
				if d.Mode != allow || d.Source != action.LayerGrant || !slices.Equal(d.Grants, []string{"g1"}) || step.Mode != allow {
					t.Errorf("it does not cover: %+v", d)
				}
			} else if d.Mode != approve || d.Source != before.Source || d.Grants != nil || step.Mode != none {
				t.Errorf("it covers: %+v", d)
			}
		})
	}
}

func anyOf(source string) func(g *action.Grant) {
	return func(g *action.Grant) {
		g.Terms = action.Terms{Scope: action.ScopeOrganization, Source: source, Any: true}
		g.Session, g.ToolHash = "", ""
	}
}

func pinned(pairs ...string) func(g *action.Grant) {
	return func(g *action.Grant) { g.Pins = pins(pairs...) }
}

// drifted makes the action a tool that changed in behaviour and text.
func drifted(a *action.Action) {
	a.Review, a.Hashes = action.ReviewTrust, action.ToolHashes{Behaviour: "b2", Text: "t2"}
}

func TestAllThatCoverAreGivenInOrder(t *testing.T) {
	s, a := &action.Session{ID: "s1", CreatedBy: "u1"}, &action.Action{Source: "s", Name: "act", Risk: "write"}
	p := policy.New(action.Rules{})
	grant := func(id string, budget int64) action.Grant {
		return action.Grant{ID: id, Terms: action.Terms{Scope: action.ScopeOrganization, Any: true, MaxCalls: &budget}}
	}
	for _, tt := range []struct {
		grants []action.Grant
		ids    []string
		says   string
	}{
		{says: "No grant exists for this call."},
		{grants: []action.Grant{grant("z", 1), grant("spent", 0), grant("a", 5)}, ids: []string{"z", "a"}, says: "Grant z covers this call and has 1 of 1 calls left; one more grant also covers it."},
		{grants: []action.Grant{grant("a", 5), grant("b", 1), grant("c", 1)}, ids: []string{"a", "b", "c"}, says: "Grant a covers this call and has 5 of 5 calls left; 2 more grants also cover it."},
		{grants: []action.Grant{grant("a", 0), grant("b", 0)}, says: "No grant covers this call: grant a is used up; grant b is used up."},
		{
			grants: []action.Grant{grant("a", 0), grant("b", 0), grant("c", 0), grant("d", 0), grant("e", 0)},
			says:   "No grant covers this call: grant a is used up; grant b is used up; grant c is used up; and 2 more do not cover it.",
		},
	} {
		d := p.WithGrants(noon, p.Decide(noon, s, a), s, a, nil, tt.grants)
		if diff := cmp.Diff(tt.ids, d.Grants); diff != "" {
			t.Error(diff)
		}
		if got := d.Steps[len(d.Steps)-1].Note; got != tt.says {
			t.Errorf("got %q, want %q", got, tt.says)
		}
	}
}

// Of several pins that differ the same one is named every time.
func TestOnePinIsNamed(t *testing.T) {
	s, a := &action.Session{CreatedBy: "u1"}, &action.Action{Source: "s", Name: "act", Risk: "write"}
	g := action.Grant{ID: "g", Terms: action.Terms{Scope: action.ScopeOrganization, Any: true, Pins: pins("/d", "1", "/b", "1", "/a", "1", "/c", "1")}}
	p := policy.New(action.Rules{})
	for range 100 {
		d := p.WithGrants(noon, p.Decide(noon, s, a), s, a, []byte(`{"a":1}`), []action.Grant{g})
		if got := d.Steps[len(d.Steps)-1].Note; got != "No grant covers this call: grant g is pinned to another value at /b." {
			t.Fatal(got)
		}
	}
}

func TestGrantsChangeNothingElse(t *testing.T) {
	grants := []action.Grant{{ID: "g", Terms: action.Terms{Scope: action.ScopeOrganization, Source: "s", Action: "act"}}}
	s := &action.Session{CreatedBy: "u1"}
	p := policy.New(action.Rules{})
	for _, risk := range []action.Risk{"read", "danger"} { // allowed, and denied
		a := &action.Action{Source: "s", Name: "act", Risk: risk}
		d := p.Decide(noon, s, a)
		if diff := cmp.Diff(d, p.WithGrants(noon, d, s, a, nil, grants)); diff != "" {
			t.Errorf("%s: %s", risk, diff)
		}
	}
	a := &action.Action{Source: "s", Name: "act", Risk: "write"}
	d := p.Decide(noon, s, a)
	p.WithGrants(noon, d, s, a, nil, grants)
	if full := d.Steps[:cap(d.Steps)]; len(full) > len(d.Steps) && full[len(d.Steps)].Note != "" {
		t.Error("the decision that was given is written to")
	}
}
