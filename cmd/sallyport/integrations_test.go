package main

import (
	"errors"
	"testing"

	"sallyport/action"
	"sallyport/store"
)

// The logs of the machine are the operator's to give, and to take back from an
// organization that is connected to them.
func TestLogsAreOffered(t *testing.T) {
	for _, test := range []struct {
		to                     []string
		provider, organization string
		offered                bool
	}{
		{nil, logsID, store.DefaultOrganization, true},
		{nil, logsID, "other", false},
		{[]string{"other"}, logsID, "other", true},
		{[]string{"other"}, logsID, store.DefaultOrganization, false},
		{nil, "linear", "other", true},
	} {
		g := &gateway{options: options{LogsFor: test.to}}
		err := g.offered(test.provider, test.organization)
		if test.offered != (err == nil) || err != nil && !errors.Is(err, action.ErrForbidden) {
			t.Errorf("%s to %s with %q: %v", test.provider, test.organization, test.to, err)
		}
		if test.offered {
			continue
		}
		in := action.Integration{Provider: test.provider, Organization: test.organization}
		if _, err := g.speak(t.Context(), in); !errors.Is(err, action.ErrForbidden) {
			t.Errorf("a module speaks for it: %v", err)
		}
		if _, err := (connections{gateway: g}).Connect(t.Context(), action.Wanted{Provider: test.provider, Organization: test.organization}); !errors.Is(err, action.ErrForbidden) {
			t.Errorf("it is connected: %v", err)
		}
	}
}
