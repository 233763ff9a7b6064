package coord_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
)

// opener returns a limiter that allows limit calls a minute of a session, and
// reads the time from now.
type opener func(t *testing.T, limit int, now func() time.Time) action.Limiter

// exerciseCounter is the suite that every limiter passes: a session's own rate,
// and limits with short and long windows, which all slide in the same way.
func exerciseCounter(t *testing.T, open opener) {
	t.Run("a session's own rate", func(t *testing.T) {
		slides(t, time.Minute, func(t *testing.T, calls int, now func() time.Time) counting {
			return open(t, calls, now).Allow
		})
	})
	for _, seconds := range []int{1, 7, 86_400} {
		t.Run(fmt.Sprintf("a limit in %d s", seconds), func(t *testing.T) {
			slides(t, time.Duration(seconds)*time.Second, func(t *testing.T, calls int, now func() time.Time) counting {
				return taking(open(t, 1, now), calls, seconds)
			})
		})
	}
	limits(t, open)
}

// counting counts one call of a key, as the methods of [action.Limiter] do.
type counting func(ctx context.Context, key string) time.Duration

func taking(l action.Limiter, calls, seconds int) counting {
	return func(ctx context.Context, key string) time.Duration {
		return l.Take(ctx, action.Limit{Key: key, Rate: action.Rate{Calls: calls, Seconds: seconds}})
	}
}

// spend makes calls until one is refused, n at most.
func (count counting) spend(t *testing.T, key string, n int) (allowed int, wait time.Duration) {
	for allowed = range n {
		if wait = count(t.Context(), key); wait > 0 {
			return allowed, wait
		}
	}
	return n, 0
}

// slides exercises one way of counting. open returns it with so many calls in
// the window.
func slides(t *testing.T, window time.Duration, open func(t *testing.T, calls int, now func() time.Time) counting) {
	begin := func(t *testing.T, calls int) (counting, *clock) {
		c := newClock()
		return open(t, calls, c.now), c
	}
	t.Run("so many in a window, and no more", func(t *testing.T) {
		count, _ := begin(t, 60)
		got, wait := count.spend(t, "a", 100)
		if got != 60 || wait <= 0 || wait > 2*window {
			t.Fatalf("%d calls, then wait %v", got, wait)
		}
		if got, _ := count.spend(t, "b", 100); got != 60 {
			t.Errorf("another key: %d calls", got)
		}
	})
	t.Run("whoever waits as told gets on", func(t *testing.T) {
		count, clock := begin(t, 5)
		count.spend(t, "a", 5)
		for range 20 {
			wait := count(t.Context(), "a")
			if wait <= 0 {
				continue
			}
			clock.pass(wait)
			if again := count(t.Context(), "a"); again > 0 {
				t.Fatalf("after %v: wait %v more", wait, again)
			}
		}
	})
	t.Run("two windows of rest free all", func(t *testing.T) {
		count, clock := begin(t, 5)
		count.spend(t, "a", 5)
		clock.pass(2 * window)
		if got, _ := count.spend(t, "a", 100); got != 5 {
			t.Errorf("%d calls", got)
		}
	})
	t.Run("a refused call does not count", func(t *testing.T) {
		count, clock := begin(t, 5)
		count.spend(t, "a", 5)
		for range 100 {
			count(t.Context(), "a")
		}
		clock.pass(2 * window)
		if got, _ := count.spend(t, "a", 100); got != 5 {
			t.Errorf("%d calls", got)
		}
	})
	t.Run("no rhythm gets more than twice the limit through any window", func(t *testing.T) {
		count, clock := begin(t, 10)
		var calls []time.Duration
		beat := window / 120
		for at := time.Duration(0); at < 10*window; at += beat {
			if count(t.Context(), "a") == 0 {
				calls = append(calls, at)
			}
			clock.pass(beat)
		}
		if len(calls) < 80 {
			t.Errorf("only %d calls in ten windows", len(calls))
		}
		for i := range calls {
			n := 0
			for _, at := range calls[i:] {
				if at < calls[i]+window {
					n++
				}
			}
			if n > 20 {
				t.Errorf("%d calls in the window from %v", n, calls[i])
			}
		}
	})
	t.Run("a burst at a window's end counts in the next", func(t *testing.T) {
		count, clock := begin(t, 10)
		count.spend(t, "a", 1)
		clock.pass(window * 59 / 60)
		count.spend(t, "a", 9)
		clock.pass(window * 2 / 60)
		got, wait := count.spend(t, "a", 10)
		if got != 1 || wait < window*4/60 || wait > window*6/60 {
			t.Errorf("%d calls, then wait %v; want one, and about a twelfth of %v", got, wait, window)
		}
	})
	t.Run("64 callers at once get what one would", func(t *testing.T) {
		count, _ := begin(t, 60)
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 10 {
					if count(t.Context(), "a") == 0 {
						allowed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if allowed.Load() != 60 {
			t.Errorf("%d calls", allowed.Load())
		}
	})
}

// limits exercises what is only so of limits, and of both kinds together.
func limits(t *testing.T, open opener) {
	t.Run("zero is no limit of a session's own", func(t *testing.T) {
		l := open(t, 0, newClock().now)
		if got, wait := counting(l.Allow).spend(t, "a", 1000); got != 1000 {
			t.Errorf("%d calls, then wait %v", got, wait)
		}
		if got, _ := taking(l, 3, 60).spend(t, "a", 100); got != 3 {
			t.Errorf("%d calls of a limit", got)
		}
	})
	t.Run("the own rate and limits of the same key count apart", func(t *testing.T) {
		l := open(t, 2, newClock().now)
		for name, count := range map[string]counting{"own": l.Allow, "minute": taking(l, 2, 60), "hour": taking(l, 2, 3600)} {
			if got, _ := count.spend(t, "a", 100); got != 2 {
				t.Errorf("%s: %d calls", name, got)
			}
		}
	})
	t.Run("another number of calls holds at once", func(t *testing.T) {
		clock := newClock()
		l := open(t, 1, clock.now)
		taking(l, 5, 60).spend(t, "a", 5)
		if got, _ := taking(l, 8, 60).spend(t, "a", 100); got != 3 {
			t.Errorf("raised from 5 to 8: %d more calls", got)
		}
		fewer := taking(l, 2, 60)
		wait := fewer(t.Context(), "a")
		if wait <= time.Minute || wait > 2*time.Minute {
			t.Fatalf("lowered to 2 after 8: wait %v", wait)
		}
		clock.pass(wait)
		if again := fewer(t.Context(), "a"); again > 0 {
			t.Errorf("whoever waits %v as told waits %v more", wait, again)
		}
	})
	t.Run("another window holds at once", func(t *testing.T) {
		clock := newClock()
		l := open(t, 1, clock.now)
		taking(l, 5, 3600).spend(t, "a", 5)
		short := taking(l, 5, 10)
		if got, wait := short.spend(t, "a", 100); got != 5 || wait > 20*time.Second {
			t.Errorf("%d calls, then wait %v", got, wait)
		}
		clock.pass(20 * time.Second)
		if got, _ := short.spend(t, "a", 100); got != 5 {
			t.Errorf("after two windows: %d calls", got)
		}
		if wait := taking(l, 5, 3600)(t.Context(), "a"); wait == 0 {
			t.Error("the hour is forgotten")
		}
	})
	t.Run("what is no rate lets nothing through", func(t *testing.T) {
		l := open(t, 1, newClock().now)
		for _, r := range []action.Rate{{}, {Calls: 1}, {Seconds: 1}, {Calls: -1, Seconds: 60}, {Calls: 1, Seconds: -60}} {
			if wait := taking(l, r.Calls, r.Seconds)(t.Context(), "a"); wait <= 0 {
				t.Errorf("%+v: wait %v", r, wait)
			}
		}
	})
}

// clock stands still until it is told.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 21, 12, 0, 30, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}
