package notify

import (
	"context"
	"math/rand/v2"
	"time"
)

// finishWithin is how long a request may take that is under way when its
// process stops.
const finishWithin = 3 * time.Second

// backoff returns how long to wait after so many failures: base, then twice as
// long each time up to limit. A quarter of it is chance, so that what failed
// together does not come back together.
func backoff(base, limit time.Duration, failures int) time.Duration {
	d := min(base, limit)
	for range failures - 1 {
		if d *= 2; d >= limit {
			d = limit
			break
		}
	}
	return d - rand.N(d/4+1)
}

// sleep ends early with ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// outlive returns a context that ends a while after ctx.
func outlive(ctx context.Context, while time.Duration) (context.Context, func()) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		sleep(out, while)
		end()
	})
	return out, func() { stop(); end() }
}
