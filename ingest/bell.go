package ingest

import (
	"context"
	"time"
)

// bell is how somebody who looks for work every now and then is told to look
// now.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

// ring does not wait. Several rings before anybody waits are one.
func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// wait ends with a ring, with the time, or with ctx.
func (b bell) wait(ctx context.Context, every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-b:
	}
}
