package database

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Models and queries are the same on both databases, except for a few that depend
// on [Shared]. The differences are in this file (connections), in writer.go and
// pool.go (write scheduling), in retry.go (reads from an unreachable server), in
// clock.go (time source) and in the two folders of migrations:
//
//   - SQLite has a single writer, which serializes Begin, the sweeps and all
//     read-modify-write code. On PostgreSQL many processes write concurrently.
//     Begin locks its session if its row depends on other rows of the session or
//     uses a grant, and checks policy and session again in the inserting
//     statement. Sweeps skip locked rows. [DB.ExclusiveTransaction] takes one
//     lock for the whole cluster. All other writes are single statements, except
//     for an approval that creates a grant, which locks its row first.
//   - An error aborts the whole transaction on PostgreSQL but only the statement
//     on SQLite. No code continues in a transaction after a failed statement.
//   - The statements of the hot path are prepared on both databases. On PostgreSQL
//     all other values are inlined, so that connections have no state and a pooler
//     can be used.

//go:embed migrations
var migrationFiles embed.FS

// Migrations returns the migration files of PostgreSQL (shared) or SQLite.
func Migrations(shared bool) (fs.FS, error) {
	if shared {
		return fs.Sub(migrationFiles, "migrations/postgres")
	}
	return fs.Sub(migrationFiles, "migrations/sqlite")
}

// Shared reports whether other processes may write to the same rows, that is,
// whether the database is PostgreSQL.
func Shared(db bun.IDB) bool { return db.Dialect().Name() == dialect.PG }

// IsUniqueViolation reports whether err is the violation of a unique key. On SQLite
// a trigger may raise it first; see audit_seals_replaced.
func IsUniqueViolation(err error) bool {
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

// abortsTransaction reports whether err may have aborted the whole transaction rather
// than only its statement.
func abortsTransaction(err error) bool {
	var p *pgconn.PgError
	if errors.As(err, &p) || connectionLost(err) {
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

// statementTimeout bounds each statement and the idle time within a transaction, so
// that a crashed gateway does not keep its locks.
const statementTimeout = 15 * time.Second

// OpenPool opens a connection pool to PostgreSQL without connecting yet. Nothing
// relies on the state of a connection except for prepared statements, which are
// used only on direct connections to the server.
func OpenPool(c Config) (*sql.DB, error) {
	conf, err := ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	pool := stdlib.OpenDB(*conf, stdlib.OptionAfterConnect(initConnection))
	pool.SetMaxOpenConns(c.MaxConns)
	pool.SetMaxIdleConns(c.MaxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	pool.SetConnMaxLifetime(time.Hour)
	return pool, nil
}

// ParseURL parses the URL of a PostgreSQL database and sets the connection
// parameters that the store relies on.
func ParseURL(text string) (*pgx.ConnConfig, error) {
	conf, err := pgx.ParseConfig(text)
	if err != nil || !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return nil, invalidURL(err)
	}
	conf.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conf.StatementCacheCapacity, conf.DescriptionCacheCapacity = 0, 0
	if conf.ConnectTimeout == 0 {
		conf.ConnectTimeout = 5 * time.Second
	}
	// Parameters that poolers support as well. They determine how text is escaped
	// and times are parsed, regardless of the server's defaults.
	for name, value := range map[string]string{"standard_conforming_strings": "on", "client_encoding": "UTF8", "datestyle": "ISO, MDY"} {
		conf.RuntimeParams[name] = value
	}
	if conf.RuntimeParams["application_name"] == "" {
		conf.RuntimeParams["application_name"] = "sallyport"
	}
	return conf, nil
}

// invalidURL describes what is wrong with a URL without quoting it, because it may
// contain a password.
func invalidURL(err error) error {
	const form = "the database URL has the form postgres://user:password@host:5432/database?sslmode=verify-full"
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	if err == nil || strings.Contains(err.Error(), "://") {
		return errors.New(form)
	}
	return fmt.Errorf("%s: %w", form, err)
}

// initConnection sets the timeouts of a new connection and records whether statements
// can be prepared on it. Behind a pooler the timeouts may apply to another client's
// connection; nothing else depends on them.
func initConnection(ctx context.Context, conn *pgx.Conn) error {
	set := func(name, value string) string {
		if conn.Config().RuntimeParams[name] != "" {
			return "" // set by the URL
		}
		return fmt.Sprintf("SET %s = %s;", name, value)
	}
	// Read times in UTC, regardless of the time zone of the server or this process.
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	ms := fmt.Sprint(statementTimeout.Milliseconds())
	text := set("statement_timeout", ms) + set("idle_in_transaction_session_timeout", ms) + "SELECT pg_backend_pid()"
	results, err := conn.PgConn().Exec(ctx, text).ReadAll()
	if err != nil {
		return err
	}
	// A pooler reports process IDs of its own and may run each transaction on a
	// different server process, where the prepared statements do not exist.
	if pid := results[len(results)-1].Rows[0][0]; string(pid) != fmt.Sprint(conn.PgConn().PID()) {
		return nil
	}
	// Use one plan for all values: no value has a better one, and planning takes longer
	// than execution. The setting can apply to the whole connection, because other
	// queries inline their values and queries in triggers use keys.
	_, err = conn.Exec(ctx, set("plan_cache_mode", "force_generic_plan"))
	conn.PgConn().CustomData()[PreparableKey] = time.Now()
	return err
}

// describeURL names the database and its hosts for error messages.
func describeURL(text string) string {
	conf, err := pgx.ParseConfig(text)
	if err != nil {
		return "the database"
	}
	hosts := fmt.Sprintf("%s:%d", conf.Host, conf.Port)
	for _, f := range conf.Fallbacks {
		if other := fmt.Sprintf("%s:%d", f.Host, f.Port); !strings.Contains(hosts, other) {
			hosts += ", " + other
		}
	}
	return fmt.Sprintf("the database %q on %s", conf.Database, hosts)
}

// postgres is bun's dialect with times and JSON as in [sqliteDialect]. It replaces
// text that PostgreSQL cannot store, so that a NUL in external data does not fail a
// statement.
type postgres struct{ *pgdialect.Dialect }

// NewPostgres returns a bun database over a pool from [OpenPool].
func NewPostgres(pool *sql.DB, options ...bun.DBOption) *bun.DB {
	return bun.NewDB(pool, postgres{pgdialect.New()}, options...)
}

// AppendString implements schema.Dialect.
func (d postgres) AppendString(b []byte, s string) []byte {
	return d.Dialect.AppendString(b, SanitizeText(s))
}

// AppendTime implements schema.Dialect.
func (postgres) AppendTime(b []byte, t time.Time) []byte { return appendTime(b, t) }

// AppendJSON implements schema.Dialect.
func (d postgres) AppendJSON(b, text []byte) []byte { return d.AppendString(b, string(text)) }

// openWriter opens the only writing connection, to a file that only the current user
// can read. With synchronous=FULL a commit that
// returned survives a power loss. The log is normally 48 MB; when a long read made
// it grow, it is truncated to 64 MB.
func openWriter(path string) (*bun.DB, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, err
	}
	return Connect(path, 1, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)", "cache_size(-32768)", fmt.Sprintf("wal_autocheckpoint(%d)", WALPages), "journal_size_limit(67108864)"},
	})
}

// openReaders opens read-only connections.
func openReaders(path string, n int) (*bun.DB, error) {
	return Connect(path, max(n, runtime.GOMAXPROCS(0)), url.Values{
		"_pragma": {"busy_timeout(10000)", "query_only(1)", "temp_store(MEMORY)", "cache_size(-16384)"},
	})
}

// openReadOnly opens a file for reading without creating other files. If there is no
// write-ahead log, nobody writes to the file and it is opened as immutable, because
// SQLite would otherwise create a log.
func openReadOnly(path string) (*bun.DB, error) {
	options := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)", "query_only(1)"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, os.ErrNotExist) {
		options.Set("immutable", "1")
	}
	return Connect(path, 1, options)
}

// Connect opens n connections to a SQLite file.
func Connect(path string, n int, options url.Values) (*bun.DB, error) {
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}
	pool, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	return bun.NewDB(pool, sqliteDialect{sqlitedialect.New()}), nil
}

// sqliteDialect is bun's dialect with times and JSON in the format that both databases
// share.
type sqliteDialect struct{ *sqlitedialect.Dialect }

// AppendTime implements schema.Dialect.
func (sqliteDialect) AppendTime(b []byte, t time.Time) []byte { return appendTime(b, t) }

// AppendJSON implements schema.Dialect.
func (d sqliteDialect) AppendJSON(b, text []byte) []byte { return d.AppendString(b, string(text)) }
