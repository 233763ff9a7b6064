package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sallyport/action"
	"sallyport/store"
)

// A write is two round trips, its commit among them, until it may run.
func TestRoundTripsPerWrite(t *testing.T) {
	p := newProxy(t, migrated(t))
	l := newLostWorld(t, p.url)
	// Until each connection has prepared what it needs, and has it for a while.
	for steady, least := 0, 100; steady < 5; {
		before := p.trips.Load()
		if err := l.fresh(l.executing(false)); err != nil {
			t.Fatal(err)
		}
		if err := l.fresh(crashDraft(l.s, uuid.NewString())); err != nil {
			t.Fatal(err)
		}
		trips := int(p.trips.Load() - before)
		if steady++; trips != 4 {
			steady = 0
		}
		if least--; least == 0 {
			t.Fatalf("two writes take %d round trips, wanted 4", trips)
		}
	}
}

// A call that fails after its first round trip leaves no transaction open, and
// nothing locked.
func TestFailedPipelineLeavesNoTransaction(t *testing.T) {
	url := migrated(t)
	l := newLostWorld(t, url)
	for range 3 {
		d := l.executing(true)
		d.PolicyVersion = 99
		if _, err := l.Begin(l.ctx, d); !errors.Is(err, action.ErrPolicyMoved) {
			t.Fatalf("it begins: %v", err)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var open int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'").Scan(&open); err != nil || open > 0 {
		t.Errorf("%d transactions are open (%v)", open, err)
	}
}

// Of two calls of a session that come at once the second one sees the first.
func TestSessionSerializesBegin(t *testing.T) {
	url := migrated(t)
	p := newProxy(t, url)
	l := newLostWorld(t, p.url)
	other := open(t, store.Config{URL: url})
	d := func(params string) *action.Draft {
		d := l.held(params)
		d.MaxPending = 2 // with the one of the world
		return d
	}
	first, second := make(chan error, 1), make(chan error, 1)
	arrived, release := p.holdAt("INSERT INTO open_calls")
	go func() { _, err := l.Begin(l.ctx, d(`{"n":1}`)); first <- err }()
	<-arrived
	go func() { _, err := other.Begin(l.ctx, d(`{"n":2}`)); second <- err }()
	select {
	case err := <-second:
		release()
		t.Fatalf("the second one did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	release()
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; !errors.Is(err, action.ErrTooMany) {
		t.Errorf("the second one: %v", err)
	}
}
