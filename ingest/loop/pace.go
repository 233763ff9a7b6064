package loop

import (
	"sync"
	"time"
)

const (
	// easyLatency is how long keeping a delivery takes at most while there is room for
	// other work, unless it takes half of that when nothing else is done.
	easyLatency = 2 * time.Millisecond
	// decay is how slowly the fastest of them is forgotten, in deliveries.
	decay = 1 << 14
	// window is how long what was measured counts.
	window = 100 * time.Millisecond
	// maxPauseFactor bounds how many times as long as it worked a worker rests, and
	// longestRest how long.
	maxPauseFactor = 8
	maxPause       = 500 * time.Millisecond
	// batchDivisor is what part of a batch is taken while senders wait: what came of it
	// is written in one transaction, for which they wait, too.
	batchDivisor = 3
	// maxBacklog is how long a delivery may have waited for a worker that rests
	// afterwards: what came is worked off under any load.
	maxBacklog = 5 * time.Second
)

// Pace has workers give way to senders, who wait for an answer: the longer it
// takes to keep a delivery, the longer they rest between batches, unless they are
// behind. What came then waits in the inbox. The zero one is ready for use, and a
// nil one does nothing.
type Pace struct {
	mu      sync.Mutex
	average time.Duration
	fastest time.Duration // as far as it is remembered: what the database takes by itself
	last    time.Time
}

// Record notes how long it took to keep a delivery.
func (p *Pace) Record(d time.Duration, now time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) > window {
		p.average = 0
	}
	p.average += (d - p.average) / 16
	if p.fastest == 0 || d < p.fastest {
		p.fastest = d
	}
	p.fastest += (d - p.fastest) / decay
	p.last = now
}

// Pause is how long to rest after so much work on what had waited so long.
func (p *Pace) Pause(worked, waited time.Duration, now time.Time) time.Duration {
	over := p.overload(waited, now)
	return min(time.Duration(float64(worked)*min(over, maxPauseFactor)), maxPause)
}

// BatchSize is how many of a batch to take when what was taken before had waited so long.
func (p *Pace) BatchSize(batch int, waited time.Duration, now time.Time) int {
	if p.overload(waited, now) > 0 {
		return max(1, batch/batchDivisor)
	}
	return batch
}

// overload is by how much keeping takes too long, in times of what is easy.
func (p *Pace) overload(waited time.Duration, now time.Time) float64 {
	if p == nil || waited > maxBacklog {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) > window {
		return 0
	}
	return max(0, float64(p.average)/float64(max(easyLatency, 2*p.fastest))-1)
}
