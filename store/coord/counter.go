package coord

import (
	"context"
	"sync"
	"time"

	"sallyport/action"
)

// minute is the window of the rate of a session.
const minute = time.Minute

// Counter is a rate limiter with a sliding window per key. It counts the calls of
// the current fixed window, and those of the previous one in proportion to its
// overlap with the sliding window, as if they were evenly spread. So a burst at the
// end of a window does not allow another one right after it. A refused call does
// not count.
//
// Each call carries its limit: a changed number applies at once, also to the calls
// counted before. A changed window length starts a new count.
type Counter struct {
	limit int
	now   func() time.Time

	mu      sync.Mutex // protects the fields below
	keys    map[rateKey]*slidingWindow
	dropped time.Time // when old keys were last dropped
}

// rateKey identifies a counter. The rate of a session and a limit never share one,
// whatever their keys.
type rateKey struct {
	sessionRate bool // the rate of a session, which Allow counts
	key         string
	window      time.Duration
}

// sessionRateKey is the counter of Allow.
func sessionRateKey(key string) rateKey { return rateKey{sessionRate: true, key: key, window: minute} }

// limitKey is the counter of Take. ok is false for an invalid limit, which cannot be
// configured: it allows no call.
func limitKey(l action.Limit) (of rateKey, ok bool) {
	return rateKey{key: l.Key, window: l.Window()}, l.Calls > 0 && l.Seconds > 0
}

// slidingWindow holds the calls of one key in the window that began at start, and in
// the previous one.
type slidingWindow struct {
	start             time.Time
	current, previous int
}

// NewCounter returns a counter that allows limit calls per minute and session (zero:
// no limit). A nil clock is time.Now.
func NewCounter(limit int, now func() time.Time) *Counter {
	if now == nil {
		now = time.Now
	}
	return &Counter{limit: limit, now: now, keys: map[rateKey]*slidingWindow{}}
}

// Allow implements [action.Limiter].
func (c *Counter) Allow(_ context.Context, key string) time.Duration {
	if c.limit <= 0 {
		return 0
	}
	return c.count(sessionRateKey(key), c.limit)
}

// Take implements [action.Limiter].
func (c *Counter) Take(_ context.Context, l action.Limit) time.Duration {
	of, ok := limitKey(l)
	if !ok {
		return minute
	}
	return c.count(of, l.Calls)
}

// count counts a call, unless the limit is reached.
func (c *Counter) count(of rateKey, limit int) time.Duration {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(now)
	k := c.keys[of]
	if k == nil {
		k = &slidingWindow{start: now}
		c.keys[of] = k
	}
	k.advance(now, of.window)
	if wait := k.wait(now, of.window, limit); wait > 0 {
		return wait
	}
	k.current++
	return 0
}

// advance starts a new window if the current one has ended.
func (k *slidingWindow) advance(now time.Time, window time.Duration) {
	passed := now.Sub(k.start)
	switch {
	case passed < window:
	case passed < 2*window:
		k.previous, k.current, k.start = k.current, 0, k.start.Add(window)
	default:
		k.previous, k.current, k.start = 0, 0, now
	}
}

// wait returns zero if one more call is allowed, and otherwise the time until it is:
// enough calls of the previous window, or else of this one, must have left the
// sliding window.
func (k *slidingWindow) wait(now time.Time, window time.Duration, limit int) time.Duration {
	passed := now.Sub(k.start)
	left := float64(window-passed) / float64(window)
	if float64(k.current)+float64(k.previous)*left < float64(limit) {
		return 0
	}
	if k.current < limit {
		return decayTime(k.previous, limit-k.current, window) - passed + 1
	}
	return window - passed + decayTime(k.current, limit, window) + 1
}

// decayTime is the time into a window at which only room of the past calls remain.
func decayTime(past, room int, window time.Duration) time.Duration {
	return time.Duration((1 - float64(room)/float64(past)) * float64(window))
}

// dropLocked deletes idle keys, once a minute.
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

// Keys returns the number of counters in memory.
func (c *Counter) Keys() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}
