package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// serverLimit is how long the server lets one statement run, and a transaction
// wait for the next one: a gateway that vanished must not hold its locks.
const serverLimit = 15 * time.Second

// openPool opens the connections to PostgreSQL; none is made yet. Nothing rests
// on the state of a connection, but for what is prepared on one that leads to
// the server itself.
func openPool(c Config) (*sql.DB, error) {
	conf, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	pool := stdlib.OpenDB(*conf, stdlib.OptionAfterConnect(greet))
	pool.SetMaxOpenConns(c.MaxConns)
	pool.SetMaxIdleConns(c.MaxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	pool.SetConnMaxLifetime(time.Hour)
	return pool, nil
}

func parseURL(text string) (*pgx.ConnConfig, error) {
	conf, err := pgx.ParseConfig(text)
	if err != nil || !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return nil, unreadable(err)
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
func unreadable(err error) error {
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
func greet(ctx context.Context, conn *pgx.Conn) error {
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
	ms := fmt.Sprint(serverLimit.Milliseconds())
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
	conn.PgConn().CustomData()[preparesKey] = time.Now()
	return err
}

// place names the database in errors.
func place(text string) string {
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

func newPostgres(pool *sql.DB, options ...bun.DBOption) *bun.DB {
	return bun.NewDB(pool, postgres{pgdialect.New()}, options...)
}

// AppendString implements schema.Dialect.
func (d postgres) AppendString(b []byte, s string) []byte {
	return d.Dialect.AppendString(b, storable(s))
}

// AppendTime implements schema.Dialect.
func (postgres) AppendTime(b []byte, t time.Time) []byte { return appendTime(b, t) }

// AppendJSON implements schema.Dialect.
func (d postgres) AppendJSON(b, text []byte) []byte { return d.AppendString(b, string(text)) }
