package coord_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// holder is one of those that contend for locks.
type holder interface {
	Hold(ctx context.Context, name string, ttl time.Duration) bool
	Release(ctx context.Context, name string)
}

// exerciseLocks is the suite that short locks pass. open returns n holders of
// the same locks.
func exerciseLocks(t *testing.T, open func(t *testing.T, n int) []holder) {
	two := func(t *testing.T) (a, b holder) {
		h := open(t, 2)
		return h[0], h[1]
	}
	// gets waits until h has the lock.
	gets := func(t *testing.T, h holder, name string) {
		t.Helper()
		for end := time.Now().Add(arrival); !h.Hold(t.Context(), name, time.Hour); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the lock does not lapse")
			}
		}
	}
	t.Run("one holder at a time, of each lock", func(t *testing.T) {
		a, b := two(t)
		if !a.Hold(t.Context(), "x", time.Hour) || b.Hold(t.Context(), "x", time.Hour) {
			t.Error("x is not a's alone")
		}
		if !b.Hold(t.Context(), "y", time.Hour) || a.Hold(t.Context(), "y", time.Hour) {
			t.Error("y is not b's alone")
		}
	})
	t.Run("it lapses", func(t *testing.T) {
		a, b := two(t)
		a.Hold(t.Context(), "x", 20*time.Millisecond)
		gets(t, b, "x")
		if a.Hold(t.Context(), "x", time.Hour) {
			t.Error("both have it")
		}
	})
	t.Run("its holder renews it", func(t *testing.T) {
		a, b := two(t)
		for range 3 {
			if !a.Hold(t.Context(), "x", 50*time.Millisecond) {
				t.Fatal("not taken") // nobody else wants it
			}
		}
		a.Hold(t.Context(), "x", time.Hour)
		time.Sleep(100 * time.Millisecond) // the first times have passed
		if b.Hold(t.Context(), "x", time.Hour) {
			t.Fatal("b has what a renewed")
		}
		a.Hold(t.Context(), "x", time.Microsecond)
		gets(t, b, "x")
	})
	t.Run("its holder gives it back, and nobody else does", func(t *testing.T) {
		a, b := two(t)
		b.Release(t.Context(), "x") // nobody has it
		a.Hold(t.Context(), "x", time.Hour)
		b.Release(t.Context(), "x")
		if b.Hold(t.Context(), "x", time.Hour) {
			t.Fatal("b gave back what a has")
		}
		a.Release(t.Context(), "x")
		if !b.Hold(t.Context(), "x", time.Hour) {
			t.Error("a gave it back, b does not get it")
		}
	})
	t.Run("of many at once one has it", func(t *testing.T) {
		holders := open(t, 16)
		for _, name := range []string{"x", "y", "z"} {
			var won atomic.Int64
			var wg sync.WaitGroup
			for _, h := range holders {
				wg.Go(func() {
					if h.Hold(t.Context(), name, time.Hour) {
						won.Add(1)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Errorf("%d have %s", won.Load(), name)
			}
		}
	})
}
