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
	// CopyAfter is how many wait before they are copied: a page that many commits
	// change is then copied once.
	CopyAfter = 4000
	// JournalPages is how long the journal is when the writer copies what is left
	// of it within a commit. Only then can SQLite begin the journal anew while
	// commits follow one another without a pause.
	JournalPages = 12000
	// copyRest is how many are left to the writer at most, if the copier comes in time.
	copyRest = 400

	lookAtJournal = 20 * time.Millisecond
	lookAgain     = 5 * time.Second // after it could not be copied
)

// Copier copies the journal into SQLite's database beside the commits, on a
// connection of its own. What a commit would have to copy others wait for.
type Copier struct {
	DB     *bun.DB
	log    *slog.Logger
	wake   chan struct{}
	end    context.CancelFunc // of the goroutine
	over   sync.WaitGroup
	Copies int // for tests, once it is over
}

// startCopier opens the copier of the database at path.
func startCopier(path string, log *slog.Logger) (*Copier, error) {
	db, err := openCopier(path)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	c := &Copier{DB: db, log: log, wake: make(chan struct{}, 1), end: end}
	c.over.Go(func() { c.run(ctx) })
	return c, nil
}

// committed tells that the journal may have grown.
func (c *Copier) committed() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close ends a copy at its next statement. Nil is fine.
func (c *Copier) close() error {
	if c == nil {
		return nil
	}
	c.end()
	c.over.Wait()
	return c.DB.Close()
}

func (c *Copier) run(ctx context.Context) {
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		rest := lookAtJournal
		err := c.look()
		if err != nil {
			rest = lookAgain
			if !failed { // each time would fill a disk that is full
				c.log.Warn("the journal is not copied beside the commits; they do it", "error", err)
			}
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}

// look copies what is due.
func (c *Copier) look() error {
	length, waits, err := c.Checkpoint("NOOP")
	if err != nil || waits < CopyAfter && (length < JournalPages-CopyAfter/4 || waits < copyRest) {
		return err
	}
	c.Copies++
	_, _, err = c.Checkpoint("PASSIVE")
	return err
}

// Checkpoint returns how many pages the journal has, and how many of them are not
// copied. PASSIVE copies those that no reader needs where they are, and waits for
// nobody; NOOP only tells.
func (c *Copier) Checkpoint(mode string) (length, waits int, err error) {
	var busy, copied int
	err = c.DB.DB.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &length, &copied)
	return length, length - copied, err
}
