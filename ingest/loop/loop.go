// Package loop is what the background loops of ingest share: retries with backoff,
// waking up early, finishing begun work at a shutdown, and yielding to HTTP senders.
package loop

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sallyport/action"
)

// Backoff returns how long to wait after a failed attempt, the first being 1: base,
// doubled each time up to limit, minus up to a quarter of jitter.
func Backoff(base, limit time.Duration, attempt int) time.Duration {
	d := base
	for range attempt - 1 {
		if d >= limit {
			break
		}
		d *= 2
	}
	d = min(d, limit)
	return d - rand.N(d/4+1)
}

// The backoff while the database is unreachable.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = 5 * time.Second
)

// RetryUnavailable calls do until the database is reachable or ctx ends.
func RetryUnavailable(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if !action.IsDatabaseUnavailable(err) || !Sleep(ctx, Backoff(firstRetry, maxRetry, attempt)) {
			return err
		}
	}
}

// Sleep returns false if ctx ended before the time was over.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// WithGrace returns a context that ends some time after ctx, for work that has
// begun.
func WithGrace(ctx context.Context, while time.Duration) (context.Context, func()) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if Sleep(out, while) {
			end()
		}
	})
	return out, func() { stop(); end() }
}

// ShutdownGrace is how long begun work may take after a shutdown started.
const ShutdownGrace = 5 * time.Second

// RetryAfter returns how long a service asked to wait; zero if it did not.
func RetryAfter(err error) time.Duration {
	var e *action.Error
	if errors.As(err, &e) && (errors.Is(err, action.ErrUnavailable) || errors.Is(err, action.ErrTooMany)) {
		return e.RetryAfter
	}
	return 0
}

// Signal wakes up a loop that waits for its next turn.
type Signal chan struct{}

// NewSignal returns a signal.
func NewSignal() Signal { return make(Signal, 1) }

// Notify wakes up the loop. It does not block; several notifications before the loop
// waits are one.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Wait returns after a notification, after the time, or when ctx ends.
func (s Signal) Wait(ctx context.Context, every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s:
	}
}
