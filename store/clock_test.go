package store

import (
	"errors"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/database"
)

// trip is one question to a database whose clock is ahead by ahead.
type trip struct{ out, back, ahead time.Duration }

// measure syncs c with the trips, on an own clock that only they move.
func measure(t *testing.T, c *database.Clock, own *time.Time, trips ...trip) error {
	t.Helper()
	i := 0
	return c.Sync(func() (time.Time, error) {
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

func TestClockUsesShortestRoundTrip(t *testing.T) {
	const ms = time.Millisecond
	own := time.Now()
	c := database.NewClock(func() time.Time { return own })
	for _, step := range []struct {
		name  string
		trips []trip
		want  time.Duration
		fails bool
	}{
		{"all the same", times(database.ClockSamples, trip{2 * ms, 2 * ms, 2 * time.Minute}), 2 * time.Minute, false},
		{"behind", times(database.ClockSamples, trip{2 * ms, 2 * ms, -2 * time.Minute}), -2 * time.Minute, false},
		{"one is short", append([]trip{{ms, ms, time.Minute}}, times(database.ClockSamples-1, trip{800 * ms, 0, time.Minute})...), time.Minute, false},
		{"the middle of a lopsided one", times(database.ClockSamples, trip{30 * ms, 10 * ms, time.Hour}), time.Hour + 10*ms, false},
		{"inside what can be told", times(database.ClockSamples, trip{30 * ms, 30 * ms, time.Hour}), time.Hour + 10*ms, false},
		{"outside of it", times(database.ClockSamples, trip{4 * ms, 4 * ms, time.Hour}), time.Hour, false},
		{"all over a second", times(database.ClockSamples, trip{600 * ms, 600 * ms, 0}), time.Hour, true},
		{"broken off", times(1, trip{ms, ms, 0}), time.Hour, true},
	} {
		err := measure(t, c, &own, step.trips...)
		if got := c.Now().Sub(own.Round(0)); got != step.want || (err != nil) != step.fails {
			t.Errorf("%s: offset %s, want %s; error %v", step.name, got, step.want, err)
		}
	}
}

// step sets the clock that t was read from and leaves its monotonic reading, as
// an administrator does, or a machine that wakes up.
func step(t *testing.T, now time.Time, by time.Duration) time.Time {
	t.Helper()
	set := now
	// The first word of a time with a monotonic reading has its seconds above 30
	// bits of nanoseconds.
	*(*uint64)(unsafe.Pointer(&set)) += uint64(by/time.Second) << 30 //nolint:gosec // package time has no way to say it
	if set.Sub(now) != 0 || set.Round(0).Sub(now.Round(0)) != by {
		t.Fatal("this version of Go keeps times in another way")
	}
	return set
}

func TestClockIgnoresLocalClockChanges(t *testing.T) {
	own := time.Now()
	theirs := own.Round(0).Add(-time.Hour)
	c := database.NewClock(func() time.Time { return own })
	if !c.Now().Equal(own) {
		t.Errorf("before the first measure it is %s, want the own clock's %s", c.Now(), own)
	}
	c.Set(database.Anchor{Local: own, Remote: theirs}, 0)
	before := c.Now()
	own = step(t, own.Add(time.Second), 2*time.Minute)
	if got := c.Now(); !got.Equal(theirs.Add(time.Second)) || got.Sub(before) != time.Second {
		t.Errorf("a second later, and after the own clock was set: %s, %s after the last look; want %s", got, got.Sub(before), theirs.Add(time.Second))
	}
	// A measure that agrees changes nothing either; one that does not does.
	c.Set(database.Anchor{Local: own, Remote: theirs.Add(time.Second)}, 0)
	if got := c.Now(); !got.Equal(theirs.Add(time.Second)) {
		t.Errorf("after the next measure: %s, want %s", got, theirs.Add(time.Second))
	}
	c.Set(database.Anchor{Local: own, Remote: theirs.Add(time.Minute)}, 0)
	if got := c.Now(); !got.Equal(theirs.Add(time.Minute)) {
		t.Errorf("after the database's clock was set: %s, want %s", got, theirs.Add(time.Minute))
	}
}

func TestSQLiteUsesLocalClock(t *testing.T) {
	own := time.Now().Add(-2 * time.Minute)
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "s.db"), Now: func() time.Time { return own }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.db.Close()
	if err := db.db.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := db.db.Now(); !got.Equal(own) {
		t.Errorf("now is %s, want the configured clock's %s", got, own)
	}
}

// TestRowsUseDatabaseTime is of instances whose clocks are minutes off.
func TestRowsUseDatabaseTime(t *testing.T) {
	url := dbtest.Postgres(t)
	for _, off := range []time.Duration{2 * time.Minute, -2 * time.Minute} {
		db, err := Open(t.Context(), Config{URL: url, Now: func() time.Time { return time.Now().Add(off) }})
		if err != nil {
			t.Fatal(err)
		}
		defer db.db.Close()
		serverTime := func() (now time.Time) {
			t.Helper()
			if err := db.db.Read.DB.QueryRowContext(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
				t.Fatal(err)
			}
			return now
		}
		before := serverTime()
		org, err := db.EnsureOrganization(t.Context(), off.String(), "Acme")
		if err != nil {
			t.Fatal(err)
		}
		session, err := db.CreateSession(t.Context(), action.Session{Organization: org.ID, CreatedBy: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		signal, err := db.db.PostSignal(t.Context(), database.Signal{Organization: org.ID, Session: "s", Kind: "k"})
		if err != nil {
			t.Fatal(err)
		}
		now, after := db.db.Now(), serverTime()
		// Half of the longest round trip that counts.
		const tolerance = database.MaxRoundTrip / 2
		for what, at := range map[string]time.Time{"organization": org.CreatedAt, "session": session.CreatedAt, "signal": signal.CreatedAt, "now": now} {
			if at.Before(before.Add(-tolerance)) || at.After(after.Add(tolerance)) {
				t.Errorf("clock off by %s: %s has %s, while the database had %s to %s", off, what, at, before, after)
			}
		}
	}
}
