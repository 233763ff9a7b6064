package ingest

import (
	"context"
	"fmt"
	"time"

	"sallyport/ingest/event"
)

const (
	// suspectLosses is how often in a row a delivery was lost with its process
	// until it is worked off alone: it may be what ends processes.
	suspectLosses = 2
	// maxLosses is how often that may be before it is given up.
	maxLosses = 10
)

// suspects takes deliveries out of a batch that may have ended a process.
func suspects(receipts []event.Receipt) (others, alone []event.Receipt) {
	for _, r := range receipts {
		if r.Losses >= suspectLosses {
			alone = append(alone, r)
			continue
		}
		others = append(others, r)
	}
	return others, alone
}

// alone works off the first of the suspects while nothing else can be lost with
// it. The others are given back before, with what is counted against them.
func (w *Worker) alone(ctx, work context.Context, list []event.Receipt) {
	if len(list) == 0 {
		return
	}
	w.held.add(list)
	var back []event.Settlement
	for i, r := range list[1:] {
		at := w.Now().UTC().Add(time.Duration(i+1) * time.Second)
		back = append(back, event.Settlement{Receipt: r, Status: event.ReceiptQueued, NextAt: at, Failures: r.Failures, Losses: r.Losses, Error: "It is worked off alone: it may be what ended the gateway."})
	}
	w.settle(work, back)
	if r := list[0]; r.Losses >= maxLosses {
		w.settle(work, []event.Settlement{w.givenUp(ctx, r)})
		return
	}
	w.batch(ctx, work, list[:1])
}

// givenUp ends a delivery that ends processes.
func (w *Worker) givenUp(ctx context.Context, r event.Receipt) event.Settlement {
	w.Log.ErrorContext(ctx, "a delivery was given up: each process that worked on it ended", "delivery", r.ID, "endpoint", r.Endpoint, "provider", r.Provider, "losses", r.Losses)
	w.Count("losing", r.Provider)
	return event.Settlement{
		Receipt: r, Status: event.ReceiptFailed,
		Error: fmt.Sprintf("The gateway ended %d times in a row while it worked on this, so it was given up. See the gateway's log for why it ended, and have this delivery worked off again once that is mended.", r.Losses),
	}
}
