package database

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// fileLock is held while the database is open, because a second process on the
// same file would also assume that it is the only executor.
type fileLock struct{ file *os.File }

// lockFile locks path + ".lock"; its error names the process that holds the lock.
// The kernel releases the lock when the process ends for any reason.
func lockFile(path string) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the database: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("the database %s is in use by %s; stop that one first, or use another data folder", path, lockHolder(f))
		}
		return nil, fmt.Errorf("locking the database: %w", err)
	}
	if err := writePID(f); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lock of the database: %w", err), f.Close())
	}
	return &fileLock{f}, nil
}

// writePID records the process ID for the error message of a second process.
func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(fmt.Sprintf("%d\n", os.Getpid())), 0)
	return err
}

func lockHolder(f *os.File) string {
	pid, err := io.ReadAll(io.LimitReader(f, 32))
	if id := strings.TrimSpace(string(pid)); err == nil && id != "" {
		return "process " + id
	}
	return "another process"
}

func (l *fileLock) release() error {
	if l == nil || l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close() // which unlocks it
}
