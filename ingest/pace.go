package ingest

import (
	"sync"
	"time"
)

const (
	// easily is how long keeping a delivery takes at most while there is room for
	// other work, unless it takes half of that when nothing else is done.
	easily = 2 * time.Millisecond
	// forgetting is how slowly the fastest of them is forgotten, in deliveries.
	forgetting = 1 << 14
	// lately is how long what was measured counts.
	lately = 100 * time.Millisecond
	// mostRest bounds how many times as long as it worked a worker rests, and
	// longestRest how long.
	mostRest    = 8
	longestRest = 500 * time.Millisecond
	// smaller is what part of a batch is taken while senders wait: what came of it
	// is written in one transaction, for which they wait, too.
	smaller = 3
	// restWithin is how long a delivery may have waited for a worker that rests
	// afterwards: what came is worked off under any load.
	restWithin = 5 * time.Second
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

// took notes how long it took to keep a delivery.
func (p *Pace) took(d time.Duration, now time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) > lately {
		p.average = 0
	}
	p.average += (d - p.average) / 16
	if p.fastest == 0 || d < p.fastest {
		p.fastest = d
	}
	p.fastest += (d - p.fastest) / forgetting
	p.last = now
}

// rest is how long to rest after so much work on what had waited so long.
func (p *Pace) rest(worked, waited time.Duration, now time.Time) time.Duration {
	over := p.over(waited, now)
	return min(time.Duration(float64(worked)*min(over, mostRest)), longestRest)
}

// some is how many of a batch to take when what was taken before had waited so long.
func (p *Pace) some(batch int, waited time.Duration, now time.Time) int {
	if p.over(waited, now) > 0 {
		return max(1, batch/smaller)
	}
	return batch
}

// over is by how much keeping takes too long, in times of what is easy.
func (p *Pace) over(waited time.Duration, now time.Time) float64 {
	if p == nil || waited > restWithin {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) > lately {
		return 0
	}
	return max(0, float64(p.average)/float64(max(easily, 2*p.fastest))-1)
}
