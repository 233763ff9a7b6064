package coord

import (
	"context"
	"sync"
	"time"

	"sallyport/action"
)

// minute is the window of a session's own rate.
const minute = time.Minute

// Counter lets each key make so many calls in a window. It slides: the calls
// of the last window are those of the current whole one and, of the one before
// it, the part that still lies within the window's length, taken as evenly
// spread. So a burst at a window's end does not allow a second one right after
// it. A refused call does not count.
//
// What may be called how often is said with each call: another number holds
// at once, for the calls that were counted too. Another window is counted for
// itself, from nothing.
type Counter struct {
	limit int
	now   func() time.Time

	mu      sync.Mutex // protects the fields below
	keys    map[counted]*count
	dropped time.Time // when old keys were last dropped
}

// counted is whose calls a count is of. A session's own rate and a limit never
// share one, whatever their keys.
type counted struct {
	own    bool // a session's own rate
	key    string
	window time.Duration
}

// ownRate is what Allow counts.
func ownRate(key string) counted { return counted{own: true, key: key, window: minute} }

// limited is what Take counts. ok is false for what is no rate, which nobody
// can set: it lets nothing through.
func limited(l action.Limit) (of counted, ok bool) {
	return counted{key: l.Key, window: l.Window()}, l.Calls > 0 && l.Seconds > 0
}

// count is one key's calls in the window that began at start, and in the one
// before.
type count struct {
	start     time.Time
	now, past int
}

// NewCounter returns a counter of limit calls a minute and session; zero: no
// limit. A nil clock is time.Now.
func NewCounter(limit int, now func() time.Time) *Counter {
	if now == nil {
		now = time.Now
	}
	return &Counter{limit: limit, now: now, keys: map[counted]*count{}}
}

// Allow implements [action.Limiter].
func (c *Counter) Allow(_ context.Context, key string) time.Duration {
	if c.limit <= 0 {
		return 0
	}
	return c.count(ownRate(key), c.limit)
}

// Take implements [action.Limiter].
func (c *Counter) Take(_ context.Context, l action.Limit) time.Duration {
	of, ok := limited(l)
	if !ok {
		return minute
	}
	return c.count(of, l.Calls)
}

// count counts a call, unless the limit is reached.
func (c *Counter) count(of counted, limit int) time.Duration {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(now)
	k := c.keys[of]
	if k == nil {
		k = &count{start: now}
		c.keys[of] = k
	}
	k.roll(now, of.window)
	if wait := k.wait(now, of.window, limit); wait > 0 {
		return wait
	}
	k.now++
	return 0
}

// roll moves the windows on.
func (k *count) roll(now time.Time, window time.Duration) {
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
// enough of the window before has slid away, or else this window is over and
// has begun to.
func (k *count) wait(now time.Time, window time.Duration, limit int) time.Duration {
	passed := now.Sub(k.start)
	left := float64(window-passed) / float64(window)
	if float64(k.now)+float64(k.past)*left < float64(limit) {
		return 0
	}
	if k.now < limit {
		return slid(k.past, limit-k.now, window) - passed + 1
	}
	return window - passed + slid(k.now, limit, window) + 1
}

// slid is how far into a window no more than room of the past calls are left.
func slid(past, room int, window time.Duration) time.Duration {
	return time.Duration((1 - float64(room)/float64(past)) * float64(window))
}

// dropLocked forgets keys at rest, once a minute.
func (c *Counter) dropLocked(now time.Time) {
	if now.Sub(c.dropped) < minute {
		return
	}
	c.dropped = now
	for of, k := range c.keys {
		if now.Sub(k.start) >= 2*of.window {
			delete(c.keys, of)
		}
	}
}

// Keys returns how many keys are remembered.
func (c *Counter) Keys() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}
