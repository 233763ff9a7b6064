package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/policy"
)

func TestLimits(t *testing.T) {
	rate := func(n int) action.Rate { return action.Rate{Calls: n, Seconds: 60} }
	quota := func(source, name string, per action.QuotaScope, n int) action.Quota {
		return action.Quota{Key: action.Key{Source: source, Action: name}, Per: per, Rate: rate(n)}
	}
	ten := rate(10)
	rules := action.Rules{
		Capabilities: []action.Capability{
			{Group: "developer", Provider: "connector:1", Level: 2, Rate: &ten},
			{Group: "developer", Provider: "linear", Level: 2},
		},
		Quotas: []action.Quota{
			quota("*", "*", action.PerOrganization, 1),
			quota("connector:1", "*", action.PerCreator, 2),
			quota("connector:1", "post", action.PerSession, 3),
			quota("connector:1", "post", action.PerGroup, 4),
			quota("connector:1", "other", action.PerSession, 5),
			quota("linear", "*", action.PerSession, 6),
		},
	}
	everybody := action.Limit{Key: "quota/o1/*/organization/o1", What: "all actions for the organization", Rate: rate(1)}
	alice := action.Limit{Key: "quota/o1/connector:1:*/creator/u1", What: "all actions of chat for the session's creator", Rate: rate(2)}
	session := action.Limit{Key: "quota/o1/connector:1:post/session/s1", What: "post of chat for this session", Rate: rate(3)}
	for _, tt := range []struct {
		name  string
		group string
		act   action.Action
		want  []action.Limit
	}{
		{name: "all that apply", group: "developer", act: action.Action{Source: "connector:1", SourceName: "chat", Name: "post", Risk: "write"}, want: []action.Limit{
			session,
			{Key: "capability/o1/developer/connector:1", What: "group developer at chat", Rate: ten},
			{Key: "quota/o1/connector:1:post/group/developer", What: "post of chat for group developer", Rate: rate(4)},
			alice, everybody,
		}},
		{name: "without a group", act: action.Action{Source: "connector:1", SourceName: "chat", Name: "post", Risk: "read"}, want: []action.Limit{
			session,
			{Key: "quota/o1/connector:1:post/no-group/s1", What: "post of chat for this session", Rate: rate(4)},
			alice, everybody,
		}},
		{name: "a capability without a rate", group: "developer", act: action.Action{Source: "linear", Name: "create", Risk: "write"}, want: []action.Limit{
			{Key: "quota/o1/linear:*/session/s1", What: "all actions of linear for this session", Rate: rate(6)}, everybody,
		}},
		{name: "a denied call counts nowhere", act: action.Action{Source: "connector:1", Name: "post", Risk: "danger"}},
		{name: "nor one beyond the ceiling", group: "other", act: action.Action{Source: "connector:1", Name: "post", Risk: "read"}},
		{name: "nor one that drift denies", act: action.Action{Source: "connector:1", Name: "post", Risk: "read", Review: action.ReviewRequired}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &action.Session{ID: "s1", Organization: "o1", Group: tt.group, CreatedBy: "u1"}
			p := policy.New(rules)
			d := p.Decide(noon, s, &tt.act)
			if diff := cmp.Diff(tt.want, d.Limits); diff != "" {
				t.Error(diff)
			}
			granted := p.WithGrants(noon, d, s, &tt.act, nil, []action.Grant{{Organization: "o1", Terms: action.Terms{Scope: action.ScopeOrganization, Any: true}}})
			if diff := cmp.Diff(d.Limits, granted.Limits); diff != "" {
				t.Errorf("with a grant: %s", diff)
			}
		})
	}
}
