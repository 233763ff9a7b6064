package policy_test

import (
	"slices"
	"testing"

	"sallyport/action"
	"sallyport/policy"
)

// equalViewsAreEqualLists: sessions with the same view are decided alike. What
// is denied is on no list, and its sentence may name the session's own group.
func equalViewsAreEqualLists(t *testing.T, roll dice) {
	w := newWorld(roll)
	for range 5 {
		w.sessions = append(w.sessions, someSession(roll))
	}
	p := policy.New(w.rules)
	for i := range w.sessions {
		for j := range i {
			a, b := &w.sessions[i], &w.sessions[j]
			if p.View(noon, a) != p.View(noon, b) {
				continue
			}
			for k := range w.actions {
				x, y := p.Decide(noon, a, &w.actions[k]), p.Decide(noon, b, &w.actions[k])
				if x.Mode != y.Mode || x.Mode != deny && (x.Source != y.Source || !slices.Equal(x.Steps, y.Steps)) {
					t.Fatalf("%+v and %+v have the view %q, and %s is decided as\n%+v and\n%+v", a, b, p.View(noon, a), w.actions[k].Name, x, y)
				}
			}
		}
	}
}

func TestAnyNumberOfTasksHasFewViews(t *testing.T) {
	p := policy.New(action.Rules{
		Capabilities: []action.Capability{{Group: "g", Provider: "s", Level: 3, Gate: "G"}},
		Gates:        []action.GateApproval{{Group: "g", Task: "open", Gate: "G", ApprovedBy: "boss"}},
		Settings:     action.DefaultSettings(),
	})
	views := map[string]bool{}
	for _, task := range []string{"1", "2", "3", "open"} {
		for _, group := range []string{"g", "h", "i"} {
			views[p.View(noon, &action.Session{Group: group, Task: task})] = true
		}
	}
	if len(views) != 3 { // g, g with the gate open, and groups that have nothing
		t.Errorf("%d views: %v", len(views), views)
	}
}
