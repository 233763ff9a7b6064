package webhook

import (
	"context"
	"time"
)

// DefaultMaxBody is how large a delivery of most providers may be.
const DefaultMaxBody = defaultMaxBody

// MemoryBudget and Room are the memory for what is taken in, for tests.
type (
	MemoryBudget struct{ of *memoryBudget }
	Reservation  struct{ of *reservation }
)

func NewMemoryBudget(limit int64) MemoryBudget { return MemoryBudget{newMemoryBudget(limit)} }

func (b MemoryBudget) Reserve() Reservation { return Reservation{b.of.reserve()} }

func (b MemoryBudget) Used() int64 { return b.of.used.Load() }

func (r Reservation) Release() { r.of.release() }

func (r Reservation) Grow(ctx context.Context, size int64) (time.Duration, error) {
	return r.of.grow(ctx, size)
}
