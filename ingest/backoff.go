package ingest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sallyport/action"
)

// backoff returns how long to wait after an attempt failed, the first being 1:
// base, then twice as long each time up to limit. A quarter of it is chance, so
// that what failed together does not come back together.
func backoff(base, limit time.Duration, attempt int) time.Duration {
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

// The pauses while rows are out of reach.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// patient does what needs rows, again and again while they are out of reach.
func patient(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if !away(err) || !sleep(ctx, backoff(firstPause, lastPause, attempt)) {
			return err
		}
	}
}

// away reports whether rows were out of reach.
func away(err error) bool {
	var e *action.Error
	return errors.As(err, &e) && e.Code == "database_unavailable"
}

// sleep returns false when ctx ended before the time was over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// outlive returns a context that ends a while after ctx, for what has begun.
func outlive(ctx context.Context, while time.Duration) (context.Context, func()) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if sleep(out, while) {
			end()
		}
	})
	return out, func() { stop(); end() }
}
