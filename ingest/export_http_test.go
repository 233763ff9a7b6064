package ingest

import (
	"context"
	"time"
)

// SealDelivery and OpenDelivery are what a receipt keeps of its delivery, for
// tests.
var (
	SealDelivery = sealDelivery
	OpenDelivery = openDelivery
)

// SmallBody is how large a delivery of most providers may be.
const SmallBody = smallBody

// Bodies and Room are the memory for what is taken in, for tests.
type (
	Bodies struct{ of *bodies }
	Room   struct{ of *room }
)

func NewBodies(limit int64) Bodies { return Bodies{newBodies(limit)} }
func (b Bodies) Room() Room        { return Room{b.of.room()} }
func (b Bodies) Used() int64       { return b.of.used.Load() }
func (r Room) Leave()              { r.of.leave() }

func (r Room) Take(ctx context.Context, size int64) (time.Duration, error) {
	return r.of.take(ctx, size)
}

// Unfit says which filters an event does not pass, for tests.
var Unfit = unfit

// Average is how long keeping takes, for tests.
func (p *Pace) Average() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.average
}
