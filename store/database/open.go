package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"
)

// Config configures the database.
type Config struct {
	// Path is the SQLite file. Its folder is created if missing. Set either Path or
	// URL.
	Path string
	// URL is the PostgreSQL database: postgres://user:password@host/database.
	URL string
	// Now is the local clock, time.Now by default.
	Now func() time.Time
	// Log receives the failures of queued writes. By default nothing is logged.
	Log *slog.Logger
	// FlushAfter is the longest time that a queued write waits for others to share
	// its transaction, 10 ms by default.
	FlushAfter time.Duration
	// Readers is the number of read connections to SQLite, 4 by default.
	Readers int
	// MaxConns is the maximum number of connections to PostgreSQL, 16 by default.
	MaxConns int
	// RetryFor is how long a call is retried while PostgreSQL is unreachable, 10 s by
	// default.
	RetryFor time.Duration
	// LoginIdle is the idle timeout of logins, 12 hours by default.
	LoginIdle time.Duration
}

// DB is the open database.
type DB struct {
	clock     *Clock
	TimeNow   func() time.Time // of clock
	log       *slog.Logger
	LoginIdle time.Duration

	Read     *bun.DB // many connections; those to SQLite cannot write
	Write    *writer
	Retry    retrier
	prepared []*Statement // of the hot path
	reader   *reader      // on PostgreSQL
	lock     *fileLock

	Checkpointer *Checkpointer // nil on PostgreSQL
}

// Open opens the database and migrates it. It locks a SQLite file for this process;
// any number of processes can open the same PostgreSQL database.
func Open(ctx context.Context, c Config) (*DB, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	clock := NewClock(c.Now)
	db := &DB{clock: clock, TimeNow: clock.Now, log: c.Log, LoginIdle: c.LoginIdle, Retry: newRetrier(c.RetryFor)}
	open := db.openURL
	if c.URL == "" {
		lock, err := lockFile(c.Path)
		if err != nil {
			return nil, err
		}
		db.lock, open = lock, db.openFile
	}
	err := open(ctx, c)
	if err != nil {
		return nil, errors.Join(OpenError(c, err), db.Close())
	}
	return db, nil
}

func (c Config) check() error {
	switch {
	case c.Path == "" && c.URL == "":
		return errors.New("opening the database: a file path or a PostgreSQL URL is required")
	case c.Path != "" && c.URL != "":
		return errors.New("opening the database: a path and a URL cannot be combined")
	}
	return nil
}

// WithDefaults returns the configuration with defaults for all unset fields.
func (c Config) WithDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.FlushAfter <= 0 {
		c.FlushAfter = 10 * time.Millisecond
	}
	if c.Readers <= 0 {
		c.Readers = 4
	}
	if c.MaxConns <= 0 {
		c.MaxConns = 16
	}
	if c.RetryFor <= 0 {
		c.RetryFor = 10 * time.Second
	}
	if c.LoginIdle <= 0 {
		c.LoginIdle = 12 * time.Hour
	}
	return c
}

func (db *DB) openFile(ctx context.Context, c Config) error {
	w, err := openWriter(c.Path)
	if err != nil {
		return err
	}
	db.Write = newWriter(w, c)
	if _, err := migrate(ctx, w, db.TimeNow); err != nil {
		return err
	}
	if db.Read, err = openReaders(c.Path, c.Readers); err != nil {
		return err
	}
	if db.Checkpointer, err = startCheckpointer(c.Path, c.Log); err != nil {
		return err
	}
	db.Write.onCommit = db.Checkpointer.notify
	return db.Write.prepare(ctx)
}

func (db *DB) openURL(ctx context.Context, c Config) error {
	if err := db.connect(ctx, c); err != nil {
		return err
	}
	_, err := migrate(ctx, db.Write.DB, db.TimeNow)
	return err
}

// connect opens a PostgreSQL database without migrating it.
func (db *DB) connect(ctx context.Context, c Config) error {
	pool, err := OpenPool(c)
	if err != nil {
		return err
	}
	db.Retry.log = c.Log
	r := &reader{pool, db.Retry}
	db.Read = NewPostgres(pool, bun.WithConnResolver(r)).WithQueryHook(queryTimeout{c.RetryFor})
	db.Write = newWriter(NewPostgres(pool), c)
	db.Write.retry = db.Retry
	db.reader = r
	// The texts differ from the driver's, which would otherwise reuse these prepared
	// statements as its own.
	db.Write.beginStmt, db.Write.commitStmt = db.postgresStatement("begin transaction isolation level read committed", nil), db.postgresStatement("commit transaction", nil)
	if err := db.Ping(ctx); err != nil {
		return err
	}
	return db.SyncClock(ctx)
}

// OpenError wraps an error of opening the database with its name.
func OpenError(c Config, err error) error {
	switch {
	case c.URL == "":
		return fmt.Errorf("opening the database %s: %w", c.Path, err)
	case connectionLost(err):
		return fmt.Errorf("%s cannot be reached; check that it is running and that the URL is correct: %w", describeURL(c.URL), err)
	}
	return fmt.Errorf("opening %s: %w", describeURL(c.URL), err)
}

// Away reports whether an error of [Open] means that PostgreSQL is unreachable or
// accepts no connections, so that a retry may succeed.
func Away(err error) bool { return connectionLost(err) }

// Shared reports whether other processes may use the same rows.
func (db *DB) Shared() bool { return Shared(db.Read) }

// Ping checks that the database answers.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, db.Retry.limit)
	defer cancel()
	if err := db.Read.DB.PingContext(ctx); err != nil {
		return fmt.Errorf("the database does not answer: %w", err)
	}
	return nil
}

// Flush waits until all writes queued so far are durable.
func (db *DB) Flush(ctx context.Context) error { return db.Write.Do(ctx, &Job{}) }

// Close flushes queued writes and closes the database. Later calls fail.
func (db *DB) Close() error {
	var errs []error
	if db.Write != nil {
		db.Write.close()
	}
	for _, stmt := range db.prepared {
		if stmt.Prepared != nil {
			errs = append(errs, stmt.Prepared.Close())
		}
	}
	if db.Read != nil {
		errs = append(errs, db.Read.Close())
	}
	errs = append(errs, db.Checkpointer.close())
	if db.Write != nil {
		errs = append(errs, db.Write.closeDB())
	}
	return errors.Join(append(errs, db.lock.release())...)
}

// ExclusiveTransaction runs f in a transaction that is durable on return. No two
// exclusive transactions run at the same time in any process, so that f can read,
// decide and write.
func (db *DB) ExclusiveTransaction(ctx context.Context, f func(context.Context, bun.Tx) error) error {
	return db.Write.Do(ctx, &Job{InTransaction: true, Exclusive: true, Run: func(ctx context.Context, tx bun.IDB) error {
		return f(ctx, tx.(bun.Tx))
	}})
}

// Transaction runs f in a transaction that is durable on return. Others may run
// concurrently, so f must lock rows or use compare-and-swap.
func (db *DB) Transaction(ctx context.Context, f func(context.Context, bun.IDB) error) error {
	return db.Write.Do(ctx, &Job{InTransaction: true, TrackXID: true, Run: f})
}

// NewID returns an ID that sorts by creation time.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("generating an ID: %w", err)
	}
	return id.String(), nil
}

// TouchEvery is the interval at which the last use of a login is recorded.
const TouchEvery = time.Minute

// ReadContext returns the context for a short read. It ignores cancellation by the
// caller: on SQLite the driver starts a goroutine per cancelable context, which costs
// more than the read, and on PostgreSQL an interrupted connection must be closed. On
// PostgreSQL it has a timeout instead.
func (db *DB) ReadContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if !db.Shared() {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, db.Retry.limit)
}

// OpenFileReadOnly opens a SQLite file for reading, even while another process writes
// to it. It does not migrate or lock the file. Methods that write must not be called.
func OpenFileReadOnly(path string) (*DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	c := Config{}.WithDefaults()
	clock := NewClock(c.Now)
	read, err := openReaders(path, 1)
	if err != nil {
		return nil, err
	}
	return &DB{clock: clock, TimeNow: clock.Now, log: c.Log, LoginIdle: c.LoginIdle, Retry: newRetrier(c.RetryFor), Read: read}, nil
}

// OpenURLReadOnly opens a PostgreSQL database for reading without migrating it or
// creating the default organization. Methods that write must not be called.
func OpenURLReadOnly(ctx context.Context, c Config) (*DB, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	clock := NewClock(c.Now)
	db := &DB{clock: clock, TimeNow: clock.Now, log: c.Log, LoginIdle: c.LoginIdle, Retry: newRetrier(c.RetryFor)}
	if err := db.connect(ctx, c); err != nil {
		return nil, errors.Join(OpenError(c, err), db.Close())
	}
	return db, nil
}
