package mcpserver_test

import (
	"testing"
	"time"

	"sallyport/action"
	"sallyport/mcpserver"
)

// TestViewsOfConnections: sessions that may use other integrations list other
// tools, and would tell each other of changes without end if they shared a list.
func TestViewsOfConnections(t *testing.T) {
	t.Parallel()
	of := func(by string, ids ...string) *action.Session {
		return &action.Session{Organization: "acme", CreatedBy: by, Connections: ids}
	}
	done := of("ada", "i1")
	done.CompletedAt = new(time.Time)
	for _, c := range []struct {
		name string
		a, b *action.Session
		same bool
	}{
		{"none, by two people", of("ada"), of("bo"), true},
		{"one and none", of("ada", "i1"), of("ada"), false},
		{"the same in another order", of("ada", "i1", "i2"), of("ada", "i2", "i1"), true},
		{"one of two", of("ada", "i1", "i2"), of("ada", "i1"), false},
		{"one that said that it is done", of("ada", "i1"), done, false},
		{"one that may be a person's own", of("ada", "i1"), of("bo", "i1"), false},
	} {
		if got := mcpserver.SameView(c.a, c.b); got != c.same {
			t.Errorf("%s: they share a view: %t", c.name, got)
		}
	}
}
