package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// A lease is a row that another holder may take over after it expired. A single
// upsert acquires it, so that exactly one of several competing holders wins; the
// statement is idempotent for the holder, so that it can be retried.
const (
	acquireSQL = `INSERT INTO locks (name, holder, until) VALUES (?0, ?1, ?2)
ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until
WHERE locks.holder = EXCLUDED.holder OR locks.until <= ?3
RETURNING holder`

	releaseSQL = `DELETE FROM locks WHERE name = ? AND holder = ?`
)

// Hold acquires or renews the named lease for the holder and reports whether it
// succeeded: the lease was free, had expired by the database's clock, or already
// belonged to the holder. A holder that pauses for longer than ttl may lose the
// lease, so it prevents duplicate work but does not guarantee mutual exclusion.
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

// LeaseTimes returns the current time and the expiry of a lease acquired now, as
// statement arguments. On PostgreSQL the server evaluates both.
func (db *DB) LeaseTimes(ttl time.Duration) (now, until any) {
	if db.Shared() {
		return db.ClockNow(), bun.SafeQuery("clock_timestamp() + ? * interval '1 microsecond'", ttl.Microseconds())
	}
	t := db.Now()
	return NewTimestamp(t), NewTimestamp(t.Add(ttl))
}

// Release gives up the lease. It does nothing if the holder no longer has it.
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
