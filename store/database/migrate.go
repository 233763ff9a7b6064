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

// Migration is one step of the tables' history: a file of this program.
type Migration struct {
	Name      string
	SQL       string
	Checksum  string     // sha256 of SQL, in hex
	AppliedAt *time.Time // nil: it is pending
}

// migrationRow tells that a file was applied. The checksum tells when it was
// edited afterwards: then the tables are not what the files say.
type migrationRow struct {
	bun.BaseModel `bun:"table:schema_migrations"`

	Name      string    `bun:"name,pk"`
	Checksum  string    `bun:"checksum"`
	AppliedAt Timestamp `bun:"applied_at"`
}

// Migrate brings the tables up to date and returns what it applied. [Open]
// does the same.
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

// OpenForMigration opens no more than migrations need.
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

// MigrationStatus returns all migrations of this program, and which of them
// were applied. It changes nothing and makes nothing. Migrations that were
// edited after they were applied, or that this program does not know, are an
// error; the list is returned all the same.
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

// applied reads what was applied, if anything ever was.
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

// migrate applies what is pending.
func migrate(ctx context.Context, db *bun.DB, now func() time.Time) ([]Migration, error) {
	files, err := Migrations(Shared(db))
	if err != nil {
		return nil, err
	}
	return MigrateFiles(ctx, db, files, now)
}

// MigrateFiles applies each pending file in a transaction with the row that
// says so. Where others may do the same at this moment, each transaction takes
// a lock and looks again at what there is to do.
func MigrateFiles(ctx context.Context, db *bun.DB, files fs.FS, now func() time.Time) (done []Migration, err error) {
	list, err := ReadMigrations(files)
	if err != nil {
		return nil, err
	}
	// Who finds nothing to do needs no lock, and no right to make tables.
	applied, err := appliedMigrations(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := compare(list, applied); err != nil || !pending(list) {
		return nil, err
	}
	for {
		var next *Migration
		err := db.RunInTx(ctx, migrationTxOptions(db), func(ctx context.Context, tx bun.Tx) (err error) {
			next, err = migrateNext(ctx, tx, list, now)
			return err
		})
		if err != nil || next == nil {
			return done, err
		}
		done = append(done, *next)
	}
}

// migrationTxOptions has each statement see what was committed before it, whatever the
// server's default is: who waited for the lock must see what was applied
// meanwhile. SQLite has no such choice.
func migrationTxOptions(db bun.IDB) *sql.TxOptions {
	if !Shared(db) {
		return nil
	}
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

// migrationTime is when a migration is applied, by the database's clock.
func migrationTime(ctx context.Context, tx bun.Tx, now func() time.Time) (t Timestamp, err error) {
	if !Shared(tx) {
		return NewTimestamp(now()), nil
	}
	err = tx.NewRaw("SELECT clock_timestamp()").Scan(ctx, &t)
	return t, err
}

// migrateNext applies the first pending file, and returns nil when there is
// none.
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
		// The embedded transaction runs the text as it is: bun's own would
		// look for placeholders in it.
		if _, err := tx.Tx.ExecContext(ctx, m.SQL); err != nil {
			return nil, fmt.Errorf("migration %s: %w", m.Name, err)
		}
		applied, err := migrationTime(ctx, tx, now)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", m.Name, err)
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

// lockMigrations makes the table of migrations if it is not there, and on
// PostgreSQL keeps others away from all tables' history until tx ends.
func lockMigrations(ctx context.Context, tx bun.Tx) error {
	timeType := "TEXT"
	if Shared(tx) {
		timeType = "TIMESTAMPTZ"
		// A migration may take its time, and another one wait for it.
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
		return fmt.Errorf("making the table of migrations: %w", err)
	}
	return nil
}

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

func pending(list []Migration) bool {
	return slices.ContainsFunc(list, func(m Migration) bool { return m.AppliedAt == nil })
}

// appliedMigrations reads what was applied; nothing when there is no table of
// it yet.
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

// compare notes in the list what was applied, and says what does not fit.
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
				"migration %s: the file differs from what was applied to this database (sha256 %.12s, applied %.12s); use the version of the program that wrote it",
				m.Name, m.Checksum, r.Checksum))
		default:
			m.AppliedAt = r.AppliedAt.Ptr()
		}
	}
	return errors.Join(errs...)
}
