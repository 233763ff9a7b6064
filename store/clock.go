package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"
)

const (
	clockSamples = 5
	clockTrip    = time.Second // a longer round trip tells too little
	clockBound   = 5 * time.Second
)

// clock is this program's clock, moved to agree with the database's. Instances
// may differ by minutes; a call that one made must not look expired to
// another. So every time in a row, and every time that is compared with one,
// is of this clock.
type clock struct {
	own    func() time.Time
	offset atomic.Int64 // nanoseconds; zero until measured
}

func newClock(own func() time.Time) *clock { return &clock{own: own} }

// now keeps the monotonic reading, if the own clock has one.
func (c *clock) now() time.Time { return c.own().Add(time.Duration(c.offset.Load())) }

// Now returns the time as the database has it: the configured clock, moved by
// what [DB.SyncClock] measured. Times for rows must come from it. It can jump
// when an instance's own clock was set, so it is no measure of durations.
func (db *DB) Now() time.Time { return db.now() }

// clockNow is the time for a statement: the server's own, as it runs it. On
// SQLite there is one clock.
func (db *DB) clockNow() any {
	if db.Shared() {
		return bun.Safe("clock_timestamp()")
	}
	return at(db.now())
}

// SyncClock measures how far this program's clock is from the database's.
// [Open] does it once; the program does it again every ten seconds, since
// clocks drift and are set. On an error the last measure stays. On SQLite it
// does nothing: there is one process and one clock.
func (db *DB) SyncClock(ctx context.Context) error {
	if !shared(db.read) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clockBound)
	defer cancel()
	// One connection, so that no sample includes the wait for one.
	conn, err := db.read.DB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("asking the database for the time: %w", err)
	}
	defer conn.Close()
	err = db.clock.sync(func() (t time.Time, err error) {
		err = conn.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&t)
		return t, err
	})
	if err != nil {
		return fmt.Errorf("asking the database for the time: %w", err)
	}
	return nil
}

// sync takes the offset from the sample with the shortest round trip, whose
// middle is when the database most likely looked at its clock.
func (c *clock) sync(ask func() (time.Time, error)) error {
	best, offset := clockTrip+1, time.Duration(0)
	for range clockSamples {
		start := c.own()
		theirs, err := ask()
		if err != nil {
			return err
		}
		trip := c.own().Sub(start)
		if trip >= 0 && trip < best {
			best, offset = trip, theirs.Sub(start.Add(trip/2))
		}
	}
	if best > clockTrip {
		return errors.New("each of its answers took over a second; times stay as they were last measured")
	}
	c.set(offset, best)
	return nil
}

// set keeps an offset that the sample cannot tell from the new one, so that
// time does not step back and forth at each measure.
func (c *clock) set(offset, trip time.Duration) {
	if was := time.Duration(c.offset.Load()); (offset - was).Abs() > trip/2 {
		c.offset.Store(int64(offset))
	}
}
