package notify

import (
	"context"
	"math/rand/v2"
	"time"
)

// gracePeriod is how long a running request may take when its process stops.
const gracePeriod = 3 * time.Second

// backoff returns the delay after a number of failures: base, doubled with each
// failure up to limit. Jitter of up to a quarter keeps what failed together
// from retrying together.
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

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// withGrace returns a context that ends a while after ctx.
func withGrace(ctx context.Context, while time.Duration) (context.Context, func()) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		sleep(out, while)
		end()
	})
	return out, func() { stop(); end() }
}
