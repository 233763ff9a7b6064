package database

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"
)

const (
	ClockSamples = 5
	MaxRoundTrip = time.Second // a longer round trip tells too little
	syncTimeout  = 5 * time.Second
)

// Clock tells the database's time: what it was at the last measure, and what
// has passed since by this program's own clock. Instances may differ by
// minutes; a call that one made must not look expired to another. So every time
// in a row, and every time that is compared with one, is of this clock.
//
// Where the own clock has a monotonic reading, as that of [time.Now] has, what
// has passed is counted by it: setting the own clock changes nothing.
type Clock struct {
	local  func() time.Time
	anchor atomic.Pointer[Anchor] // nil until measured: the own clock counts
}

// Anchor is a moment on both clocks.
type Anchor struct{ Local, Remote time.Time }

func NewClock(local func() time.Time) *Clock { return &Clock{local: local} }

func (c *Clock) Now() time.Time {
	local, a := c.local(), c.anchor.Load()
	if a == nil {
		return local
	}
	return a.remoteTime(local)
}

// at is what the database's clock shows when the own one shows t. It has no
// monotonic reading, which would be of a time that was set since.
func (a *Anchor) remoteTime(t time.Time) time.Time {
	return a.Remote.Add(t.Sub(a.Local)).In(t.Location())
}

// Now returns the time as the database has it, by what [DB.SyncClock] measured
// last. Times for rows must come from it. It jumps when a measure finds that
// the database's clock was set, so it is no measure of durations.
func (db *DB) Now() time.Time { return db.TimeNow() }

// ServerNow is the time of PostgreSQL's server.
const ServerNow = bun.Safe("clock_timestamp()")

// ClockNow is the time for a statement: the server's own, as it runs it. On
// SQLite there is one clock.
func (db *DB) ClockNow() any {
	if db.Shared() {
		return ServerNow
	}
	return NewTimestamp(db.Now())
}

// SyncClock measures how far this program's clock is from the database's.
// [Open] does it once; the program does it again every ten seconds, since
// clocks drift and are set. On an error the last measure stays. On SQLite it
// does nothing: there is one process and one clock. A machine that slept wakes
// with a time that is late by as long, until the next measure: who was away
// measures first.
func (db *DB) SyncClock(ctx context.Context) error {
	if !Shared(db.Read) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	// One connection, so that no sample includes the wait for one.
	conn, err := db.Read.DB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("asking the database for the time: %w", err)
	}
	defer conn.Close()
	err = db.clock.Sync(func() (t time.Time, err error) {
		err = conn.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&t)
		return t, err
	})
	if err != nil {
		return fmt.Errorf("asking the database for the time: %w", err)
	}
	return nil
}

// Sync takes the sample with the shortest round trip, in whose middle the
// database most likely looked at its clock.
func (c *Clock) Sync(query func() (time.Time, error)) error {
	best, found := MaxRoundTrip+1, Anchor{}
	for range ClockSamples {
		start := c.local()
		remote, err := query()
		if err != nil {
			return err
		}
		roundTrip := c.local().Sub(start)
		if roundTrip >= 0 && roundTrip < best {
			best, found = roundTrip, Anchor{start.Add(roundTrip / 2), remote}
		}
	}
	if best > MaxRoundTrip {
		return errors.New("each of its answers took over a second; times stay as they were last measured")
	}
	c.Set(found, best)
	return nil
}

// Set keeps a measure that the sample cannot tell from the new one, so that
// time does not step back and forth each time.
func (c *Clock) Set(found Anchor, roundTrip time.Duration) {
	if previous := c.anchor.Load(); previous == nil || found.Remote.Sub(previous.remoteTime(found.Local)).Abs() > roundTrip/2 {
		c.anchor.Store(&found)
	}
}
