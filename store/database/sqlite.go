package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/uptrace/bun"
)

// fileLock is held while the database is open, because a second process on the
// same file would also assume that it is the only executor.
type fileLock struct{ file *os.File }

// lockFile locks path + ".lock"; its error names the process that holds the lock.
// The kernel releases the lock when the process ends for any reason.
func lockFile(path string) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
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
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintln(f, os.Getpid()) // for the error message of a second process
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lock of the database: %w", err), f.Close())
	}
	return &fileLock{f}, nil
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

// Thresholds in pages of SQLite's write-ahead log, 4 KiB each.
const (
	// CheckpointAfter is the number of pending pages that starts a checkpoint. It is
	// large so that a page changed by many commits is copied only once.
	CheckpointAfter = 4000
	// WALPages is the length of the log at which the writer checkpoints within a
	// commit. Under constant load this is the only point where SQLite can restart
	// the log.
	WALPages = 12000
	// maxUncheckpointed bounds the pages left to the writer's own checkpoint.
	maxUncheckpointed = 400

	checkpointInterval = 20 * time.Millisecond
	checkpointRetry    = 5 * time.Second // after a failure
)

// Checkpointer copies the write-ahead log into the database file on its own
// connection, concurrently with commits. A checkpoint within a commit would block
// all other writes.
type Checkpointer struct {
	DB          *bun.DB
	log         *slog.Logger
	wake        chan struct{}
	cancel      context.CancelFunc // of the goroutine
	running     sync.WaitGroup
	Checkpoints int // for tests, after close
}

// startCheckpointer starts the checkpointer of the database at path.
func startCheckpointer(path string, log *slog.Logger) (*Checkpointer, error) {
	// With synchronous=FULL the log is synced before its pages are copied, and the
	// copies before the log restarts.
	db, err := Connect(path, 1, url.Values{"_pragma": {"busy_timeout(10000)", "synchronous(FULL)", "cache_size(-64)"}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Checkpointer{DB: db, log: log, wake: make(chan struct{}, 1), cancel: cancel}
	c.running.Go(func() { c.run(ctx) })
	return c, nil
}

// notify signals that the log may have grown.
func (c *Checkpointer) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close stops the checkpointer after its current statement. The receiver may be nil.
func (c *Checkpointer) close() error {
	if c == nil {
		return nil
	}
	c.cancel()
	c.running.Wait()
	return c.DB.Close()
}

func (c *Checkpointer) run(ctx context.Context) {
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		wait := checkpointInterval
		err := c.checkpointIfDue()
		if err != nil {
			wait = checkpointRetry
			if !failed { // log only the first of several failures
				c.log.Warn("could not checkpoint the write-ahead log in the background; commits do it", "error", err)
			}
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// checkpointIfDue runs a checkpoint if enough pages are pending.
func (c *Checkpointer) checkpointIfDue() error {
	length, pending, err := c.Checkpoint("NOOP")
	if err != nil || pending < CheckpointAfter && (length < WALPages-CheckpointAfter/4 || pending < maxUncheckpointed) {
		return err
	}
	c.Checkpoints++
	_, _, err = c.Checkpoint("PASSIVE")
	return err
}

// Checkpoint runs a checkpoint and returns the number of pages in the log and of
// those not copied yet. PASSIVE copies the pages that no reader blocks, without
// waiting; NOOP only reports.
func (c *Checkpointer) Checkpoint(mode string) (length, pending int, err error) {
	var busy, copied int
	err = c.DB.DB.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &length, &copied)
	return length, length - copied, err
}
