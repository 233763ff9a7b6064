package coord

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
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

// Locks holds short locks within one process. Each value is one holder;
// [Locks.NewHolder] adds another. The goroutines of a holder share its locks: a
// second Hold renews.
type Locks struct {
	now   func() time.Time
	table *lockTable
}

// lockTable is shared by several holders.
type lockTable struct {
	mu      sync.Mutex // protects held
	held    map[string]heldLock
	sweptAt time.Time // when expired locks were last deleted
}

type heldLock struct {
	by    *Locks
	until time.Time
}

// NewLocks returns the first holder of a new table. A nil clock is time.Now.
func NewLocks(now func() time.Time) *Locks {
	if now == nil {
		now = time.Now
	}
	return &Locks{now: now, table: &lockTable{held: map[string]heldLock{}}}
}

// NewHolder returns another holder of the same locks.
func (l *Locks) NewHolder() *Locks { return &Locks{now: l.now, table: l.table} }

// Hold acquires or renews the lock for ttl, and reports whether this holder has it.
func (l *Locks) Hold(_ context.Context, name string, ttl time.Duration) bool {
	now := l.now()
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	l.table.dropLocked(now)
	if h, ok := l.table.held[name]; ok && h.by != l && now.Before(h.until) {
		return false
	}
	l.table.held[name] = heldLock{l, now.Add(ttl)}
	return true
}

// Release releases the lock if this holder has it.
func (l *Locks) Release(_ context.Context, name string) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if l.table.held[name].by == l {
		delete(l.table.held, name)
	}
}

// dropLocked deletes expired locks, once a minute.
func (t *lockTable) dropLocked(now time.Time) {
	if now.Sub(t.sweptAt) < minute {
		return
	}
	t.sweptAt = now
	for name, h := range t.held {
		if !now.Before(h.until) {
			delete(t.held, name)
		}
	}
}

// Hub publishes hints within one process: Publish calls every subscriber on the
// goroutine of the publisher. The zero value is ready to use.
type Hub struct {
	mu   sync.Mutex // serializes changes of list
	list atomic.Pointer[[]*subscriber]
}

type subscriber struct {
	call func(action.Hint)
	gone atomic.Bool
}

// NewHub returns a hub without subscribers.
func NewHub() *Hub { return &Hub{} }

// Publish implements [action.Hints]. It calls subscribers without a lock, so that they
// can publish, subscribe and cancel.
func (h *Hub) Publish(hint action.Hint) {
	list := h.list.Load()
	if list == nil {
		return
	}
	for _, s := range *list {
		if !s.gone.Load() {
			s.call(hint)
		}
	}
}

// Subscribe implements [action.Hints]. No call of f starts after cancel has returned;
// cancel does not wait for a call in progress.
func (h *Hub) Subscribe(f func(action.Hint)) (cancel func()) {
	s := &subscriber{call: f}
	h.change(func(list []*subscriber) []*subscriber { return append(list, s) })
	return func() {
		if s.gone.CompareAndSwap(false, true) {
			h.change(func(list []*subscriber) []*subscriber {
				return slices.DeleteFunc(list, func(o *subscriber) bool { return o == s })
			})
		}
	}
}

// change replaces the list by a changed copy, since a Publish in progress still reads
// the old one.
func (h *Hub) change(f func([]*subscriber) []*subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*subscriber
	if old := h.list.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = f(list)
	h.list.Store(&list)
}
