package store

import (
	"embed"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Models and queries are the same on both databases. What is not is here, in
// sqlite.go and postgres.go (connections), writer.go and pool.go (who writes
// when), and in two folders of migrations:
//
//   - SQLite has one writer, whose order is every lock that Begin, the sweeps
//     and read-then-write code need. On PostgreSQL many processes write at
//     once: Begin locks its session, sweeps skip what others hold, and all
//     writes of [DB.do] take one lock of the whole cluster.
//   - An error ends a whole transaction on PostgreSQL, and only its statement
//     on SQLite. No code here goes on in a transaction after a failed
//     statement.
//   - Statements are prepared on SQLite. On PostgreSQL the values are written
//     into the text, so that no connection has a state and a pooler may stand
//     between.

//go:embed migrations
var migrationFiles embed.FS

// migrations are those of the dialect.
func migrations(shared bool) (fs.FS, error) {
	if shared {
		return fs.Sub(migrationFiles, "migrations/postgres")
	}
	return fs.Sub(migrationFiles, "migrations/sqlite")
}

// shared reports whether others may write to the same rows at the same time.
func shared(db bun.IDB) bool { return db.Dialect().Name() == dialect.PG }

// taken reports whether err is of a unique key that another row has.
func taken(err error) bool {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code == "23505"
	}
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// poisons reports whether err may have ended the whole transaction and not
// only its statement: then nothing more may be done in it.
func poisons(err error) bool {
	var p *pgconn.PgError
	if errors.As(err, &p) || lost(err) {
		return true
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_TOOBIG:
		return false
	}
	return true
}
