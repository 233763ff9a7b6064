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

// Models and queries are the same on both databases, but for a few that ask
// [shared]. What is not is here, in sqlite.go and postgres.go (connections), in
// writer.go and pool.go (who writes when), in reader.go (reads of a server that
// may be away), in clock.go (whose time counts), and in two folders of
// migrations:
//
//   - SQLite has one writer, whose order is every lock that Begin, the sweeps
//     and read-then-write code need. On PostgreSQL many processes write at
//     once: Begin locks its session, when its row depends on others of it or
//     uses up a grant, and checks policy and session again in the statement
//     that inserts; sweeps skip what others hold; all writes of [DB.do] take
//     one lock of the whole cluster; and other writes are one statement each,
//     but for an approval that makes a grant, which begins with its row.
//   - An error ends a whole transaction on PostgreSQL, and only its statement
//     on SQLite. No code here goes on in a transaction after a failed
//     statement.
//   - The statements of the hot path are prepared on SQLite. On PostgreSQL the
//     values are written into the text, so that no connection has a state and a
//     pooler may stand between.

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

// taken reports whether err is of a unique key that another row has. On SQLite
// a trigger may say so first: see audit_seals_replaced.
func taken(err error) bool {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code == "23505"
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_TRIGGER:
		return true
	}
	return false
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
