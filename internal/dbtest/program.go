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

// missingProgramError is the error of a program that is not installed.
type missingProgramError struct{ program, install string }

func (m missingProgramError) Error() string {
	return fmt.Sprintf("%s is missing; run: sudo apt-get install %s", m.program, m.install)
}

// requireProgram ends the test when a program is missing: where the variable CI is set as a
// failure, because there a skip goes unnoticed.
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

// findProgram finds one of names in PATH or in one of the folders that match
// elsewhere; in the last that has it, which of PostgreSQL's is the newest.
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

// dataFolder is the folder for data: the memory disk where there is one.
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
