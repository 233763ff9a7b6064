package page_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait for something that must happen. It is long
// because it is only used up by a failure, or by a very slow machine.
const patience = 3 * time.Minute

// scratch is a folder for the whole run, artifacts the one for pictures.
var scratch, artifacts string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run runs the stories and ends what they shared: one browser, one gateway.
func run(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "page-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	// Chromium leaves files in the temporary folder when it is killed. It has a
	// socket there, too, whose path must be shorter than 108 bytes.
	if err := os.Setenv("TMPDIR", scratch); err != nil {
		return 1, err
	}
	if artifacts, err = filepath.Abs("../../artifacts"); err != nil {
		return 1, err
	}
	if set := os.Getenv("SALLYPORT_ARTIFACTS"); set != "" {
		artifacts = set
	}
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		return 1, err
	}
	old, _ := filepath.Glob(filepath.Join(artifacts, "failed-*.png")) // the pattern is good
	for _, f := range old {
		_ = os.Remove(f) // a picture of another run tells nothing of this one
	}
	code = m.Run()
	chromium.close()
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
