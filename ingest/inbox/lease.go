package inbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/ingest/event"
	"sallyport/ingest/loop"
)

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
		back = append(back, event.Settlement{Receipt: r, Status: event.ReceiptQueued, NextAt: at, Failures: r.Failures, Losses: r.Losses, Error: "It is worked off alone: it may be what ended the gateway."})
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
	w.Log.ErrorContext(ctx, "a delivery was given up: each process that worked on it ended", "delivery", r.ID, "endpoint", r.Endpoint, "provider", r.Provider, "losses", r.Losses)
	w.Count("losing", r.Provider)
	return event.Settlement{
		Receipt: r, Status: event.ReceiptFailed,
		Error: fmt.Sprintf("The gateway ended %d times in a row while it worked on this, so it was given up. See the gateway's log for why it ended, and have this delivery worked off again once that is mended.", r.Losses),
	}
}
