package dbtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) {
	if os.Getenv("DBTEST_VICTIM") != "" {
		victim()
	}
	os.Exit(Main(m))
}

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	a, b := Postgres(t), Postgres(t)
	if a == b {
		t.Fatalf("both are %s", a)
	}
	run(t, a, "CREATE TABLE t (n int)")
	if err := try(t, b, "SELECT * FROM t"); err == nil {
		t.Error("b has a's table")
	}
}

func TestADatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("inner", func(t *testing.T) { url = Postgres(t) })
	if url == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("the inner test has no database; .ci/prepare installs PostgreSQL")
		}
		t.Skip("the inner test has no database")
	}
	if err := try(t, url, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	prepared := 0
	prepare := func(url string) error {
		prepared++
		return try(t, url, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
	}
	name := fmt.Sprint("sevens ", rand.Uint64()) // also under -count
	for range 3 {
		url := PostgresFrom(t, name, prepare)
		if got := ask(t, url, "SELECT sum(n) FROM t"); got != 7 {
			t.Errorf("the sum is %d", got)
		}
		run(t, url, "INSERT INTO t VALUES (1)")
	}
	if prepared != 1 {
		t.Errorf("prepared %d times", prepared)
	}
}

func TestPostgresKeepsItsData(t *testing.T) {
	t.Parallel()
	s := NewPostgres(t)
	run(t, s.URL, "CREATE TABLE t (n int)")
	for i, end := range []func(){s.Stop, s.Kill} {
		run(t, s.URL, "INSERT INTO t VALUES (1)")
		end()
		if err := try(t, s.URL, "SELECT 1"); err == nil {
			t.Fatal("it still answers")
		}
		s.Start()
		if got := ask(t, s.URL, "SELECT count(*) FROM t"); got != i+1 {
			t.Errorf("%d rows, want %d", got, i+1)
		}
	}
	if n := ask(t, s.URL, "SELECT setting::int FROM pg_settings WHERE name = 'max_connections'"); n < 300 {
		t.Errorf("%d connections", n)
	}
}

func TestKillTakesTheWholeServer(t *testing.T) {
	t.Parallel()
	s := NewPostgres(t)
	// A backend that is busy does not notice by itself that the others are gone.
	busy, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	pids := append(children(s.run.server), s.run.server)
	if len(pids) < 3 {
		t.Fatalf("only the processes %v", pids)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = busy.Exec(t.Context(), "SET statement_timeout = '2min'; DO $$ BEGIN LOOP END LOOP; END $$")
	})
	eventually(t, "nobody is busy", func() bool {
		return ask(t, s.URL, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%LOOP%' AND pid <> pg_backend_pid()") > 0
	})
	s.Kill()
	wg.Wait()
	for _, pid := range pids {
		gone(t, pid)
	}
}

func TestValkey(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *Server{"valkey": NewValkey, "redis": NewRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			url := s.URL
			for _, end := range []func(){s.Stop, s.Kill} {
				if got := say(t, s, "SET a 1"); got != "+OK" {
					t.Errorf("got %q", got)
				}
				end()
				if err := s.kind.ready(t.Context(), s.port); err == nil {
					t.Error("it still answers")
				}
				s.Start()
			}
			if s.URL != url || !strings.HasPrefix(url, "valkey://127.0.0.1:") {
				t.Errorf("the URL is %s, was %s", s.URL, url)
			}
		})
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := NewValkey(t)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := s.kind.ready(ctx, s.port); err == nil {
		t.Error("it answers in its pause")
	}
	s.Resume()
	if err := s.kind.ready(t.Context(), s.port); err != nil {
		t.Errorf("after its pause: %v", err)
	}
	s.Pause()
	s.Stop()
	s.Start()
	s.Pause() // Close must end it all the same
}

func TestAPausedPostgresEnds(t *testing.T) {
	t.Parallel()
	var pids []int
	t.Run("inner", func(t *testing.T) {
		s := NewPostgres(t)
		pids = append(children(s.run.server), s.run.server)
		s.Pause()
	})
	for _, pid := range pids {
		gone(t, pid)
	}
}

// TestNothingOutlivesAKilledProcess starts this binary again, kills it, and
// looks for what it left.
func TestNothingOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	NewValkey(t) // skips where the programs are missing
	Postgres(t)
	for _, when := range []string{"ready", "starting", "hanging"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			parent := t.TempDir()
			open(t, parent)
			cmd.Env = append(os.Environ(), "DBTEST_VICTIM="+parent, "DBTEST_WHEN="+when)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var pids []int
			if when != "starting" {
				var a, b int
				if _, err := fmt.Fscan(bufio.NewReader(out), &a, &b); err != nil || !alive(a) || !alive(b) {
					t.Fatalf("processes %d and %d: %v", a, b, err)
				}
				pids = append(children(a), a, b)
			} else {
				eventually(t, "no data folder appears", func() bool { return len(left(t, parent)) > 0 })
			}
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for _, pid := range pids {
				gone(t, pid)
			}
			eventually(t, "data remains", func() bool { return len(left(t, parent)) == 0 })
		})
	}
}

// victim starts two servers, tells their processes and waits to be killed.
func victim() {
	parent := os.Getenv("DBTEST_VICTIM")
	p, err := StartPostgresAt(parent)
	if err != nil {
		panic(err)
	}
	m, err := valkey("valkey-server", "redis-server")
	if err != nil {
		panic(err)
	}
	v, err := m.start(parent)
	if err != nil {
		panic(err)
	}
	if os.Getenv("DBTEST_WHEN") == "hanging" {
		p.Pause()
		v.Pause()
	}
	fmt.Println(p.run.server, v.run.server)
	time.Sleep(time.Hour)
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	Postgres(t)
	_, err := StartPostgres("max_connections=many")
	if err == nil || !strings.Contains(err.Error(), "max_connections") {
		t.Errorf("got %v", err)
	}
	m, err := postgres(nil)
	if err != nil {
		t.Fatal(err)
	}
	m.prepare = func(string) []string { return []string{"sh", "-c", "echo no disk; false"} }
	if _, err := m.start(dataFolder()); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("got %v", err)
	}
}

func TestAMissingProgramSaysWhatToInstall(t *testing.T) {
	_, err := findProgram("sleepyserver", "/nowhere", "sleepyd", "sleepd")
	if err == nil || err.Error() != "sleepyd is missing; run: sudo apt-get install sleepyserver" {
		t.Fatalf("got %v", err)
	}
	for _, c := range []struct {
		ci      string
		err     error
		skipped bool
		failed  bool
	}{
		{"", nil, false, false},
		{"", err, true, false},
		{"true", err, false, true},
		{"", errors.New("other"), false, true},
	} {
		t.Setenv("CI", c.ci)
		r := &recorder{}
		requireProgram(r, c.err)
		if r.skipped != c.skipped || r.failed != c.failed {
			t.Errorf("CI=%q, %v: skipped %v, failed %v", c.ci, c.err, r.skipped, r.failed)
		}
	}
}

// recorder notes what a test would have done.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (*recorder) Helper()        {}
func (r *recorder) Skip(...any)  { r.skipped = true }
func (r *recorder) Fatal(...any) { r.failed = true }

func TestQuote(t *testing.T) {
	words := []string{"printf", "%s|", "a b", "it's", "$HOME", ""}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", shellQuote(words)).Output()
	if err != nil || string(out) != "a b|it's|$HOME||" {
		t.Errorf("got %q, %v", out, err)
	}
}

// open lets other users through the folders above a test's own.
func open(t *testing.T, dir string) {
	for dir != filepath.Clean(os.TempDir()) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		dir = filepath.Dir(dir)
	}
}

func left(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d remains", pid), func() bool { return !alive(pid) })
}

func eventually(t *testing.T, otherwise string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(startTimeout); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

func try(t *testing.T, url, statement string) error {
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), statement)
	return err
}

func run(t *testing.T, url, statement string) {
	t.Helper()
	if err := try(t, url, statement); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, url, question string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), question).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func say(t *testing.T, s *Server, command string) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, command+"\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
