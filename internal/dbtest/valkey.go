package dbtest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"
)

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
