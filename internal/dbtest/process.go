package dbtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
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
