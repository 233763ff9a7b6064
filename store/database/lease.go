package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"sallyport/action"
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
		return false, errors.New("holding a lock: name, holder and a positive duration are required")
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

// MaxSignal bounds the data of a signal, in bytes.
const MaxSignal = 64 << 10

// Signal is a message about an MCP session from one instance to the others. It is
// kept for some minutes, until a sweep deletes it.
type Signal struct {
	ID           string          `bun:",pk"`
	Organization string          `bun:"organization_id"`
	Session      string          // hash of the MCP session ID, which is itself a credential
	Kind         string          // opaque to the store
	Data         json.RawMessage // empty: {}
	CreatedAt    time.Time
}

type signalRow struct {
	bun.BaseModel `bun:"table:signals"`
	Signal
}

// PostSignal stores a signal and returns it with the ID and time that the store
// assigned.
func (db *DB) PostSignal(ctx context.Context, s Signal) (Signal, error) {
	if err := checkSignal(&s); err != nil {
		return Signal{}, err
	}
	var err error
	if s.ID, err = NewID(); err != nil {
		return Signal{}, err
	}
	r := &signalRow{Signal: s}
	err = db.Write.Do(ctx, &Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		// Set the time here and not before waiting for the writer: the overlap of
		// readers' windows must cover the time until the commit. A conflict means
		// that an earlier attempt committed this signal without confirmation.
		r.CreatedAt = NewTimestamp(db.Now()).Time
		_, err := tx.NewInsert().Model(r).On("CONFLICT (id) DO UPDATE").Set("created_at = EXCLUDED.created_at").Exec(ctx)
		return err
	}})
	if err != nil {
		return Signal{}, fmt.Errorf("posting a signal: %w", err)
	}
	return r.Signal, nil
}

func checkSignal(s *Signal) error {
	if len(s.Data) == 0 {
		s.Data = json.RawMessage("{}")
	}
	switch {
	case s.Session == "":
		return Invalid("/session", "A signal needs a session.")
	case s.Kind == "":
		return Invalid("/kind", "A signal needs a kind.")
	case len(s.Data) > MaxSignal:
		return action.NewError("signal_too_large", MaxSignal)
	case !json.Valid(s.Data) || !utf8.Valid(s.Data):
		return Invalid("/data", "The data of a signal must be JSON in UTF-8.")
	}
	return nil
}

// Signals returns the signals of all organizations that were created at or after
// since, oldest first.
//
// A signal becomes visible when its transaction commits, possibly after a
// slightly newer one. Readers therefore let their windows overlap by some seconds
// and skip the IDs they have already processed. After a full page, the next one
// starts at the time of the last signal. The limit (default 100) must exceed the
// number of signals in one overlap.
func (db *DB) Signals(ctx context.Context, since time.Time, limit int) ([]Signal, error) {
	return List[Signal](ctx, Signals(db.Read, since, LimitOrDefault(limit)))
}

// Signals selects the signals created at or after since, oldest first.
func Signals(db bun.IDB, since time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*signalRow)(nil)).Where("created_at >= ?", NewTimestamp(since).Or(Epoch)).
		Order("created_at", "id").Limit(int64(limit))
}

// SweepSignals deletes up to limit (default 100) signals created before the time
// and returns their number.
func (db *DB) SweepSignals(ctx context.Context, before time.Time, limit int) (int, error) {
	return db.DeleteExpired(ctx, ExpiredSignals(before), limit)
}

// ExpiredSignals describes the signals created before the time.
func ExpiredSignals(before time.Time) Expired {
	return Expired{Table: "signals", Key: "id", Time: "created_at", Before: NewTimestamp(before).Or(Epoch)}
}

// Expired describes the rows of a table that can be deleted after some time.
type Expired struct {
	Table  string
	Key    string // columns of the primary key, with commas between
	Time   string // the column compared with Before
	Before Timestamp
}

// Find selects the keys of the oldest expired rows.
func (s Expired) Find(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return s.oldest(q.ColumnExpr(s.Key), limit)
}

func (s Expired) oldest(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return q.Table(s.Table).Where("? < ?", bun.Ident(s.Time), s.Before).Order(s.Time).Limit(int64(limit))
}

// Remove deletes the oldest expired rows. On PostgreSQL it skips rows that another
// process has locked. It addresses the rows locked by the inner query by ctid,
// because any other condition makes the server read more of the index.
func (s Expired) Remove(db bun.IDB, limit int) *bun.DeleteQuery {
	q := db.NewDelete().Table(s.Table)
	if Shared(db) {
		return q.Where("ctid = ANY (ARRAY(?))", s.oldest(db.NewSelect().ColumnExpr("ctid"), limit).For("UPDATE SKIP LOCKED"))
	}
	return q.Where("("+s.Key+") IN (?)", s.Find(db.NewSelect(), limit))
}

// LimitOrDefault returns the limit, or 100 if none is given.
func LimitOrDefault(limit int) int {
	if limit <= 0 {
		return 100
	}
	return limit
}

// Exists reports whether q has a row. bun's own Exists uses a [sql.Row], which
// hides a lost connection.
func Exists(ctx context.Context, q *bun.SelectQuery) (found bool, err error) {
	err = q.NewSelect().ColumnExpr("EXISTS (?)", q).Scan(ctx, &found)
	return found, err
}

// DeleteExpired deletes up to limit of the rows and returns their number.
func (db *DB) DeleteExpired(ctx context.Context, s Expired, limit int) (n int, err error) {
	// Check with a read first: usually there is nothing to delete.
	found, err := Exists(ctx, s.Find(db.Read.NewSelect(), 1))
	if err == nil && found {
		err = db.Write.Do(ctx, &Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
			n, err = RowsAffected(s.Remove(tx, LimitOrDefault(limit)).Exec(ctx))
			return err
		}})
	}
	if err != nil {
		return 0, fmt.Errorf("sweeping %s: %w", s.Table, err)
	}
	return n, nil
}

// RowsAffected returns the number of rows that a statement changed.
func RowsAffected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
