package ingest

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// maxBytes is how much memory all bodies may have at once. Large ones may not
	// have all of it: three quarters.
	maxBytes = 256 << 20
	// maxLarge is how many may be larger than smallBody at once.
	maxLarge = 16
	// largeWait is how long one waits for another. Some senders try only once.
	largeWait = 5 * time.Second
)

// bodies is the memory for what is being taken in.
type bodies struct {
	limit int64
	used  atomic.Int64
	large chan struct{} // one for each
}

func newBodies(limit int64) *bodies {
	return &bodies{limit: limit, large: make(chan struct{}, maxLarge)}
}

func (b *bodies) room() *room { return &room{of: b} }

// room is what one body has of it.
type room struct {
	of    *bodies
	size  int64
	large bool
}

// take has the room grow to a size, and says how long that was waited for.
func (r *room) take(ctx context.Context, size int64) (waited time.Duration, err error) {
	limit := r.of.limit
	if size > smallBody+1 {
		began := time.Now()
		if err := r.among(ctx); err != nil {
			return 0, err
		}
		waited, limit = time.Since(began), limit/4*3
	}
	more := size - r.size
	if r.of.used.Add(more) > limit {
		r.of.used.Add(-more)
		return waited, errBusy
	}
	r.size = size
	return waited, nil
}

// among waits until there are few enough large ones.
func (r *room) among(ctx context.Context) error {
	if r.large {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, largeWait)
	defer cancel()
	select {
	case r.of.large <- struct{}{}:
		r.large = true
		return nil
	case <-ctx.Done():
		return errBusy
	}
}

// leave gives all of it back.
func (r *room) leave() {
	r.of.used.Add(-r.size)
	if r.large {
		<-r.of.large
	}
	r.size, r.large = 0, false
}
