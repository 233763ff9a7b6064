// Package inbox processes stored deliveries: it parses each with the module of its
// service, finds the organizations and triggers that it concerns, completes its events
// and writes events and runs in one transaction. Leases make sure that a delivery
// whose worker was lost is processed by another one.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/match"
	"sallyport/internal/defaults"
	"sallyport/internal/redact"
)

// Config configures a [Worker]. The interfaces are required.
type Config struct {
	Providers    []event.Provider // [match.Custom] is added
	Rows         ingest.Rows
	Integrations ingest.Integrations
	Vault        action.Vault
	JSON         *redact.JSON

	Operator string        // the organization of provider URLs; its integrations are trusted
	Worker   string        // id of this process; unique among those that share the database
	NewID    func() string // ids of events and runs, ascending in time (UUIDv7)
	// Hydrates reports whether a provider's module completes events. Nil: all do.
	Hydrates func(provider string) bool

	Timing
	Workers     int           `default:"2"`    // goroutines that process batches
	Batch       int           `default:"25"`   // deliveries of one batch, which is one transaction
	Gather      time.Duration `default:"20ms"` // pause after a batch that was not full, to collect more
	MaxAttempts int           `default:"10"`   // before a delivery fails
	Pace        *loop.Pace    // of the server that shares database and CPU; nil: none
	// Backoff returns the wait after a failed attempt, the first being 1. Nil: a second,
	// doubled each time up to 10 minutes, with jitter.
	Backoff func(attempt int) time.Duration

	Began func(runs []event.Run)      // called with runs that began; may be nil
	Count func(what, provider string) // for metrics, see [Worker]; may be nil
	Now   func() time.Time            `default:"time.Now"`
	Log   *slog.Logger                `default:"discard"`
}

// Timing is the intervals of a [Worker] that are flags of the server. Zero means
// the default.
type Timing struct {
	PollEvery time.Duration `default:"1s" help:"Interval of checking for new deliveries (default: ${default})." name:"inbox-every" placeholder:"D"` // without a wake-up
	Lease     time.Duration `default:"1m" help:"Lease of a delivery that is being processed (default: ${default})." name:"inbox-lease" placeholder:"D"`
}

func (c *Config) setDefaults() error {
	if c.Rows == nil || c.Integrations == nil || c.Vault == nil || c.JSON == nil || c.NewID == nil || c.Worker == "" {
		return errors.New("inbox.Config: Rows, Integrations, Vault, JSON, NewID and Worker are required")
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
	defaults.Set(c)
	return nil
}

// Worker processes stored deliveries: it parses each with the module of its service, finds
// its targets, has its events completed, asks the triggers and writes the outcome. It
// counts deliveries as "completed", "retried" and "failed", and also as "doubled",
// "unreadable", "losing" (they ended processes), "hydrate_failed" and "hydrate_backoff";
// matches as "run" and "no_run" (the event existed already, or its trigger is gone).
type Worker struct {
	Config
	match      *match.Matcher
	leases     leases
	queues     serviceQueues
	hydrations sync.WaitGroup // deliveries whose events are completed in the background
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

// Wake has the worker claim deliveries now. It does not block.
func (w *Worker) Wake() { w.wake.Notify() }

// Run processes deliveries until ctx ends, finishes begun ones and returns ctx's
// error. Other workers process unfinished ones after their leases.
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

// processBatches claims and processes batches. Begun work uses the context work,
// which outlives ctx.
func (w *Worker) processBatches(ctx, work context.Context) {
	var behind time.Duration
	for failures := 0; ctx.Err() == nil; {
		some := w.Pace.BatchSize(w.Batch, behind, time.Now())
		receipts, err := w.Rows.ClaimReceipts(work, w.Worker, some, w.Lease)
		switch {
		case err != nil:
			failures++
			w.Log.ErrorContext(ctx, "deliveries could not be claimed from the inbox", "error", err)
			loop.Sleep(ctx, loop.Backoff(w.PollEvery, 30*w.PollEvery, failures))
		case len(receipts) == 0:
			failures, behind = 0, 0
			w.wake.Wait(ctx, w.PollEvery)
		default:
			failures = 0
			full := len(receipts) == some
			if full {
				w.Wake() // more is due, and another goroutine may be idle
			}
			began := time.Now()
			others, suspect := splitSuspects(receipts)
			w.processBatch(ctx, work, others)
			w.processAlone(ctx, work, suspect)
			behind = 0 // how long the oldest receipt was due
			for _, r := range receipts {
				behind = max(behind, w.Now().Sub(r.NextAt))
			}
			rest := w.Pace.Pause(time.Since(began), behind, time.Now())
			if !full {
				rest = max(rest, w.Gather)
			}
			loop.Sleep(ctx, rest)
		}
	}
}

// processBatch parses claimed deliveries and writes their outcomes together.
// Deliveries that need a service are completed in the background, so that they do
// not delay others.
func (w *Worker) processBatch(ctx, work context.Context, receipts []event.Receipt) {
	w.leases.add(receipts)
	look := w.newLookup()
	var list []event.Settlement
	for _, r := range receipts {
		runtime.Gosched() // HTTP senders go first
		rd, err := w.read(work, look, r)
		switch {
		case err != nil:
			list = append(list, w.failure(work, rd, err))
		case rd.queue == "":
			list = append(list, w.outcome(work, rd, nil))
		default:
			if late := w.hydrateLater(ctx, work, rd); late != nil {
				list = append(list, w.postpone(rd, late))
			}
		}
	}
	w.settle(work, list)
}

// leases are the receipts that this process holds and renews.
type leases struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (h *leases) add(receipts []event.Receipt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ids == nil {
		h.ids = make(map[string]bool)
	}
	for _, r := range receipts {
		h.ids[r.ID] = true
	}
}

func (h *leases) remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ids, id)
}

func (h *leases) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.ids))
}

// renewLeases renews all leases until ctx ends.
func (w *Worker) renewLeases(ctx context.Context) {
	for loop.Sleep(ctx, w.Lease/3) {
		ids := w.leases.all()
		if len(ids) == 0 {
			continue
		}
		if err := w.Rows.RenewReceipts(ctx, w.Worker, ids, w.Lease); err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "the leases of deliveries could not be renewed", "error", err)
		}
	}
}

const (
	// suspectLosses is how often a delivery was lost with its process until it is
	// processed alone: it may be the cause.
	suspectLosses = 2
	// maxLosses is the number of losses after which a delivery fails.
	maxLosses = 10
)

// splitSuspects separates deliveries that may have ended a process.
func splitSuspects(receipts []event.Receipt) (others, alone []event.Receipt) {
	for _, r := range receipts {
		if r.Losses >= suspectLosses {
			alone = append(alone, r)
			continue
		}
		others = append(others, r)
	}
	return others, alone
}

// processAlone processes the first suspect while no other delivery can be lost with
// it. The others are released before, with their counts.
func (w *Worker) processAlone(ctx, work context.Context, list []event.Receipt) {
	if len(list) == 0 {
		return
	}
	w.leases.add(list)
	var back []event.Settlement
	for i, r := range list[1:] {
		at := w.Now().UTC().Add(time.Duration(i+1) * time.Second)
		back = append(back, event.Settlement{Receipt: r, Status: event.ReceiptQueued, NextAt: at, Failures: r.Failures, Losses: r.Losses, Error: "It is processed alone, because it may have crashed the gateway."})
	}
	w.settle(work, back)
	if r := list[0]; r.Losses >= maxLosses {
		w.settle(work, []event.Settlement{w.abandoned(ctx, r)})
		return
	}
	w.processBatch(ctx, work, list[:1])
}

// abandoned fails a delivery that ends processes.
func (w *Worker) abandoned(ctx context.Context, r event.Receipt) event.Settlement {
	w.Log.ErrorContext(ctx, "a delivery failed: every process that worked on it died", "delivery", r.ID, "endpoint", r.Endpoint, "provider", r.Provider, "losses", r.Losses)
	w.Count("losing", r.Provider)
	return event.Settlement{
		Receipt: r, Status: event.ReceiptFailed,
		Error: fmt.Sprintf("The gateway died %d times in a row while it processed this delivery. See the gateway log for the cause, then process the delivery again.", r.Losses),
	}
}
