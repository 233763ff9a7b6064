package dbtest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

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

// Valkey returns the URL of an empty Valkey of the test's own: starting one is
// a matter of milliseconds, and channels and scripts of a shared one would
// reach across its databases.
func Valkey(t testing.TB) string {
	t.Helper()
	return NewValkey(t).URL
}

// NewValkey starts a Valkey of the test's own, to be stopped and killed: a
// redis-server where there is no valkey-server.
func NewValkey(t testing.TB) *Server {
	t.Helper()
	m, err := valkey("valkey-server", "redis-server")
	return startForTest(t, m, err)
}

// NewRedis starts a redis-server even where there is a valkey-server.
func NewRedis(t testing.TB) *Server {
	t.Helper()
	m, err := valkey("redis-server")
	return startForTest(t, m, err)
}

// StartValkey starts a Valkey without a test. Close it.
func StartValkey() (*Server, error) {
	m, err := valkey("valkey-server", "redis-server")
	if err != nil {
		return nil, err
	}
	return m.start(dataFolder())
}

// valkey returns the maker of the first of these programs that there is.
func valkey(names ...string) (serverKind, error) {
	bin, err := findProgram(names[0], "/usr/local/bin", names...)
	if err != nil {
		return serverKind{name: names[0]}, err
	}
	m := serverKind{
		name: names[0], stop: "TERM", end: "KILL",
		prepare: func(string) []string { return nil },
		command: func(dir string, port int) []string {
			return []string{
				bin, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
				"--save", "", "--appendonly", "no", "--daemonize", "no",
			}
		},
		url:   func(port int) string { return fmt.Sprintf("valkey://127.0.0.1:%d/0", port) },
		ready: valkeyReady,
	}
	return m, m.unprivileged("nobody")
}

// valkeyReady asks without a client library: the tests of the one that we use
// shall not depend on it.
func valkeyReady(ctx context.Context, port int) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // a socket that is closed already says so below
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = fmt.Errorf("it answered %q", line)
	}
	return err
}
