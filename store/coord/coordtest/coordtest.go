// Package coordtest is the suite that every carrier of hints, every counter of
// calls and every keeper of locks passes.
package coordtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
)

// arrival bounds the wait for a hint that must come.
const arrival = 5 * time.Second

// Hints exercises a carrier of hints. open returns two ends of one carrier:
// what is published on either reaches the subscribers of both. In one process
// they may be the same.
func Hints(t *testing.T, open func(t *testing.T) (a, b action.Hints)) {
	t.Run("a hint reaches every subscriber at every end", func(t *testing.T) {
		a, b := open(t)
		boxes := []*box{subscribe(t, a), subscribe(t, a), subscribe(t, b)}
		for i, end := range []action.Hints{a, b} {
			h := hint(i)
			end.Publish(h)
			for _, x := range boxes {
				x.want(t, h)
			}
		}
	})
	t.Run("hints of one publisher come in order", func(t *testing.T) {
		a, b := open(t)
		x := subscribe(t, b)
		for i := range 100 {
			a.Publish(hint(i))
		}
		for i := range 100 {
			x.want(t, hint(i))
		}
	})
	t.Run("nothing comes after cancel, and cancel may be said twice", func(t *testing.T) {
		a, b := open(t)
		var calls atomic.Int64
		cancel := b.Subscribe(func(action.Hint) { calls.Add(1) })
		x := subscribe(t, b)
		cancel()
		cancel()
		a.Publish(hint(1))
		x.want(t, hint(1))
		if calls.Load() != 0 {
			t.Error("called after cancel")
		}
	})
	t.Run("a subscriber may publish, subscribe and cancel", func(t *testing.T) {
		a, b := open(t)
		x := subscribe(t, a)
		var once sync.Once
		ready := make(chan func(), 1)
		cancel := b.Subscribe(func(action.Hint) {
			once.Do(func() {
				(<-ready)()
				inner := b.Subscribe(func(action.Hint) {})
				inner()
				b.Publish(hint(2))
			})
		})
		ready <- cancel
		a.Publish(hint(1))
		got := map[string]bool{x.next(t).Invocation: true, x.next(t).Invocation: true}
		if !got[hint(1).Invocation] || !got[hint(2).Invocation] {
			t.Errorf("got %v", got)
		}
	})
	t.Run("many publish, subscribe and cancel at once", func(t *testing.T) {
		a, b := open(t)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for range 20 {
					cancel := b.Subscribe(func(action.Hint) {})
					a.Publish(hint(i))
					cancel()
				}
			})
		}
		wg.Wait()
		x := subscribe(t, b)
		a.Publish(hint(99))
		for x.next(t) != hint(99) { // late ones of before may come first
			continue
		}
	})
	t.Run("publishing to nobody is fine", func(t *testing.T) {
		a, _ := open(t)
		a.Publish(hint(1))
	})
}

func hint(i int) action.Hint {
	return action.Hint{
		Kind: action.HintInvocation, Organization: "o", Session: "s", Invocation: fmt.Sprint("invocation ", i), Status: action.StatusApproved,
	}
}

// box holds the hints that came.
type box struct{ c chan action.Hint }

func subscribe(t *testing.T, h action.Hints) *box {
	t.Helper()
	x := &box{make(chan action.Hint, 10_000)}
	cancel := h.Subscribe(func(h action.Hint) { x.c <- h })
	t.Cleanup(cancel)
	return x
}

func (x *box) next(t *testing.T) action.Hint {
	t.Helper()
	select {
	case h := <-x.c:
		return h
	case <-time.After(arrival):
		t.Fatal("no hint came")
		return action.Hint{}
	}
}

func (x *box) want(t *testing.T, want action.Hint) {
	t.Helper()
	if got := x.next(t); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// Counter exercises a limiter of calls a minute. open returns one that allows
// limit calls of a key and reads the time from now.
func Counter(t *testing.T, open func(t *testing.T, limit int, now func() time.Time) action.Limiter) {
	start := time.Date(2026, 11, 21, 12, 0, 30, 0, time.UTC)
	type clocked struct {
		action.Limiter
		clock *clock
	}
	begin := func(t *testing.T, limit int) clocked {
		c := &clock{t: start}
		return clocked{open(t, limit, c.now), c}
	}
	// spend makes calls until one is refused, n at most.
	spend := func(t *testing.T, c clocked, key string, n int) (allowed int, wait time.Duration) {
		for allowed = range n {
			if wait = c.Allow(t.Context(), key); wait > 0 {
				return allowed, wait
			}
		}
		return n, 0
	}
	t.Run("so many a minute, and no more", func(t *testing.T) {
		c := begin(t, 60)
		got, wait := spend(t, c, "a", 100)
		if got != 60 || wait <= 0 || wait > 2*time.Minute {
			t.Fatalf("%d calls, then wait %v", got, wait)
		}
		if got, _ := spend(t, c, "b", 100); got != 60 {
			t.Errorf("another key: %d calls", got)
		}
	})
	t.Run("whoever waits as told gets on", func(t *testing.T) {
		c := begin(t, 5)
		spend(t, c, "a", 5)
		for range 20 {
			wait := c.Allow(t.Context(), "a")
			if wait <= 0 {
				continue
			}
			c.clock.pass(wait)
			if again := c.Allow(t.Context(), "a"); again > 0 {
				t.Fatalf("after %v: wait %v more", wait, again)
			}
		}
	})
	t.Run("two minutes of rest free all", func(t *testing.T) {
		c := begin(t, 5)
		spend(t, c, "a", 5)
		c.clock.pass(2 * time.Minute)
		if got, _ := spend(t, c, "a", 100); got != 5 {
			t.Errorf("%d calls", got)
		}
	})
	t.Run("a refused call does not count", func(t *testing.T) {
		c := begin(t, 5)
		spend(t, c, "a", 5)
		for range 100 {
			c.Allow(t.Context(), "a")
		}
		c.clock.pass(2 * time.Minute)
		if got, _ := spend(t, c, "a", 100); got != 5 {
			t.Errorf("%d calls", got)
		}
	})
	t.Run("no rhythm gets more than twice the limit through any minute", func(t *testing.T) {
		c := begin(t, 10)
		var calls []time.Duration
		for at := time.Duration(0); at < 10*time.Minute; at += 500 * time.Millisecond {
			if c.Allow(t.Context(), "a") == 0 {
				calls = append(calls, at)
			}
			c.clock.pass(500 * time.Millisecond)
		}
		if len(calls) < 80 {
			t.Errorf("only %d calls in ten minutes", len(calls))
		}
		for i := range calls {
			n := 0
			for _, at := range calls[i:] {
				if at < calls[i]+time.Minute {
					n++
				}
			}
			if n > 20 {
				t.Errorf("%d calls in the minute from %v", n, calls[i])
			}
		}
	})
	t.Run("a burst at a minute's end counts in the next", func(t *testing.T) {
		c := begin(t, 10)
		spend(t, c, "a", 1)
		c.clock.pass(59 * time.Second)
		spend(t, c, "a", 9)
		c.clock.pass(2 * time.Second)
		got, wait := spend(t, c, "a", 10)
		if got != 1 || wait < 4*time.Second || wait > 6*time.Second {
			t.Errorf("%d calls, then wait %v; want one, and about 5 s", got, wait)
		}
	})
	t.Run("zero is no limit", func(t *testing.T) {
		c := begin(t, 0)
		if got, wait := spend(t, c, "a", 1000); got != 1000 {
			t.Errorf("%d calls, then wait %v", got, wait)
		}
	})
	t.Run("64 callers at once get what one would", func(t *testing.T) {
		c := begin(t, 60)
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 10 {
					if c.Allow(t.Context(), "a") == 0 {
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

// clock stands still until it is told.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

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
