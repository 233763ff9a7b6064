package store

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
	// Path of the database file; required. Its folder is made when missing.
	Path string
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets what went wrong with queued writes. Nil: nothing is logged.
	Log *slog.Logger
	// FlushAfter is how long a queued write waits for another one to share its
	// transaction. Zero: 10 ms.
	FlushAfter time.Duration
	// Readers is the number of reading connections. Zero: 4.
	Readers int
	// ReservedSlugs are those that no connector may take. Nil: none.
	ReservedSlugs []string
	// LoginIdle ends a login that was not used for so long. Zero: 12 hours.
	LoginIdle time.Duration
}

// DB is the open database.
type DB struct {
	now       func() time.Time
	log       *slog.Logger
	reserved  []string
	loginIdle time.Duration

	read  *bun.DB // many connections that cannot write
	write *writer // the one that can
	stmts *statements
	lock  *fileLock

	running running
}

// Open opens the database, takes it for this process alone and brings its
// tables up to date.
func Open(ctx context.Context, c Config) (*DB, error) {
	if c.Path == "" {
		return nil, errors.New("opening the database: no path given")
	}
	c = c.withDefaults()
	lock, err := lockFile(c.Path)
	if err != nil {
		return nil, err
	}
	db := &DB{now: c.Now, log: c.Log, reserved: c.ReservedSlugs, loginIdle: c.LoginIdle, lock: lock}
	if err := db.open(ctx, c); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %s: %w", c.Path, err), db.Close())
	}
	return db, nil
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
	if c.LoginIdle <= 0 {
		c.LoginIdle = 12 * time.Hour
	}
	return c
}

func (db *DB) open(ctx context.Context, c Config) error {
	w, err := openWriter(c.Path)
	if err != nil {
		return err
	}
	db.write = newWriter(w, c.FlushAfter, c.Log)
	if err := migrate(ctx, w, db.now); err != nil {
		return err
	}
	if db.read, err = openReaders(c.Path, c.Readers); err != nil {
		return err
	}
	if err := db.write.prepare(ctx); err != nil {
		return err
	}
	if db.stmts, err = prepareStatements(ctx, w, db.read); err != nil {
		return err
	}
	_, err = db.EnsureOrganization(ctx, DefaultOrganization, "Default")
	return err
}

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
	if db.write != nil {
		errs = append(errs, db.write.closeDB())
	}
	return errors.Join(append(errs, db.lock.release())...)
}

// do runs f in a transaction that is durable when do returns nil.
func (db *DB) do(ctx context.Context, f func(context.Context, bun.Tx) error) error {
	return db.write.do(ctx, &job{run: f})
}

// newID returns an id whose order is the order of time.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return id.String(), nil
}

// private makes sure that only this user may read the file at path.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}
