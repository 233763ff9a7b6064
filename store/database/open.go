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

// Config says where the rows are and how they are kept.
type Config struct {
	// Path of the SQLite file, whose folder is made when missing; or
	Path string
	// URL of the PostgreSQL database: postgres://user:password@host/database.
	// One of the two is required.
	URL string
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets what went wrong with queued writes. Nil: nothing is logged.
	Log *slog.Logger
	// FlushAfter is how long a queued write waits for another one to share its
	// transaction. Zero: 10 ms.
	FlushAfter time.Duration
	// Readers is the number of connections that read SQLite. Zero: 4.
	Readers int
	// MaxConns is the largest number of connections to PostgreSQL. Zero: 16.
	MaxConns int
	// RetryFor is how long a call waits for a PostgreSQL that cannot be reached
	// any more. Zero: 10 s.
	RetryFor time.Duration
	// LoginIdle ends a login that was not used for so long. Zero: 12 hours.
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

// Open opens the database and brings its tables up to date. It takes a file for
// this process alone; any number may open the same PostgreSQL.
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
		return errors.New("opening the database: give the path of a file or the URL of a PostgreSQL database")
	case c.Path != "" && c.URL != "":
		return errors.New("opening the database: give a path or a URL, not both")
	}
	return nil
}

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

// connect opens a PostgreSQL as it is.
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
	// Not in the words of the driver, which would take what is prepared here for its own.
	db.Write.beginStmt, db.Write.commitStmt = db.postgresStatement("begin transaction isolation level read committed", nil), db.postgresStatement("commit transaction", nil)
	if err := db.Ping(ctx); err != nil {
		return err
	}
	return db.SyncClock(ctx)
}

// OpenError returns the error of opening a database, with which one it was.
func OpenError(c Config, err error) error {
	switch {
	case c.URL == "":
		return fmt.Errorf("opening the database %s: %w", c.Path, err)
	case connectionLost(err):
		return fmt.Errorf("%s cannot be reached; see that it runs and that the URL is right: %w", describeURL(c.URL), err)
	}
	return fmt.Errorf("opening %s: %w", describeURL(c.URL), err)
}

// Away reports whether an error of [Open] is of a PostgreSQL that cannot be
// reached, or takes no connections, at the moment: trying again may help.
func Away(err error) bool { return connectionLost(err) }

// Shared reports whether other processes may use the same rows.
func (db *DB) Shared() bool { return Shared(db.Read) }

// Ping asks whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, db.Retry.limit)
	defer cancel()
	if err := db.Read.DB.PingContext(ctx); err != nil {
		return fmt.Errorf("the database does not answer: %w", err)
	}
	return nil
}

// Flush returns when everything that was queued before is durable.
func (db *DB) Flush(ctx context.Context) error { return db.Write.Do(ctx, &Job{}) }

// Close writes what is queued and closes the database. Calls after it fail.
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

// ExclusiveTransaction runs f in a transaction that is durable when do returns nil. No other one
// of do's runs at the same time, in no process: f may read and then write.
func (db *DB) ExclusiveTransaction(ctx context.Context, f func(context.Context, bun.Tx) error) error {
	return db.Write.Do(ctx, &Job{InTransaction: true, Exclusive: true, Run: func(ctx context.Context, tx bun.IDB) error {
		return f(ctx, tx.(bun.Tx))
	}})
}

// Transaction runs f in a transaction that is durable when once returns nil, beside
// others, which lock rows or compare what they change: where there are many
// writers f must do so too.
func (db *DB) Transaction(ctx context.Context, f func(context.Context, bun.IDB) error) error {
	return db.Write.Do(ctx, &Job{InTransaction: true, TrackXID: true, Run: f})
}

// NewID returns an id whose order is the order of time.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return id.String(), nil
}

// TouchEvery is how often a login in use is noted.
const TouchEvery = time.Minute

// ReadContext is the context of a short read. The caller's end is left out of it. On
// SQLite the driver starts a goroutine to watch a context, which costs more
// than the read; on PostgreSQL a connection that is left in the middle must be
// closed, and the read only be bounded.
func (db *DB) ReadContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if !db.Shared() {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, db.Retry.limit)
}

// OpenFileReadOnly opens a SQLite file that nobody writes to, or one that another process
// may write to, to look at it: nothing is migrated, locked or written. Only
// what reads may be called.
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

// OpenURLReadOnly opens a PostgreSQL to look at it, as [Still] does a file: nothing is
// migrated or written, its first organization neither. Only what reads may be
// called.
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
