package opencode_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait for something that must happen. It is long
// because it is only used up by a failure, or by a very slow machine.
const patience = 2 * time.Minute

// scratch is a folder for the whole run.
var scratch string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run runs the stories and ends the gateway that they shared.
func run(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "sallyport-opencode-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	// OpenCode leaves files in the temporary folder when it is killed.
	if err := os.Setenv("TMPDIR", scratch); err != nil {
		return 1, err
	}
	flag.Parse()
	// One story holds a call for longer than the others take together.
	if err := flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+1)); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, shared.close()
}

// binary builds the command once, with the race detector, for all stories.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("SALLYPORT_BINARY"); path != "" {
		_, err := os.Stat(path) // also so that go test forgets a result once the command has changed
		return path, err
	}
	path := filepath.Join(scratch, "sallyport")
	build := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", path, "../../cmd/sallyport")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
})

// program is the pinned OpenCode.
func program(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../node_modules/opencode-linux-x64-baseline/bin/opencode")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		missing(t, "OpenCode is not installed; run make prepare: %v", err)
	}
	return path
}

// await waits until f says yes.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

// missing skips a story that lacks a program, but never on a build machine.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
