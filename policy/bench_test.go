package policy_test

import (
	"fmt"
	"testing"

	"sallyport/action"
	"sallyport/policy"
)

func BenchmarkDecide(b *testing.B) {
	// Rules of some size, of which a call needs few.
	rules := action.Rules{Reviewed: map[action.Key]action.ToolHashes{}}
	hashes := action.ToolHashes{Behaviour: "b", Text: "t"}
	for i := range 1000 {
		key := action.Key{Source: "connector:1", Action: fmt.Sprint("tool_", i)}
		rules.Reviewed[key] = hashes
		if i%10 == 0 {
			rules.Overrides = append(rules.Overrides, action.Override{Key: key, Mode: allow})
		}
	}
	rules.Capabilities = []action.Capability{{Group: "developer", Provider: "connector:1", Level: 2, Rate: &action.Rate{Calls: 10, Seconds: 60}}}
	p := policy.New(rules)
	plain, grouped := &action.Session{ID: "s1", Organization: "o1"}, &action.Session{ID: "s1", Organization: "o1", Group: "developer"}
	tool := func(name string) *action.Action {
		return &action.Action{Source: "connector:1", SourceName: "chat", Name: name, Risk: "read", Hashes: hashes, Review: action.ReviewTrust}
	}
	for _, bb := range []struct {
		name    string
		session *action.Session
		act     *action.Action
	}{
		{"module", plain, &action.Action{Source: "linear", Name: "list_issues", Risk: "read"}},
		{"connector", plain, tool("tool_1")},
		{"connector, overridden", plain, tool("tool_10")},
		{"connector, in a group", grouped, tool("tool_1")},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(noon, bb.session, bb.act)
			}
		})
	}
}

func BenchmarkWithGrants(b *testing.B) {
	p := policy.New(action.Rules{})
	s, a := &action.Session{ID: "s1", CreatedBy: "u1"}, &action.Action{Source: "linear", Name: "create", Risk: "write"}
	grants := []action.Grant{{ID: "g", Terms: action.Terms{Scope: action.ScopeOrganization, Source: "linear", Action: "create", Pins: pins("/team", `"ENG"`)}}}
	b.ReportAllocs()
	for b.Loop() {
		p.WithGrants(noon, p.Decide(noon, s, a), s, a, []byte(`{"team":"ENG","title":"x"}`), grants)
	}
}

func BenchmarkStamp(b *testing.B) {
	p := policy.New(action.Rules{Version: 12345, Capabilities: []action.Capability{{ExpiresAt: &past}, {ExpiresAt: &later}}})
	for b.Loop() {
		p.Stamp(noon)
	}
}
