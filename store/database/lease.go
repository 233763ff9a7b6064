package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// A lock is a row that whoever looks after its end may take over. One statement
// does it all, so that of many one wins; to the holder it is the same when it
// is sent twice.
const (
	acquireSQL = `INSERT INTO locks (name, holder, until) VALUES (?0, ?1, ?2)
ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until
WHERE locks.holder = EXCLUDED.holder OR locks.until <= ?3
RETURNING holder`

	releaseSQL = `DELETE FROM locks WHERE name = ? AND holder = ?`
)

// Hold takes the lock of that name for the holder, and reports whether it did:
// the lock is free, or its time is over by the database's clock, or the holder
// has it already; then its time begins anew. Other names are other locks. A
// holder that was away for longer than ttl may have lost it: a lock keeps
// others from doing the same work, and is no proof that nobody does.
func (db *DB) Hold(ctx context.Context, name, holder string, ttl time.Duration) (held bool, err error) {
	if name == "" || holder == "" || ttl <= 0 {
		return false, errors.New("holding a lock: give a name, a holder and a time greater than zero")
	}
	err = db.Write.Do(ctx, &Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		now, until := db.LeaseTimes(ttl)
		err := tx.NewRaw(acquireSQL, name, holder, until, now).Scan(ctx, new(string))
		held = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}})
	if err != nil {
		return false, fmt.Errorf("holding the lock %s: %w", name, err)
	}
	return held, nil
}

// LeaseTimes are the time now and the end of a lock taken now. Where several
// processes may take it, the server says the time as it runs the statement.
func (db *DB) LeaseTimes(ttl time.Duration) (now, until any) {
	if db.Shared() {
		return db.ClockNow(), bun.SafeQuery("clock_timestamp() + ? * interval '1 microsecond'", ttl.Microseconds())
	}
	t := db.Now()
	return NewTimestamp(t), NewTimestamp(t.Add(ttl))
}

// Release gives the lock back. If the holder has it no longer, nothing changes.
func (db *DB) Release(ctx context.Context, name, holder string) error {
	err := db.Write.Do(ctx, &Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewRaw(releaseSQL, name, holder).Exec(ctx)
		return err
	}})
	if err != nil {
		return fmt.Errorf("releasing the lock %s: %w", name, err)
	}
	return nil
}
