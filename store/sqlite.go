package store

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite" // the driver
)

// openWriter opens the only connection that writes. FULL: a commit that
// returned survives a loss of power. The journal, of 48 MB, is cut to 64 after a
// reader let it grow.
func openWriter(path string) (*bun.DB, error) {
	if err := private(path); err != nil {
		return nil, err
	}
	return connect(path, 1, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)", "cache_size(-32768)", fmt.Sprintf("wal_autocheckpoint(%d)", journalPages), "journal_size_limit(67108864)"},
	})
}

// openCopier opens the connection of a [copier]. FULL: the journal is on the disk
// before what is copied from it, and that before the journal begins anew.
func openCopier(path string) (*bun.DB, error) {
	return connect(path, 1, url.Values{"_pragma": {"busy_timeout(10000)", "synchronous(FULL)", "cache_size(-64)"}})
}

// openReaders opens connections that cannot write, whatever is asked of them.
func openReaders(path string, n int) (*bun.DB, error) {
	return connect(path, max(n, runtime.GOMAXPROCS(0)), url.Values{
		"_pragma": {"busy_timeout(10000)", "query_only(1)", "temp_store(MEMORY)", "cache_size(-16384)"},
	})
}

// openStill opens a file to look at it, and leaves nothing behind. Where no
// journal lies beside it nobody writes to it, and SQLite is told so: otherwise
// it would make one.
func openStill(path string) (*bun.DB, error) {
	options := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)", "query_only(1)"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, os.ErrNotExist) {
		options.Set("immutable", "1")
	}
	return connect(path, 1, options)
}

func connect(path string, n int, options url.Values) (*bun.DB, error) {
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}
	pool, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	return bun.NewDB(pool, sqliteDialect{sqlitedialect.New()}), nil
}

// sqliteDialect is bun's dialect, but for times and for JSON, which are the same texts
// on both databases.
type sqliteDialect struct{ *sqlitedialect.Dialect }

// AppendTime implements schema.Dialect.
func (sqliteDialect) AppendTime(b []byte, t time.Time) []byte { return appendTime(b, t) }

// AppendJSON implements schema.Dialect.
func (d sqliteDialect) AppendJSON(b, text []byte) []byte { return d.AppendString(b, string(text)) }

// private makes sure that only this user may read the file at path.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}
