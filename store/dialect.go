package store

import (
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"net/url"
	"runtime"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// All that is particular to SQLite is in this file and in migrations/sqlite.
// A second dialect needs of its own: connections, migrations, the error codes
// below, FOR UPDATE where Begin reads the session (here the single writer is
// the lock), placeholders ($1 for ?1) in the prepared statements, and a writer
// that runs each job in a transaction of its own.

//go:embed migrations/sqlite/*.sql
var sqliteFiles embed.FS

func migrations() (fs.FS, error) { return fs.Sub(sqliteFiles, "migrations/sqlite") }

// openWriter opens the only connection that writes. FULL: a commit that
// returned survives a loss of power.
func openWriter(path string) (*bun.DB, error) {
	if err := private(path); err != nil {
		return nil, err
	}
	return connect(path, 1, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)", "cache_size(-32768)"},
	})
}

// openReaders opens connections that cannot write, whatever is asked of them.
func openReaders(path string, n int) (*bun.DB, error) {
	return connect(path, max(n, runtime.GOMAXPROCS(0)), url.Values{
		"_pragma": {"busy_timeout(10000)", "query_only(1)", "temp_store(MEMORY)", "cache_size(-16384)"},
	})
}

func connect(path string, n int, options url.Values) (*bun.DB, error) {
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}
	pool, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	return bun.NewDB(pool, sqlitedialect.New()), nil
}

// taken reports whether err is of a unique key that another row has.
func taken(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// poisons reports whether err may have ended the whole transaction and not
// only its statement: then nothing more may be done in it.
func poisons(err error) bool {
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
