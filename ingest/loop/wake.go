package loop

import (
	"context"
	"time"
)

// Signal is how somebody who looks for work every now and then is told to look
// now.
type Signal chan struct{}

func NewSignal() Signal { return make(Signal, 1) }

// Notify does not wait. Several rings before anybody waits are one.
func (b Signal) Notify() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Wait ends with a ring, with the time, or with ctx.
func (b Signal) Wait(ctx context.Context, every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-b:
	}
}
