// Package inbox processes stored deliveries: it parses each with the module of its
// service, finds the organizations and triggers that it concerns, completes its events
// and writes events and runs in one transaction. Leases make sure that a delivery
// whose worker was lost is processed by another one.
package inbox

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/match"
	"sallyport/internal/redact"
)

// Config says what a [Worker] works with. The interfaces are required; of
// the durations and numbers, zero means the default in the comment.
type Config struct {
	Providers    []event.Provider // [Custom] is added
	Rows         ingest.Rows
	Integrations ingest.Integrations
	Vault        action.Vault
	JSON         *redact.JSON

	Operator string        // the organization of URLs of a whole provider; it may connect as it likes
	Worker   string        // this process; unique among those that share rows
	NewID    func() string // ids of events and runs, ascending in time (UUIDv7)
	// Hydrates tells of a provider whether its module completes events: others
	// need not wait for a service. Nil: any might.
	Hydrates func(provider string) bool

	Workers     int           // goroutines that take batches; 2
	Batch       int           // deliveries of one batch, whose writing others wait for; 25
	Lease       time.Duration // before others take what this process has; 1 minute
	PollEvery   time.Duration // between two looks when nobody wakes it; 1 second
	Gather      time.Duration // rest after a batch that was not full, so that the next one is no batch of one; 20 ms
	MaxAttempts int           // before a delivery failed; 10
	Pace        *loop.Pace    // of the server that shares rows and processors; nil: there is none
	// Backoff returns the wait after an attempt failed, the first being 1. Nil: a
	// second, doubled each time up to 10 minutes, with jitter.
	Backoff func(attempt int) time.Duration

	Began func(runs []event.Run)      // is told of runs that began; nil: nobody is
	Count func(what, provider string) // counts for metrics, see [Worker]; nil: nobody does
	Now   func() time.Time            // time.Now
	Log   *slog.Logger                // discards
}

func (c *Config) setDefaults() error {
	if c.Rows == nil || c.Integrations == nil || c.Vault == nil || c.JSON == nil || c.NewID == nil || c.Worker == "" {
		return errors.New("inbox.Config: Rows, Integrations, Vault, JSON, NewID and Worker are required")
	}
	for value, use := range map[*time.Duration]time.Duration{&c.Lease: time.Minute, &c.PollEvery: time.Second, &c.Gather: 20 * time.Millisecond} {
		if *value == 0 {
			*value = use
		}
	}
	for value, use := range map[*int]int{&c.Workers: 2, &c.Batch: 25, &c.MaxAttempts: 10} {
		if *value == 0 {
			*value = use
		}
	}
	if c.Hydrates == nil {
		c.Hydrates = func(string) bool { return true }
	}
	if c.Backoff == nil {
		c.Backoff = func(attempt int) time.Duration { return loop.Backoff(time.Second, 10*time.Minute, attempt) }
	}
	if c.Began == nil {
		c.Began = func([]event.Run) {}
	}
	if c.Count == nil {
		c.Count = func(string, string) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Worker works off what the inbox keeps: it reads each delivery with the module
// of its service, finds out for whom it is, has its events completed, asks the
// triggers, and writes what came of it. It counts deliveries as "completed",
// "retried" and "failed", and, beside that, "doubled" and "unreadable" ones,
// "losing" ones that ended processes, "hydrate_failed" and "hydrate_backoff"; and of matches "run" and "no_run": the event was there
// already, or its trigger not any more.
type Worker struct {
	Config
	match      *match.Matcher
	leases     leases
	queues     serviceQueues
	hydrations sync.WaitGroup // deliveries whose events are being completed
	wake       loop.Signal
}

// NewWorker returns a worker, for [Worker.Run].
func NewWorker(c Config) (*Worker, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	known, err := match.NewRegistry(c.Providers)
	if err != nil {
		return nil, err
	}
	return &Worker{
		Config: c,
		match:  &match.Matcher{Providers: known, Vault: c.Vault, JSON: c.JSON, NewID: c.NewID, Now: c.Now, Log: c.Log},
		wake:   loop.NewSignal(),
	}, nil
}

// Wake has the worker look for deliveries now. It does not wait.
func (w *Worker) Wake() { w.wake.Notify() }

// Run works until ctx ends, and finishes what it took before it returns ctx's
// error. What it cannot finish in time others take when its lease is over.
func (w *Worker) Run(ctx context.Context) error {
	work, stop := loop.WithGrace(ctx, loop.ShutdownGrace)
	defer stop()
	var all sync.WaitGroup
	for range w.Workers {
		all.Go(func() { w.processBatches(ctx, work) })
	}
	renewal, end := context.WithCancel(work)
	var renewing sync.WaitGroup
	renewing.Go(func() { w.renewLeases(renewal) })
	all.Wait()
	w.hydrations.Wait()
	end()
	renewing.Wait()
	return ctx.Err()
}

// processBatches works off batch after batch. What it takes up is finished with work,
// which outlives ctx.
func (w *Worker) processBatches(ctx, work context.Context) {
	var behind time.Duration
	for failures := 0; ctx.Err() == nil; {
		some := w.Pace.BatchSize(w.Batch, behind, time.Now())
		receipts, err := w.Rows.ClaimReceipts(work, w.Worker, some, w.Lease)
		switch {
		case err != nil:
			failures++
			w.Log.ErrorContext(ctx, "deliveries cannot be taken from the inbox", "error", err)
			loop.Sleep(ctx, loop.Backoff(w.PollEvery, 30*w.PollEvery, failures))
		case len(receipts) == 0:
			failures, behind = 0, 0
			w.wake.Wait(ctx, w.PollEvery)
		default:
			failures = 0
			full := len(receipts) == some
			if full {
				w.Wake() // there is more, and another may be idle
			}
			began := time.Now()
			others, suspect := splitSuspects(receipts)
			w.processBatch(ctx, work, others)
			w.processAlone(ctx, work, suspect)
			behind = oldestWait(receipts, w.Now())
			rest := w.Pace.Pause(time.Since(began), behind, time.Now())
			if !full {
				rest = max(rest, w.Gather)
			}
			loop.Sleep(ctx, rest)
		}
	}
}

// oldestWait is how long the first of them was due.
func oldestWait(receipts []event.Receipt, now time.Time) (longest time.Duration) {
	for _, r := range receipts {
		longest = max(longest, now.Sub(r.NextAt))
	}
	return longest
}

// processBatch reads what was claimed and writes what came of it, together. What waits
// for a service is worked off beside it, so that nothing else waits, too.
func (w *Worker) processBatch(ctx, work context.Context, receipts []event.Receipt) {
	w.leases.add(receipts)
	look := w.newLookup()
	var list []event.Settlement
	for _, r := range receipts {
		runtime.Gosched() // those who wait for an answer go before
		rd, err := w.read(work, look, r)
		switch {
		case err != nil:
			list = append(list, w.failure(work, rd, err))
		case rd.queue == "":
			list = append(list, w.outcomeOf(work, rd))
		default:
			if late := w.hydrateLater(ctx, work, rd); late != nil {
				list = append(list, w.postpone(rd, late))
			}
		}
	}
	w.settle(work, list)
}
