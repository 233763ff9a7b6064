package dbtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// startTimeout limits the wait for a server to start.
const startTimeout = 60 * time.Second

// Server is a server for one test. Its methods fail that test, or panic without
// one. It is not safe for concurrent use.
type Server struct {
	URL string

	t    testing.TB // nil without a test
	kind serverKind
	dir  string
	port int
	run  *guard // nil while it is stopped
}

// serverKind describes a kind of server.
type serverKind struct {
	name      string
	uid, gid  int    // who runs it when we are root
	stop, end string // the signals for an orderly end, and for a quick one
	prepare   func(dir string) []string
	command   func(dir string, port int) []string
	url       func(port int) string
	ready     func(ctx context.Context, port int) error
}

// start starts a server and waits until it answers. If another process takes
// the port first, it tries another port.
func (m serverKind) start(parent string) (*Server, error) {
	s := &Server{kind: m, dir: filepath.Join(parent, fmt.Sprintf("sallyport-%s-%016x", m.name, rand.Uint64()))}
	var err error
	for range 3 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.start(); err == nil {
			s.URL = m.url(s.port)
			return s, nil
		}
	}
	_ = os.RemoveAll(s.dir)
	return nil, err
}

// unprivileged finds the user who runs a server when we are root, because
// PostgreSQL refuses to be root, and a server without a password should.
func (m *serverKind) unprivileged(name string) error {
	if os.Geteuid() != 0 {
		m.uid, m.gid = os.Geteuid(), os.Getegid()
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("%s does not run as root: %w", m.name, err)
	}
	m.uid, _ = strconv.Atoi(u.Uid)
	m.gid, _ = strconv.Atoi(u.Gid)
	return nil
}

// asUser makes a command run as the unprivileged user if we are root.
func (m serverKind) asUser(command []string) []string {
	if os.Geteuid() != 0 || len(command) == 0 {
		return command
	}
	ids := []string{"--reuid=" + strconv.Itoa(m.uid), "--regid=" + strconv.Itoa(m.gid), "--clear-groups", "--"}
	return slices.Concat([]string{"setpriv"}, ids, command)
}

func (s *Server) start() error {
	m := s.kind
	run, err := startGuard(s.dir, m.end, fmt.Sprintf("%d:%d", m.uid, m.gid), m.asUser(m.prepare(s.dir)), m.asUser(m.command(s.dir, s.port)))
	if err != nil {
		return fmt.Errorf("%s does not start: %w", s.kind.name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		if !alive(run.server) {
			err = errors.New("it ended")
		} else if err = s.kind.ready(ctx, s.port); err == nil {
			s.run = run
			return nil
		} else if ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		said := logTail(s.dir)
		run.stop("KILL keep")
		return fmt.Errorf("%s does not start: %w: %s", s.kind.name, err, said)
	}
}

// Start starts a stopped or killed server again, on the same port. PostgreSQL
// has its data again, Valkey is empty.
func (s *Server) Start() {
	s.helper()
	if s.run != nil {
		s.fail(fmt.Errorf("%s runs already", s.kind.name))
	}
	if err := s.start(); err != nil {
		s.fail(err)
	}
}

// Stop ends the server in good order, without waiting for its clients.
func (s *Server) Stop() {
	s.helper()
	s.Resume() // what stands still cannot end
	s.run.stop(s.kind.stop + " keep")
	s.run = nil
}

// Kill kills the whole server, as a crash would.
func (s *Server) Kill() {
	s.helper()
	s.signal(syscall.SIGKILL)
	s.run.stop("KILL keep")
	s.run = nil
	removeSharedMemory(s.dir)
}

// Pause makes the server hang: connections stay open, nothing is answered.
func (s *Server) Pause() {
	s.helper()
	s.signal(syscall.SIGSTOP)
}

// Resume ends a pause.
func (s *Server) Resume() {
	s.helper()
	s.signal(syscall.SIGCONT)
}

// Close ends the server and removes its data. Servers that were made for a
// test are closed with it. Close may be called twice.
func (s *Server) Close() {
	if s.run != nil {
		_ = signalAll(s.run.server, syscall.SIGCONT) // else it cannot end
		s.run.stop("")
		s.run = nil
	}
	_ = os.RemoveAll(s.dir)
}

func (s *Server) signal(which syscall.Signal) {
	s.helper()
	s.running()
	if err := signalAll(s.run.server, which); err != nil {
		s.fail(fmt.Errorf("%s cannot be signalled: %w", s.kind.name, err))
	}
}

func (s *Server) running() {
	s.helper()
	if s.run == nil {
		s.fail(fmt.Errorf("%s does not run", s.kind.name))
	}
}

func (s *Server) helper() {
	if s.t != nil {
		s.t.Helper()
	}
}

func (s *Server) fail(err error) {
	if s.t == nil {
		panic(err)
	}
	s.t.Helper()
	s.t.Fatal(err)
}

// startForTest starts a server for a test, or ends the test.
func startForTest(t testing.TB, m serverKind, err error) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no test that starts " + m.name)
	}
	requireProgram(t, err)
	s, err := m.start(dataFolder())
	if err != nil {
		t.Fatal(err)
	}
	s.t = t
	t.Cleanup(s.Close)
	return s
}
