package database

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// Migration is an embedded migration file.
type Migration struct {
	Name      string
	SQL       string
	Checksum  string     // SHA-256 of SQL, in hex
	AppliedAt *time.Time // nil if pending
}

// migrationRow records an applied migration. The checksum detects files that were
// edited afterwards.
type migrationRow struct {
	bun.BaseModel `bun:"table:schema_migrations"`

	Name      string    `bun:"name,pk"`
	Checksum  string    `bun:"checksum"`
	AppliedAt Timestamp `bun:"applied_at"`
}

// Migrate applies pending migrations, as [Open] does, and returns them.
func Migrate(ctx context.Context, c Config) ([]Migration, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	db, release, err := c.OpenForMigration()
	if err != nil {
		return nil, err
	}
	applied, err := migrate(ctx, db, c.Now)
	if err != nil {
		err = OpenError(c, err)
	}
	return applied, errors.Join(err, db.Close(), release())
}

// OpenForMigration opens only the connection that migrations need.
func (c Config) OpenForMigration() (db *bun.DB, release func() error, err error) {
	if c.URL != "" {
		pool, err := OpenPool(c)
		if err != nil {
			return nil, nil, err
		}
		return NewPostgres(pool), func() error { return nil }, nil
	}
	lock, err := lockFile(c.Path)
	if err != nil {
		return nil, nil, err
	}
	if db, err = openWriter(c.Path); err != nil {
		return nil, nil, errors.Join(OpenError(c, err), lock.release())
	}
	return db, lock.release, nil
}

// MigrationStatus returns all migrations of this program and when they were applied.
// It does not write. Migrations that were edited after they were applied or that this
// program does not know are reported as an error together with the list.
func MigrationStatus(ctx context.Context, c Config) ([]Migration, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	files, err := Migrations(c.URL != "")
	if err != nil {
		return nil, err
	}
	list, err := ReadMigrations(files)
	if err != nil {
		return nil, err
	}
	applied, err := c.applied(ctx)
	if err != nil {
		return nil, OpenError(c, err)
	}
	return list, compare(list, applied)
}

// applied returns the applied migrations; none if the database does not exist.
func (c Config) applied(ctx context.Context) ([]migrationRow, error) {
	var db *bun.DB
	if c.URL != "" {
		pool, err := OpenPool(c)
		if err != nil {
			return nil, err
		}
		db = NewPostgres(pool)
	} else {
		if _, err := os.Stat(c.Path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var err error
		if db, err = openReadOnly(c.Path); err != nil {
			return nil, err
		}
	}
	defer db.Close()
	return appliedMigrations(ctx, db)
}

// migrate applies pending migrations.
func migrate(ctx context.Context, db *bun.DB, now func() time.Time) ([]Migration, error) {
	files, err := Migrations(Shared(db))
	if err != nil {
		return nil, err
	}
	return MigrateFiles(ctx, db, files, now)
}

// MigrateFiles applies each pending file in a transaction together with the row that
// records it. Because other processes may migrate at the same time, each transaction
// takes a lock and checks again what is pending.
func MigrateFiles(ctx context.Context, db *bun.DB, files fs.FS, now func() time.Time) (done []Migration, err error) {
	list, err := ReadMigrations(files)
	if err != nil {
		return nil, err
	}
	// If nothing is pending, neither the lock nor the right to create tables is needed.
	applied, err := appliedMigrations(ctx, db)
	if err != nil {
		return nil, err
	}
	pending := func(m Migration) bool { return m.AppliedAt == nil }
	if err := compare(list, applied); err != nil || !slices.ContainsFunc(list, pending) {
		return nil, err
	}
	var options *sql.TxOptions
	if Shared(db) {
		// Regardless of the server's default, a process that waited for the lock sees
		// what was applied meanwhile.
		options = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	for {
		var next *Migration
		err := db.RunInTx(ctx, options, func(ctx context.Context, tx bun.Tx) (err error) {
			next, err = migrateNext(ctx, tx, list, now)
			return err
		})
		if err != nil || next == nil {
			return done, err
		}
		done = append(done, *next)
	}
}

// migrateNext applies the first pending file. It returns nil if there is none.
func migrateNext(ctx context.Context, tx bun.Tx, list []Migration, now func() time.Time) (*Migration, error) {
	if err := lockMigrations(ctx, tx); err != nil {
		return nil, err
	}
	applied, err := appliedMigrations(ctx, tx)
	if err != nil {
		return nil, err
	}
	if err := compare(list, applied); err != nil {
		return nil, err
	}
	for i := range list {
		m := &list[i]
		if m.AppliedAt != nil {
			continue
		}
		// Bypass bun, which would look for placeholders in the text.
		if _, err := tx.Tx.ExecContext(ctx, m.SQL); err != nil {
			return nil, fmt.Errorf("migration %s: %w", m.Name, err)
		}
		applied := NewTimestamp(now())
		if Shared(tx) { // by the database's clock
			if err := tx.NewRaw("SELECT clock_timestamp()").Scan(ctx, &applied); err != nil {
				return nil, fmt.Errorf("migration %s: %w", m.Name, err)
			}
		}
		r := &migrationRow{Name: m.Name, Checksum: m.Checksum, AppliedAt: applied}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return nil, fmt.Errorf("migration %s: %w", m.Name, err)
		}
		m.AppliedAt = r.AppliedAt.Ptr()
		return m, nil
	}
	return nil, nil
}

// lockMigrations creates the table of migrations if necessary. On PostgreSQL it also
// locks out other processes that migrate, until tx ends.
func lockMigrations(ctx context.Context, tx bun.Tx) error {
	timeType := "TEXT"
	if Shared(tx) {
		timeType = "TIMESTAMPTZ"
		// A migration and the wait for it may exceed the statement timeout.
		if _, err := tx.ExecContext(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", int64(exclusiveLock)); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (
	name TEXT NOT NULL PRIMARY KEY, checksum TEXT NOT NULL, applied_at `+timeType+` NOT NULL)`)
	if err != nil {
		return fmt.Errorf("creating the table of migrations: %w", err)
	}
	return nil
}

// ReadMigrations reads the migrations of a folder in their order.
func ReadMigrations(files fs.FS) ([]Migration, error) {
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		list = append(list, Migration{Name: name, SQL: string(text), Checksum: hex.EncodeToString(sum[:])})
	}
	return list, nil
}

// appliedMigrations returns the recorded migrations; none if there is no table yet.
func appliedMigrations(ctx context.Context, db bun.IDB) (rows []migrationRow, err error) {
	query := "SELECT count(*) FROM sqlite_master WHERE name = 'schema_migrations'"
	if Shared(db) {
		query = "SELECT count(to_regclass('schema_migrations'))"
	}
	var n int
	if err = db.NewRaw(query).Scan(ctx, &n); err == nil && n > 0 {
		err = db.NewSelect().Model(&rows).Order("name").Scan(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("reading applied migrations: %w", err)
	}
	return rows, nil
}

// compare sets AppliedAt in the list and returns an error for each applied migration
// that is unknown or was edited.
func compare(list []Migration, applied []migrationRow) error {
	var errs []error
	known := map[string]*Migration{}
	for i := range list {
		known[list[i].Name] = &list[i]
	}
	for _, r := range applied {
		m := known[r.Name]
		switch {
		case m == nil:
			errs = append(errs, fmt.Errorf("migration %s was applied by a newer version of this program; use that version", r.Name))
		case m.Checksum != r.Checksum:
			m.AppliedAt = r.AppliedAt.Ptr()
			errs = append(errs, fmt.Errorf(
				"migration %s: the file differs from the one that was applied to this database (SHA-256 %.12s, applied %.12s); use the version of the program that applied it",
				m.Name, m.Checksum, r.Checksum))
		default:
			m.AppliedAt = r.AppliedAt.Ptr()
		}
	}
	return errors.Join(errs...)
}
