package dbtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// missingProgramError reports a program that is not installed.
type missingProgramError struct{ program, install string }

func (m missingProgramError) Error() string {
	return fmt.Sprintf("%s is missing; run: sudo apt-get install %s", m.program, m.install)
}

// requireProgram skips the test if a program is missing. With CI set, it fails
// the test, because a skip would go unnoticed.
func requireProgram(t testing.TB, err error) {
	t.Helper()
	var m missingProgramError
	switch {
	case err == nil:
	case errors.As(err, &m) && os.Getenv("CI") == "":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// findProgram finds one of names in PATH, or in the last folder that matches
// elsewhere, which for PostgreSQL is the newest.
func findProgram(install, elsewhere string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		found, _ := filepath.Glob(filepath.Join(elsewhere, name))
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", missingProgramError{names[0], install}
}

// dataFolder returns the folder for data: a memory disk if there is one.
func dataFolder() string {
	const disk = "/dev/shm"
	if probe, err := os.MkdirTemp(disk, "sallyport-probe-"); err == nil {
		_ = os.Remove(probe)
		return disk
	}
	return os.TempDir()
}

// freePort returns a port below those that the kernel gives to outgoing
// connections, so that nobody takes it while its server is down.
func freePort() (int, error) {
	for range 100 {
		port := 12000 + rand.IntN(20000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // it does not wait
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port was found between 12000 and 32000")
}
