package ingest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"sallyport/ingest/event"
)

// held are the receipts that this process has, whose leases it renews.
type held struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (h *held) add(receipts []event.Receipt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ids == nil {
		h.ids = make(map[string]bool)
	}
	for _, r := range receipts {
		h.ids[r.ID] = true
	}
}

func (h *held) drop(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ids, id)
}

func (h *held) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.ids))
}

// renew has the leases of all that is held begin anew, until ctx ends.
func (w *Worker) renew(ctx context.Context) {
	for sleep(ctx, w.Lease/3) {
		ids := w.held.all()
		if len(ids) == 0 {
			continue
		}
		if err := w.Rows.RenewReceipts(ctx, w.Worker, ids, w.Lease); err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "the leases of deliveries could not be renewed", "error", err)
		}
	}
}
