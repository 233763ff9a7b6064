package dashboard

import (
	"strings"
	"testing"

	"sallyport/action"
)

// Whatever an error refers to is a route, and no route stays with a gap where
// the error has a value for it.
func TestErrorsPointToRoutes(t *testing.T) {
	routes, does := nextRoutes()
	used := map[action.Operation]bool{"list actions": true} // which only agents do
	for _, area := range action.Areas() {
		for _, d := range area.Errors {
			if used[d.See] = true; d.See != "" && d.See != "list actions" && routes[d.See].Path == "" {
				t.Errorf("%s: no route does %q", d.Code, d.See)
			}
		}
	}
	for o := range routes {
		if !used[o] {
			t.Errorf("no error refers to %q", o)
		}
	}
	for o := range does {
		if routes[o].Path == "" {
			t.Errorf("%q has no route", o)
		}
	}
}

// The first value of an error stands in the route as a part of it.
func TestValuesInRoutes(t *testing.T) {
	err := withNext(&Principal{}, action.NewError("context_gone", "a/b"))
	if got := err.Error(); !strings.HasSuffix(got, " GET /api/v1/inbound-events/a%2Fb has what is left.") {
		t.Error(got)
	}
	if got := withNext(&Principal{Session: &action.Session{ID: "s1"}}, action.NewError("user_not_found")); strings.Contains(got.Error(), "GET") {
		t.Errorf("an agent hears of a route of people: %v", got)
	}
}
