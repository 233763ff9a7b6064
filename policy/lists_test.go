package policy_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/policy"
)

// shelf is a catalog that does not change.
type shelf struct {
	gate.Catalog
	actions []*action.Action
}

func (s shelf) List(context.Context, string) ([]*action.Action, string, error) {
	return s.actions, "1", nil
}

// ruled decides by one policy, which can be another later.
type ruled struct{ *policy.Policy }

func (r *ruled) Decide(_ context.Context, s *action.Session, a *action.Action, _ json.RawMessage, _ bool) (action.Decision, error) {
	return r.Policy.Decide(noon, s, a), nil
}

func (r *ruled) View(_ context.Context, s *action.Session) (string, string, error) {
	return r.Policy.View(noon, s), r.Stamp(noon), nil
}

// The Gate keeps lists for sessions of one view: what one session is connected
// to must not be on the list of another.
func TestSessionsSeeWhatTheyAreConnectedTo(t *testing.T) {
	linear := action.Integration{ID: "1", Name: "one", Provider: "linear", Visibility: action.VisibleOrganization, Status: action.IntegrationActive}
	sentry := linear
	sentry.ID, sentry.Provider = "2", "sentry"
	rules := action.Rules{Version: 1, Integrations: []action.Integration{linear, sentry}}
	decider := &ruled{policy.New(rules)}
	gate := &gate.Gate{Config: gate.Config{Decide: decider.Decide, View: decider.View, Catalog: shelf{actions: []*action.Action{
		{Source: "linear", Provider: "linear", Name: "get", Risk: action.RiskRead},
		{Source: "sentry", Provider: "sentry", Name: "get", Risk: action.RiskRead},
		{Source: "c", Name: "get", Risk: action.RiskRead},
	}}}}
	sees := func(connections []string, want ...string) {
		t.Helper()
		for range 2 { // the second time it is kept
			list, _, err := gate.Available(t.Context(), &action.Session{ID: "s", Organization: "o", Connections: connections})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range list {
				got = append(got, a.Action.Source)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("with %q: %s", connections, diff)
			}
		}
	}
	sees(nil, "c")
	sees([]string{"1"}, "linear", "c")
	sees([]string{"2"}, "sentry", "c")
	sees([]string{"all"}, "linear", "sentry", "c")

	linear.Status = action.IntegrationRevoked
	decider.Policy = policy.New(action.Rules{Version: 2, Integrations: []action.Integration{linear, sentry}})
	sees([]string{"1"}, "c")
	sees([]string{"all"}, "sentry", "c")
	whole, err := gate.Abilities(t.Context(), &action.Session{ID: "s", Organization: "o", Connections: []string{"all"}})
	if err != nil || len(whole) != 3 || whole[0].Decision.Why() != "The session cannot use any integration of linear: 'one' is revoked. A person must reconnect it." {
		t.Errorf("people see %+v, %v", whole, err)
	}
}
