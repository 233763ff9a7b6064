package store

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/dbtest"
)

// trip is one question to a database whose clock is ahead by ahead.
type trip struct{ out, back, ahead time.Duration }

// measure syncs c with the trips, on an own clock that only they move.
func measure(t *testing.T, c *clock, own *time.Time, trips ...trip) error {
	t.Helper()
	i := 0
	return c.sync(func() (time.Time, error) {
		if i >= len(trips) {
			return time.Time{}, errors.New("asked too often")
		}
		p := trips[i]
		i++
		*own = own.Add(p.out)
		theirs := own.Add(p.ahead).Round(0)
		*own = own.Add(p.back)
		return theirs, nil
	})
}

func times(n int, p trip) []trip {
	var list []trip
	for range n {
		list = append(list, p)
	}
	return list
}

func TestTheShortestRoundTripCounts(t *testing.T) {
	const ms = time.Millisecond
	own := time.Now()
	c := newClock(func() time.Time { return own })
	for _, step := range []struct {
		name  string
		trips []trip
		want  time.Duration
		fails bool
	}{
		{"all the same", times(clockSamples, trip{2 * ms, 2 * ms, 2 * time.Minute}), 2 * time.Minute, false},
		{"behind", times(clockSamples, trip{2 * ms, 2 * ms, -2 * time.Minute}), -2 * time.Minute, false},
		{"one is short", append([]trip{{ms, ms, time.Minute}}, times(clockSamples-1, trip{800 * ms, 0, time.Minute})...), time.Minute, false},
		{"the middle of a lopsided one", times(clockSamples, trip{30 * ms, 10 * ms, time.Hour}), time.Hour + 10*ms, false},
		{"inside what can be told", times(clockSamples, trip{30 * ms, 30 * ms, time.Hour}), time.Hour + 10*ms, false},
		{"outside of it", times(clockSamples, trip{4 * ms, 4 * ms, time.Hour}), time.Hour, false},
		{"all over a second", times(clockSamples, trip{600 * ms, 600 * ms, 0}), time.Hour, true},
		{"broken off", times(1, trip{ms, ms, 0}), time.Hour, true},
	} {
		err := measure(t, c, &own, step.trips...)
		if got := time.Duration(c.offset.Load()); got != step.want || (err != nil) != step.fails {
			t.Errorf("%s: offset %s, want %s; error %v", step.name, got, step.want, err)
		}
	}
}

func TestNowKeepsTheMonotonicReading(t *testing.T) {
	c := newClock(time.Now)
	c.set(time.Minute, 0)
	if now := c.now(); now == now.Round(0) { //nolint:staticcheck // == sees the reading, and Equal would not
		t.Error("the reading is gone")
	}
	start := c.now()
	if d := c.now().Sub(start); d < 0 || d > time.Minute {
		t.Errorf("between two looks at the clock: %s", d)
	}
}

func TestOneProcessHasOneClock(t *testing.T) {
	own := time.Now().Add(-2 * time.Minute)
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "s.db"), Now: func() time.Time { return own }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := db.Now(); !got.Equal(own) {
		t.Errorf("now is %s, want the configured clock's %s", got, own)
	}
}

// TestRowsHaveTheDatabasesTime is of instances whose clocks are minutes off.
func TestRowsHaveTheDatabasesTime(t *testing.T) {
	url := dbtest.Postgres(t)
	for _, off := range []time.Duration{2 * time.Minute, -2 * time.Minute} {
		db, err := Open(t.Context(), Config{URL: url, Now: func() time.Time { return time.Now().Add(off) }})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		database := func() (now time.Time) {
			t.Helper()
			if err := db.read.DB.QueryRowContext(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
				t.Fatal(err)
			}
			return now
		}
		before := database()
		org, err := db.EnsureOrganization(t.Context(), off.String(), "Acme")
		if err != nil {
			t.Fatal(err)
		}
		session, err := db.CreateSession(t.Context(), action.Session{Organization: org.ID, CreatedBy: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		signal, err := db.PostSignal(t.Context(), Signal{Organization: org.ID, Session: "s", Kind: "k"})
		if err != nil {
			t.Fatal(err)
		}
		now, after := db.Now(), database()
		// Half of the longest round trip that counts.
		const tolerance = clockTrip / 2
		for what, at := range map[string]time.Time{"organization": org.CreatedAt, "session": session.CreatedAt, "signal": signal.CreatedAt, "now": now} {
			if at.Before(before.Add(-tolerance)) || at.After(after.Add(tolerance)) {
				t.Errorf("clock off by %s: %s has %s, while the database had %s to %s", off, what, at, before, after)
			}
		}
	}
}
