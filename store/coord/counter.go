package coord

import (
	"context"
	"sync"
	"time"
)

// window is the time in which the limit counts.
const window = time.Minute

// Counter lets each key make so many calls a minute. It slides: the calls of
// the last minute are those of the current whole minute and, of the one
// before, the part that still lies within 60 seconds, taken as evenly spread.
// So a burst at a minute's end does not allow a second one right after it.
// A refused call does not count.
type Counter struct {
	limit int
	now   func() time.Time

	mu      sync.Mutex // protects the fields below
	keys    map[string]*count
	dropped time.Time // when old keys were last dropped
}

// count is one key's calls in the minute that began at start, and in the one
// before.
type count struct {
	start     time.Time
	now, past int
}

// NewCounter returns a counter of limit calls a minute and key; zero: no
// limit. A nil clock is time.Now.
func NewCounter(limit int, now func() time.Time) *Counter {
	if now == nil {
		now = time.Now
	}
	return &Counter{limit: limit, now: now, keys: map[string]*count{}}
}

// Allow implements [action.Limiter].
func (c *Counter) Allow(_ context.Context, key string) time.Duration {
	if c.limit <= 0 {
		return 0
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(now)
	k := c.keys[key]
	if k == nil {
		k = &count{start: now}
		c.keys[key] = k
	}
	k.roll(now)
	if wait := k.wait(now, c.limit); wait > 0 {
		return wait
	}
	k.now++
	return 0
}

// roll moves the minutes on.
func (k *count) roll(now time.Time) {
	passed := now.Sub(k.start)
	switch {
	case passed < window:
	case passed < 2*window:
		k.past, k.now, k.start = k.now, 0, k.start.Add(window)
	default:
		k.past, k.now, k.start = 0, 0, now
	}
}

// wait returns zero when one more call fits, or how long until it does: until
// enough of the minute before has slid away, or else this minute is over and
// has begun to.
func (k *count) wait(now time.Time, limit int) time.Duration {
	passed := now.Sub(k.start)
	left := float64(window-passed) / float64(window)
	if float64(k.now)+float64(k.past)*left < float64(limit) {
		return 0
	}
	if k.now < limit {
		return slid(k.past, limit-k.now) - passed + 1
	}
	return window - passed + slid(k.now, limit) + 1
}

// slid is how far into a minute no more than room of the past calls are left.
func slid(past, room int) time.Duration {
	return time.Duration((1 - float64(room)/float64(past)) * float64(window))
}

// dropLocked forgets keys at rest, once a minute.
func (c *Counter) dropLocked(now time.Time) {
	if now.Sub(c.dropped) < window {
		return
	}
	c.dropped = now
	for key, k := range c.keys {
		if now.Sub(k.start) >= 2*window {
			delete(c.keys, key)
		}
	}
}

// Keys returns how many keys are remembered.
func (c *Counter) Keys() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}
