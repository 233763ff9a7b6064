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

// Models and queries are the same on both databases, but for a few that ask
// [Shared]. What is not is here, in sqlite.go and postgres.go (connections), in
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

// Migrations are those of the dialect.
func Migrations(shared bool) (fs.FS, error) {
	if shared {
		return fs.Sub(migrationFiles, "migrations/postgres")
	}
	return fs.Sub(migrationFiles, "migrations/sqlite")
}

// Shared reports whether others may write to the same rows at the same time.
func Shared(db bun.IDB) bool { return db.Dialect().Name() == dialect.PG }

// IsUniqueViolation reports whether err is of a unique key that another row has. On SQLite
// a trigger may say so first: see audit_seals_replaced.
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

// poisons reports whether err may have ended the whole transaction and not
// only its statement: then nothing more may be done in it.
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

// statementTimeout is how long the server lets one statement run, and a transaction
// wait for the next one: a gateway that vanished must not hold its locks.
const statementTimeout = 15 * time.Second

// OpenPool opens the connections to PostgreSQL; none is made yet. Nothing rests
// on the state of a connection, but for what is prepared on one that leads to
// the server itself.
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
	// Those that a pooler knows, too. Text is escaped and times are read as
	// these say, whatever the server's own defaults.
	for name, value := range map[string]string{"standard_conforming_strings": "on", "client_encoding": "UTF8", "datestyle": "ISO, MDY"} {
		conf.RuntimeParams[name] = value
	}
	if conf.RuntimeParams["application_name"] == "" {
		conf.RuntimeParams["application_name"] = "sallyport"
	}
	return conf, nil
}

// unreadable tells what is wrong with a URL and not the URL: it may hold a
// password.
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

// greet sets the limits of a new connection, and notes whether statements may
// be prepared on it. Behind a pooler the limits may reach another client's
// connection instead; nothing but they themselves rests on that.
func initConnection(ctx context.Context, conn *pgx.Conn) error {
	set := func(name, value string) string {
		if conn.Config().RuntimeParams[name] != "" {
			return "" // the URL says it
		}
		return fmt.Sprintf("SET %s = %s;", name, value)
	}
	// Times are read in UTC, whatever the zone of the server or of this process.
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	ms := fmt.Sprint(statementTimeout.Milliseconds())
	text := set("statement_timeout", ms) + set("idle_in_transaction_session_timeout", ms) + "SELECT pg_backend_pid()"
	results, err := conn.PgConn().Exec(ctx, text).ReadAll()
	if err != nil {
		return err
	}
	// A pooler gives its clients numbers of its own, and hands each transaction
	// to some process of the server, which knows nothing of what was prepared.
	if pid := results[len(results)-1].Rows[0][0]; string(pid) != fmt.Sprint(conn.PgConn().PID()) {
		return nil
	}
	// One plan for all values: these statements have no better one for some, and
	// making one takes longer than they do. It is so for all of the connection: what
	// else is sent has its values in its text, and what triggers ask goes by keys.
	_, err = conn.Exec(ctx, set("plan_cache_mode", "force_generic_plan"))
	conn.PgConn().CustomData()[PreparableKey] = time.Now()
	return err
}

// place names the database in errors.
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

// postgres is bun's dialect, but for times and JSON, as in [sqliteDialect], and for text
// that PostgreSQL cannot hold: a NUL from outside is shown as a replacement
// character and fails no statement.
type postgres struct{ *pgdialect.Dialect }

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

// openWriter opens the only connection that writes. FULL: a commit that
// returned survives a loss of power. The journal, of 48 MB, is cut to 64 after a
// reader let it grow.
func openWriter(path string) (*bun.DB, error) {
	if err := ensurePrivate(path); err != nil {
		return nil, err
	}
	return Connect(path, 1, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)", "cache_size(-32768)", fmt.Sprintf("wal_autocheckpoint(%d)", WALPages), "journal_size_limit(67108864)"},
	})
}

// openCheckpointer opens the connection of a [Copier]. FULL: the journal is on the disk
// before what is copied from it, and that before the journal begins anew.
func openCheckpointer(path string) (*bun.DB, error) {
	return Connect(path, 1, url.Values{"_pragma": {"busy_timeout(10000)", "synchronous(FULL)", "cache_size(-64)"}})
}

// openReaders opens connections that cannot write, whatever is asked of them.
func openReaders(path string, n int) (*bun.DB, error) {
	return Connect(path, max(n, runtime.GOMAXPROCS(0)), url.Values{
		"_pragma": {"busy_timeout(10000)", "query_only(1)", "temp_store(MEMORY)", "cache_size(-16384)"},
	})
}

// openReadOnly opens a file to look at it, and leaves nothing behind. Where no
// journal lies beside it nobody writes to it, and SQLite is told so: otherwise
// it would make one.
func openReadOnly(path string) (*bun.DB, error) {
	options := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)", "query_only(1)"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, os.ErrNotExist) {
		options.Set("immutable", "1")
	}
	return Connect(path, 1, options)
}

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

// sqliteDialect is bun's dialect, but for times and for JSON, which are the same texts
// on both databases.
type sqliteDialect struct{ *sqlitedialect.Dialect }

// AppendTime implements schema.Dialect.
func (sqliteDialect) AppendTime(b []byte, t time.Time) []byte { return appendTime(b, t) }

// AppendJSON implements schema.Dialect.
func (d sqliteDialect) AppendJSON(b, text []byte) []byte { return d.AppendString(b, string(text)) }

// private makes sure that only this user may read the file at path.
func ensurePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}
