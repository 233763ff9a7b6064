package dbtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// processStatus returns a process's state and parent; ok is false if it does
// not exist.
func processStatus(pid int) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	// The name before may hold anything, parentheses too.
	rest := text[bytes.LastIndexByte(text, ')')+1:]
	if _, err := fmt.Sscanf(string(rest), " %c %d", &state, &parent); err != nil {
		return 0, 0, false
	}
	return state, parent, true
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	state, _, ok := processStatus(pid)
	return ok && state != 'Z'
}

// children returns the processes that pid started.
func children(pid int) []int {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, f := range folders {
		child, _ := strconv.Atoi(filepath.Base(f))
		if _, parent, ok := processStatus(child); ok && parent == pid {
			found = append(found, child)
		}
	}
	return found
}

// signalAll signals a server and its children. The server stands still
// meanwhile, so that it can neither start another child nor mourn one. Of those
// that are killed none is left when it returns: one would keep the shared memory
// that another start finds in use.
func signalAll(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	waitBriefly(func() bool { state, _, ok := processStatus(pid); return !ok || state == 'T' }) // it may be starting a child
	all := children(pid)
	for _, child := range all {
		_ = syscall.Kill(child, s) // it may have ended by itself
	}
	err := syscall.Kill(pid, s)
	if s == syscall.SIGKILL {
		waitBriefly(func() bool { return !slices.ContainsFunc(all, alive) })
	}
	return err
}

// waitBriefly polls for what the kernel does within moments.
func waitBriefly(done func() bool) {
	for end := time.Now().Add(5 * time.Second); !done() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// removeSharedMemory removes the shared memory that a killed PostgreSQL in dir
// leaves in the kernel.
func removeSharedMemory(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return // another kind of server
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(lines) < 7 {
		return
	}
	if words := bytes.Fields(lines[6]); len(words) == 2 { // key and id
		_ = exec.Command("ipcrm", "-m", string(words[1])).Run() //nolint:noctx // it does not wait; without it 56 bytes stay
	}
}

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
