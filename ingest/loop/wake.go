package loop

import (
	"context"
	"time"
)

// Signal wakes up a loop that waits for its next turn.
type Signal chan struct{}

// NewSignal returns a signal.
func NewSignal() Signal { return make(Signal, 1) }

// Notify wakes up the loop. It does not block; several notifications before the loop
// waits are one.
func (b Signal) Notify() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Wait returns after a notification, after the time, or when ctx ends.
func (b Signal) Wait(ctx context.Context, every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-b:
	}
}
