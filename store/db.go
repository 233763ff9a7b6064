package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	clock     *clock
	now       func() time.Time // of clock
	log       *slog.Logger
	loginIdle time.Duration
	lookBack  int // calls that one search looks at

	read  *bun.DB // many connections; those to SQLite cannot write
	write *writer
	retry retrier
	stmts *statements
	lock  *fileLock

	copier *copier // nil on PostgreSQL

	running running
}

// Open opens the database and brings its tables up to date. It takes a file for
// this process alone; any number may open the same PostgreSQL.
func Open(ctx context.Context, c Config) (*DB, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	ticks := newClock(c.Now)
	db := &DB{clock: ticks, now: ticks.now, log: c.Log, loginIdle: c.LoginIdle, lookBack: lookBack, retry: newRetrier(c.RetryFor)}
	open := db.openURL
	if c.URL == "" {
		lock, err := lockFile(c.Path)
		if err != nil {
			return nil, err
		}
		db.lock, open = lock, db.openFile
	}
	err := open(ctx, c)
	if err == nil {
		_, err = db.EnsureOrganization(ctx, DefaultOrganization, "Default")
	}
	if err != nil {
		return nil, errors.Join(c.failed(err), db.Close())
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

func (c Config) withDefaults() Config {
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
	db.write = newWriter(w, c)
	if _, err := migrate(ctx, w, db.now); err != nil {
		return err
	}
	if db.read, err = openReaders(c.Path, c.Readers); err != nil {
		return err
	}
	if db.copier, err = startCopier(c.Path, c.Log); err != nil {
		return err
	}
	db.write.committed = db.copier.committed
	if err := db.write.prepare(ctx); err != nil {
		return err
	}
	db.stmts, err = prepareStatements(ctx, w, db.read)
	return err
}

func (db *DB) openURL(ctx context.Context, c Config) error {
	if err := db.connect(ctx, c); err != nil {
		return err
	}
	_, err := migrate(ctx, db.write.db, db.now)
	return err
}

// connect opens a PostgreSQL as it is.
func (db *DB) connect(ctx context.Context, c Config) error {
	pool, err := openPool(c)
	if err != nil {
		return err
	}
	db.retry.log = c.Log
	r := &reader{pool, db.retry}
	db.read = newPostgres(pool, bun.WithConnResolver(r)).WithQueryHook(bound{c.RetryFor})
	db.write = newWriter(newPostgres(pool), c)
	db.write.retry = db.retry
	db.stmts = textStatements(db.write.db, r)
	db.write.start, db.write.finish = &db.stmts.start, &db.stmts.commit
	if err := db.Ping(ctx); err != nil {
		return err
	}
	return db.SyncClock(ctx)
}

// failed says which database it was.
func (c Config) failed(err error) error {
	switch {
	case c.URL == "":
		return fmt.Errorf("opening the database %s: %w", c.Path, err)
	case lost(err):
		return fmt.Errorf("%s cannot be reached; see that it runs and that the URL is right: %w", place(c.URL), err)
	}
	return fmt.Errorf("opening %s: %w", place(c.URL), err)
}

// Away reports whether an error of [Open] is of a PostgreSQL that cannot be
// reached, or takes no connections, at the moment: trying again may help.
func Away(err error) bool { return lost(err) }

// Shared reports whether other processes may use the same rows.
func (db *DB) Shared() bool { return shared(db.read) }

// Ping asks whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, db.retry.limit)
	defer stop()
	if err := db.read.DB.PingContext(ctx); err != nil {
		return fmt.Errorf("the database does not answer: %w", err)
	}
	return nil
}

// Flush returns when everything that was queued before is durable.
func (db *DB) Flush(ctx context.Context) error { return db.write.do(ctx, &job{}) }

// Close writes what is queued and closes the database. Calls after it fail.
func (db *DB) Close() error {
	var errs []error
	if db.write != nil {
		db.write.close()
	}
	if db.stmts != nil {
		errs = append(errs, db.stmts.close())
	}
	if db.read != nil {
		errs = append(errs, db.read.Close())
	}
	errs = append(errs, db.copier.close())
	if db.write != nil {
		errs = append(errs, db.write.closeDB())
	}
	return errors.Join(append(errs, db.lock.release())...)
}

// do runs f in a transaction that is durable when do returns nil. No other one
// of do's runs at the same time, in no process: f may read and then write.
func (db *DB) do(ctx context.Context, f func(context.Context, bun.Tx) error) error {
	return db.write.do(ctx, &job{whole: true, exclusive: true, run: func(ctx context.Context, tx bun.IDB) error {
		return f(ctx, tx.(bun.Tx))
	}})
}

// once runs f in a transaction that is durable when once returns nil, beside
// others, which lock rows or compare what they change: where there are many
// writers f must do so too.
func (db *DB) once(ctx context.Context, f func(context.Context, bun.IDB) error) error {
	return db.write.do(ctx, &job{whole: true, numbered: true, run: f})
}

// newID returns an id whose order is the order of time.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return id.String(), nil
}
