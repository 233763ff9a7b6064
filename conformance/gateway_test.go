package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"sallyport/internal/dbtest"
)

// scratch is a folder for the whole run.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sallyport-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := dbtest.Main(m)
	os.RemoveAll(dir)
	os.Exit(code)
}

// binary is the command that SALLYPORT_BINARY names, or one that is built once,
// with the race detector, for all tests.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("SALLYPORT_BINARY"); path != "" {
		_, err := os.Stat(path) // also so that go test forgets a result once the command has changed
		return path, err
	}
	path := filepath.Join(scratch, "sallyport")
	build := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", path, "../cmd/sallyport")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
})

// patience bounds every wait for something that must happen. It is long
// because it is only used up by a failure, or by a very slow machine.
const patience = 60 * time.Second

// gateway is a sallyport process.
type gateway struct {
	t    *testing.T
	path string   // of the program
	part string   // serve, or a part of it
	env  []string // beside the test's own
	data string
	log  string
	args []string
	addr string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	*api
	Endpoint
}

// Endpoint is what serve tells of itself once it is ready.
type Endpoint struct {
	URL    string `json:"url"`
	MCPURL string `json:"mcp_url"`
	APIKey string `json:"api_key"`
	PID    int    `json:"pid"`
}

// startGateway serves from an empty folder, as an administrator's own, without
// a limit on the rate of calls unless args set one.
func startGateway(t *testing.T, args ...string) *gateway {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the gateway as a process")
	}
	g := newGateway(t, "serve", args...)
	g.start()
	t.Cleanup(g.finish)
	return g
}

// newGateway prepares a process with a data folder of its own.
func newGateway(t *testing.T, part string, args ...string) *gateway {
	t.Helper()
	return newGatewayOf(t, binary, part, args...)
}

// newGatewayOf is newGateway with another program.
func newGatewayOf(t *testing.T, program func() (string, error), part string, args ...string) *gateway {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &gateway{
		t: t, path: path, part: part, data: filepath.Join(dir, "data"), log: filepath.Join(dir, "log"),
		args: append([]string{"--local-admin", "--rate-limit", "0"}, args...), addr: "127.0.0.1:0",
	}
}

// start starts the process and waits until it is ready.
func (g *gateway) start() {
	g.t.Helper()
	g.spawn()
	g.serves()
}

// spawn starts the process.
func (g *gateway) spawn() {
	g.t.Helper()
	log, err := os.OpenFile(g.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.t.Fatal(err)
	}
	defer log.Close()
	g.cmd = exec.CommandContext(context.Background(), g.path, append([]string{g.part, "--listen", g.addr, "--data", g.data}, g.args...)...)
	g.cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), g.env...) // else each end takes a second
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	done := make(chan struct{})
	g.done = done
	go func() { defer close(done); _ = g.cmd.Wait() }()
}

// serves waits until the process is ready.
func (g *gateway) serves() {
	g.t.Helper()
	g.await("the gateway to be ready", func() bool {
		if g.ended() {
			g.t.Fatalf("the gateway ended at its start:\n%s", g.logged())
		}
		raw, err := os.ReadFile(filepath.Join(g.data, "endpoint.json"))
		return err == nil && json.Unmarshal(raw, &g.Endpoint) == nil && g.PID == g.cmd.Process.Pid
	})
	at, err := url.Parse(g.URL)
	if err != nil {
		g.t.Fatal(err)
	}
	g.addr = at.Host // a restarted gateway is found where it was
	if g.api == nil {
		g.api = newAPI(g.t, g.URL)
	}
	g.key = g.APIKey
}

// kill ends the process as a power cut would.
func (g *gateway) kill() {
	g.t.Helper()
	g.signal(syscall.SIGKILL)
	<-g.done
}

// pause makes the process stand still, as a machine that swaps or a laptop
// that sleeps; resume ends that.
func (g *gateway) pause() {
	g.t.Helper()
	g.signal(syscall.SIGSTOP)
	g.await("every thread to stand still", g.still) // one of them has to take the signal first
}

// still reports whether all threads of the process are stopped.
func (g *gateway) still() bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", g.cmd.Process.Pid))
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		if _, after, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(after, []byte("T")) {
			return false
		}
	}
	return len(stats) > 0
}

func (g *gateway) resume() { g.t.Helper(); g.signal(syscall.SIGCONT) }

func (g *gateway) signal(which syscall.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(which); err != nil && !errors.Is(err, os.ErrProcessDone) {
		g.t.Fatal(err)
	}
}

// ended tells whether the process has.
func (g *gateway) ended() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// ask asks the process to end.
func (g *gateway) ask() { g.t.Helper(); g.signal(syscall.SIGTERM) }

// stop asks the process to end, and waits until it has.
func (g *gateway) stop() {
	g.t.Helper()
	g.ask()
	select {
	case <-g.done:
	case <-time.After(patience):
		g.kill()
		g.t.Errorf("the gateway did not end within %v of being asked to", patience)
	}
}

// finish ends the process and looks at what it wrote.
func (g *gateway) finish() {
	if g.cmd == nil {
		return // it was never started
	}
	if !g.ended() {
		g.stop()
	}
	log := g.logged()
	for _, sign := range []string{"DATA RACE", "panic:", "panicked", "http: panic"} {
		if bytes.Contains(log, []byte(sign)) {
			g.t.Errorf("the gateway's log has %q", sign)
		}
	}
	if g.t.Failed() {
		g.t.Logf("the gateway's log:\n%s", log)
	}
}

func (g *gateway) logged() []byte {
	raw, err := os.ReadFile(g.log)
	if err != nil {
		g.t.Error(err)
	}
	return raw
}

// await waits until f says yes.
func (g *gateway) await(what string, f func() bool) {
	g.t.Helper()
	await(g.t, what, f)
}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}
