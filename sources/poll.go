package sources

import (
	"encoding/json"
	"time"

	"sallyport/ingest/event"
)

// Polled is what a look at a service found since the one before.
type Polled struct {
	Events []event.Event // the oldest first
	// Cursor is where the next look begins, never nil. It is the module's own
	// affair, and to be kept together with the events or not at all.
	Cursor json.RawMessage
	// More tells that there is more to be had at once: a look is bounded.
	More bool
	// Lost tells people in a sentence that things may have happened of which no
	// look will tell; empty: none are known of.
	Lost string
	// Wait is the least time until the next look at what comes from now on.
	// Zero: the module does not mind.
	Wait time.Duration
}
