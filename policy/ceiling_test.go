package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/policy"
)

func TestCeilings(t *testing.T) {
	type capability = action.Capability
	gated := capability{Level: 3, Gate: "Security"}
	approved := action.GateApproval{Group: "developer", Task: "T-1", Gate: "Security", ApprovedBy: "boss"}
	with := func(change func(g *action.GateApproval)) []action.GateApproval {
		g := approved
		change(&g)
		return []action.GateApproval{g}
	}
	const needsGate = "merge_pr needs level 3 at github, and level 3 needs gate 'Security' to be approved for "
	for _, tt := range []struct {
		name       string
		capability *capability
		gates      []action.GateApproval
		noTask     bool
		risk       action.Risk // of merge_pr; danger where empty
		production bool        // the params change production
		noGroup    bool
		want       string // what the ceiling says; empty: it lets the call pass
	}{
		{name: "no capability", risk: "read", want: "The group 'developer' has no capability at github."},
		{name: "level none", capability: &capability{Level: 0}, risk: "read", want: "The group 'developer' has level 0 (none) at github, merge_pr needs level 1."},
		{name: "a read at level read", capability: &capability{Level: 1}, risk: "read"},
		{name: "a write at level read", capability: &capability{Level: 1}, risk: "write", want: "The group 'developer' has level 1 (read) at github, merge_pr needs level 2."},
		{name: "a danger at level read", capability: &capability{Level: 1}, want: "The group 'developer' has level 1 (read) at github, merge_pr needs level 3."},
		{name: "a danger at level write", capability: &capability{Level: 2}, want: "The group 'developer' has level 2 (write) at github, merge_pr needs level 3."},
		{name: "an unknown risk is a danger", capability: &capability{Level: 2}, risk: "odd", want: "The group 'developer' has level 2 (write) at github, merge_pr needs level 3."},
		{name: "a level that nobody knows is none", capability: &capability{Level: 4}, risk: "read", want: "The group 'developer' has level 0 (none) at github, merge_pr needs level 1."},
		{name: "a write at level write", capability: &capability{Level: 2}, risk: "write"},
		{name: "a write at level production needs no gate", capability: &gated, risk: "write"},

		{name: "not yet expired", capability: &capability{Level: 1, ExpiresAt: &later}, risk: "read"},
		{name: "expires now", capability: &capability{Level: 1, ExpiresAt: &noon}, risk: "read", want: "The capability of group 'developer' at github expired on 2026-11-21T12:00:00Z."},
		{name: "expired", capability: &capability{Level: 1, ExpiresAt: &past}, risk: "read", want: "The capability of group 'developer' at github expired on 2026-11-21T11:00:00Z."},

		{name: "allowed", capability: &capability{Level: 1, AllowedActions: []string{"x", "merge_pr"}}, risk: "read"},
		{name: "not allowed", capability: &capability{Level: 1, AllowedActions: []string{"x"}}, risk: "read", want: "merge_pr is not among the allowed actions of group 'developer' at github."},
		{name: "an empty list allows none", capability: &capability{Level: 1, AllowedActions: []string{}}, risk: "read", want: "merge_pr is not among the allowed actions of group 'developer' at github."},
		{name: "a * in the list is no wildcard", capability: &capability{Level: 1, AllowedActions: []string{"*", "merge*"}}, risk: "read", want: "merge_pr is not among the allowed actions of group 'developer' at github."},
		{name: "denied", capability: &capability{Level: 2, DeniedActions: []string{"merge_pr"}}, risk: "write", want: "merge_pr is in the denied actions of group 'developer' at github."},
		{name: "denied before allowed", capability: &capability{Level: 1, AllowedActions: []string{"merge_pr"}, DeniedActions: []string{"merge_pr"}}, risk: "read", want: "merge_pr is in the denied actions of group 'developer' at github."},
		{name: "another is denied", capability: &capability{Level: 2, DeniedActions: []string{"merge"}}, risk: "write"},
		{name: "an open gate undenies nothing", capability: &capability{Level: 3, Gate: "Security", DeniedActions: []string{"merge_pr"}}, gates: []action.GateApproval{approved}, want: "merge_pr is in the denied actions of group 'developer' at github."},

		{name: "an open gate", capability: &gated, gates: []action.GateApproval{approved}},
		{name: "an open gate, for a while yet", capability: &gated, gates: with(func(g *action.GateApproval) { g.ExpiresAt = &later })},
		{name: "of an unknown risk", capability: &gated, gates: []action.GateApproval{approved}, risk: "odd"},
		{name: "nobody opened the gate", capability: &gated, want: needsGate + "task 'T-1'."},
		{name: "for another task", capability: &gated, gates: with(func(g *action.GateApproval) { g.Task = "T-2" }), want: needsGate + "task 'T-1'."},
		{name: "for another group", capability: &gated, gates: with(func(g *action.GateApproval) { g.Group = "security" }), want: needsGate + "task 'T-1'."},
		{name: "by the session's creator, who may not", capability: &gated, gates: with(func(g *action.GateApproval) { g.ApprovedBy = "" }), want: needsGate + "task 'T-1' by someone other than the session's creator."},
		{name: "by the session's creator, and by another", capability: &gated, gates: append(with(func(g *action.GateApproval) { g.ApprovedBy = "" }), approved)},
		{name: "another gate", capability: &gated, gates: with(func(g *action.GateApproval) { g.Gate = "Legal" }), want: needsGate + "task 'T-1'."},
		{name: "the approval expired", capability: &gated, gates: with(func(g *action.GateApproval) { g.ExpiresAt = &noon }), want: needsGate + "task 'T-1'."},
		{name: "the approval was revoked", capability: &gated, gates: with(func(g *action.GateApproval) { g.RevokedAt = &past }), want: needsGate + "task 'T-1'."},
		{name: "for this action", capability: &gated, gates: with(func(g *action.GateApproval) { g.Actions = []string{"github:x", "github:merge_pr"} })},
		{name: "for all of the source", capability: &gated, gates: with(func(g *action.GateApproval) { g.Actions = []string{"github:*"} })},
		{name: "for another action", capability: &gated, gates: with(func(g *action.GateApproval) { g.Actions = []string{"github:x", "linear:*"} }), want: needsGate + "task 'T-1'."},
		{name: "for no action", capability: &gated, gates: with(func(g *action.GateApproval) { g.Actions = []string{} }), want: needsGate + "task 'T-1'."},
		{name: "for what is no key", capability: &gated, gates: with(func(g *action.GateApproval) { g.Actions = []string{"merge_pr", ""} }), want: needsGate + "task 'T-1'."},
		{name: "of two approvals one is good", capability: &gated, gates: append(with(func(g *action.GateApproval) { g.ExpiresAt = &past }), approved)},
		{name: "a session without a task", capability: &gated, noTask: true, gates: with(func(g *action.GateApproval) { g.Task = "" }), want: needsGate + "the session's task, but the session has no task."},
		{name: "production at level write", capability: &capability{Level: 2}, risk: "write", production: true, want: "The group 'developer' has level 2 (write) at github, merge_pr needs level 3, because 'live' is a production branch."},
		{name: "production behind a gate", capability: &gated, risk: "write", production: true, want: "merge_pr needs level 3 at github, because 'live' is a production branch, and level 3 needs gate 'Security' to be approved for task 'T-1'."},
		{name: "production behind an open gate", capability: &gated, gates: []action.GateApproval{approved}, risk: "write", production: true},
		{name: "production of a session without a group", noGroup: true, production: true, want: "merge_pr needs level 3 at github, because 'live' is a production branch, and the session has no group that could have it."},
		{name: "no gate is named", capability: &capability{Level: 3}, gates: with(func(g *action.GateApproval) { g.Gate = "" }), want: "merge_pr needs level 3 at github, and level 3 needs a gate, but the capability of group 'developer' names none."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &action.Session{Group: "developer", Task: "T-1"}
			if tt.noTask {
				s.Task = ""
			}
			// Whatever else would allow it, in this place and in others.
			rules := action.Rules{
				Overrides: overrides(t, nil, map[string]action.Mode{"*": allow, "github:merge_pr": allow}),
				Capabilities: []action.Capability{
					{Group: "developer", Provider: "linear", Level: 3, Gate: "Security"},
					{Group: "security", Provider: "github", Level: 3, Gate: "Security"},
				},
				Gates: tt.gates,
			}
			if c := tt.capability; c != nil {
				c.Group, c.Provider = "developer", "github"
				rules.Capabilities = append(rules.Capabilities, *c)
			}
			a := &action.Action{Source: "github", SourceName: "github", Name: "merge_pr", Risk: tt.risk}
			if a.Risk == "" {
				a.Risk = action.RiskDanger
			}
			if tt.production {
				a = a.InProduction("'live' is a production branch")
			}
			if tt.noGroup {
				s.Group = ""
			}
			d := policy.New(rules).Decide(noon, s, a)
			if tt.want == "" {
				if d.Steps[0].Alert != tt.production {
					t.Errorf("an approver is told %+v", action.Alerts(d.Steps))
				}
				if d.Mode != allow || d.Steps[0].Mode != none || d.Steps[0].Note == "" {
					t.Errorf("got %+v", d)
				}
				return
			}
			if diff := cmp.Diff([]any{deny, action.LayerCeiling, tt.want, 1}, []any{d.Mode, d.Source, d.Why(), len(d.Steps)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASessionWithoutAGroupHasNoCeiling(t *testing.T) {
	p := policy.New(action.Rules{Capabilities: []action.Capability{{Group: "", Provider: "s", Level: 0, Rate: &action.Rate{Calls: 1, Seconds: 1}}}})
	d := p.Decide(noon, &action.Session{}, &action.Action{Source: "s", Name: "act", Risk: "write"})
	if d.Mode != approve || d.Source != action.LayerInferred || d.Limits != nil {
		t.Errorf("got %+v", d)
	}
}
