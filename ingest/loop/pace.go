package loop

import (
	"sync"
	"time"
)

const (
	// easyLatency is the latency of storing a delivery up to which workers run at full
	// speed. It is twice the fastest latency if that is longer.
	easyLatency = 2 * time.Millisecond
	// decay is how slowly the fastest latency is forgotten, in deliveries.
	decay = 1 << 14
	// window is how long a measurement counts.
	window = 100 * time.Millisecond
	// maxPauseFactor bounds the pause of a worker in multiples of its working time, and
	// maxPause bounds it absolutely.
	maxPauseFactor = 8
	maxPause       = 500 * time.Millisecond
	// batchDivisor reduces batches while senders wait, because they also wait for the
	// transaction of a batch.
	batchDivisor = 3
	// maxBacklog is the age of the oldest delivery above which workers do not pause, so
	// that deliveries are processed under any load.
	maxBacklog = 5 * time.Second
)

// Pace is the backpressure between HTTP senders and workers: the longer it takes to
// store a delivery, the longer workers pause between batches, unless they are
// behind. The zero value is ready for use; a nil one does nothing.
type Pace struct {
	mu      sync.Mutex
	average time.Duration
	fastest time.Duration // decays slowly: the latency without load
	last    time.Time
}

// Record records how long it took to store a delivery.
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

// Pause returns how long to pause after working for the given time on a batch that
// had waited.
func (p *Pace) Pause(worked, waited time.Duration, now time.Time) time.Duration {
	over := p.overload(waited, now)
	return min(time.Duration(float64(worked)*min(over, maxPauseFactor)), maxPause)
}

// BatchSize returns how many of a batch to claim when the previous one had waited.
func (p *Pace) BatchSize(batch int, waited time.Duration, now time.Time) int {
	if p.overload(waited, now) > 0 {
		return max(1, batch/batchDivisor)
	}
	return batch
}

// overload is the excess of the average latency over the acceptable one, as a
// multiple of the latter.
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
