package dbtest

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
)

// NewPostgres starts a PostgreSQL of the test's own, to be stopped and killed;
// it costs about a second. Its URL names an empty database. Tests that need no
// more than a database use [Postgres].
func NewPostgres(t testing.TB) *Server {
	t.Helper()
	m, err := postgres(nil)
	return startForTest(t, m, err)
}

// StartPostgres starts a PostgreSQL without a test, with such further settings
// as "shared_buffers=1GB". Close it.
func StartPostgres(settings ...string) (*Server, error) {
	return StartPostgresAt(dataFolder(), settings...)
}

// StartPostgresAt is StartPostgres with the data in a new folder within dir.
// On a disk and with "fsync=on" its commits are durable.
func StartPostgresAt(dir string, settings ...string) (*Server, error) {
	m, err := postgres(settings)
	if err != nil {
		return nil, err
	}
	return m.start(dir)
}

// postgres returns the maker. Commits reach the kernel before they are
// acknowledged, so that killing the server loses none even without fsync.
func postgres(settings []string) (serverKind, error) {
	const name = "postgresql"
	bin, err := findProgram(name, "/usr/lib/postgresql/*/bin", "postgres")
	if err != nil {
		return serverKind{name: name}, err
	}
	// What stands in PATH may be a link; initdb stands beside the program.
	if bin, err = filepath.EvalSymlinks(bin); err != nil {
		return serverKind{name: name}, err
	}
	initdb := filepath.Join(filepath.Dir(bin), "initdb")
	m := serverKind{
		name: name, stop: "INT", end: "QUIT",
		prepare: func(dir string) []string {
			// A server that starts again has its data.
			return []string{
				"sh", "-c", `test -e "$1/data/PG_VERSION" || exec "$2" --pgdata "$1/data" --no-sync --auth trust --username postgres --encoding UTF8 --locale C`,
				"sh", dir, initdb,
			}
		},
		command: func(dir string, port int) []string {
			command := []string{bin, "-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port)}
			for _, s := range append([]string{
				"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=400",
				"fsync=off", "full_page_writes=off", "dynamic_shared_memory_type=mmap", "log_checkpoints=off",
			}, settings...) {
				command = append(command, "-c", s)
			}
			return command
		},
		url:   func(port int) string { return databaseURL(port, "postgres") },
		ready: postgresReady,
	}
	return m, m.unprivileged("postgres")
}

func databaseURL(port int, name string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", port, name)
}

func postgresReady(ctx context.Context, port int) error {
	return executeSQL(ctx, port, "SELECT 1")
}

// executeSQL runs one statement on a connection of its own.
func executeSQL(ctx context.Context, port int, statement string) error {
	conn, err := pgx.Connect(ctx, databaseURL(port, "postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	return err
}
