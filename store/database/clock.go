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
	// ClockSamples is the number of round trips that one synchronization measures.
	ClockSamples = 5
	// MaxRoundTrip bounds the round trip of a usable sample: a longer one is too imprecise.
	MaxRoundTrip = time.Second

	syncTimeout = 5 * time.Second
)

// Clock returns the database server's time: the time at the last
// synchronization plus the time elapsed since on the local clock. The local
// clocks of instances may differ by minutes, and a call that one instance wrote
// must not look expired to another. So every stored time, and every time that is
// compared with a stored one, comes from this clock.
//
// If the local clock has a monotonic reading, as [time.Now] has, elapsed time is
// measured with it, so that setting the local clock has no effect.
type Clock struct {
	local  func() time.Time
	anchor atomic.Pointer[Anchor] // nil until synchronized: the local time is used
}

// Anchor is one moment, read on the local and on the server's clock.
type Anchor struct{ Local, Remote time.Time }

// NewClock returns a clock that follows the local one until it is synchronized.
func NewClock(local func() time.Time) *Clock { return &Clock{local: local} }

// Now returns the server's time.
func (c *Clock) Now() time.Time {
	local, a := c.local(), c.anchor.Load()
	if a == nil {
		return local
	}
	return a.remoteTime(local)
}

// remoteTime converts a local time to the server's. The result has no monotonic
// reading, which would belong to the local clock.
func (a *Anchor) remoteTime(t time.Time) time.Time {
	return a.Remote.Add(t.Sub(a.Local)).In(t.Location())
}

// Now returns the server's time as of the last [DB.SyncClock]. Stored times must
// come from it. It jumps when the server's clock was set, so it must not be used
// to measure durations.
func (db *DB) Now() time.Time { return db.TimeNow() }

// ServerNow is the SQL expression for the PostgreSQL server's current time.
const ServerNow = bun.Safe("clock_timestamp()")

// ClockNow returns the current time as a statement argument. On PostgreSQL the
// server evaluates it when it runs the statement.
func (db *DB) ClockNow() any {
	if db.Shared() {
		return ServerNow
	}
	return NewTimestamp(db.Now())
}

// SyncClock measures the offset between the local and the database server's
// clock. [Open] calls it once and the program every ten seconds, because clocks
// drift and are set. On an error the last offset stays in use. On SQLite it does
// nothing: there is one process and one clock. After a machine was suspended its
// clock is behind until the next synchronization, so a caller that resumes must
// synchronize first.
func (db *DB) SyncClock(ctx context.Context) error {
	if !Shared(db.Read) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	// Use one connection so that no sample includes the wait for one.
	conn, err := db.Read.DB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("reading the time of the database: %w", err)
	}
	defer conn.Close()
	err = db.clock.Sync(func() (t time.Time, err error) {
		err = conn.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&t)
		return t, err
	})
	if err != nil {
		return fmt.Errorf("reading the time of the database: %w", err)
	}
	return nil
}

// Sync keeps the sample with the shortest round trip and assumes that the server
// read its clock halfway through.
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
		return errors.New("each response took over a second; the last measured difference stays in use")
	}
	c.Set(found, best)
	return nil
}

// Set replaces the anchor only if the new sample differs from it by more than the
// sample's precision, so that time does not jitter with every synchronization.
func (c *Clock) Set(found Anchor, roundTrip time.Duration) {
	if previous := c.anchor.Load(); previous == nil || found.Remote.Sub(previous.remoteTime(found.Local)).Abs() > roundTrip/2 {
		c.anchor.Store(&found)
	}
}
