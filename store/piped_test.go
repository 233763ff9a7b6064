package store_test

import (
	"testing"

	"github.com/google/uuid"
)

// A write is two round trips and its commit until it may run.
func TestRoundTripsOfAWrite(t *testing.T) {
	p := newProxy(t, migrated(t))
	l := newLostWorld(t, p.url)
	// Until each connection has prepared what it needs.
	for least := 100; ; {
		before := p.trips.Load()
		if err := l.fresh(l.executing(false)); err != nil {
			t.Fatal(err)
		}
		if err := l.fresh(crashDraft(l.s, uuid.NewString())); err != nil {
			t.Fatal(err)
		}
		trips := int(p.trips.Load() - before)
		if trips == 4 {
			return
		}
		if least--; least == 0 {
			t.Fatalf("two writes take %d round trips, wanted 4", trips)
		}
	}
}
