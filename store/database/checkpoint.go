package database

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

// The pages of SQLite's journal, 4 KiB each.
const (
	// CheckpointAfter is how many wait before they are copied: a page that many commits
	// change is then copied once.
	CheckpointAfter = 4000
	// WALPages is how long the journal is when the writer copies what is left
	// of it within a commit. Only then can SQLite begin the journal anew while
	// commits follow one another without a pause.
	WALPages = 12000
	// maxUncheckpointed is how many are left to the writer at most, if the copier comes in time.
	maxUncheckpointed = 400

	checkpointInterval = 20 * time.Millisecond
	checkpointRetry    = 5 * time.Second // after it could not be copied
)

// Checkpointer copies the journal into SQLite's database beside the commits, on a
// connection of its own. What a commit would have to copy others wait for.
type Checkpointer struct {
	DB          *bun.DB
	log         *slog.Logger
	wake        chan struct{}
	cancel      context.CancelFunc // of the goroutine
	running     sync.WaitGroup
	Checkpoints int // for tests, once it is over
}

// startCheckpointer opens the copier of the database at path.
func startCheckpointer(path string, log *slog.Logger) (*Checkpointer, error) {
	db, err := openCheckpointer(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Checkpointer{DB: db, log: log, wake: make(chan struct{}, 1), cancel: cancel}
	c.running.Go(func() { c.run(ctx) })
	return c, nil
}

// committed tells that the journal may have grown.
func (c *Checkpointer) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close ends a copy at its next statement. Nil is fine.
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
			if !failed { // each time would fill a disk that is full
				c.log.Warn("the journal is not copied beside the commits; they do it", "error", err)
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

// look copies what is due.
func (c *Checkpointer) checkpointIfDue() error {
	length, pending, err := c.Checkpoint("NOOP")
	if err != nil || pending < CheckpointAfter && (length < WALPages-CheckpointAfter/4 || pending < maxUncheckpointed) {
		return err
	}
	c.Checkpoints++
	_, _, err = c.Checkpoint("PASSIVE")
	return err
}

// Checkpoint returns how many pages the journal has, and how many of them are not
// copied. PASSIVE copies those that no reader needs where they are, and waits for
// nobody; NOOP only tells.
func (c *Checkpointer) Checkpoint(mode string) (length, pending int, err error) {
	var busy, copied int
	err = c.DB.DB.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &length, &copied)
	return length, length - copied, err
}
