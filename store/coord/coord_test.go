package coord_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/coord"
)

func TestHub(t *testing.T) {
	exerciseHints(t, func(*testing.T) (a, b action.Hints) {
		hub := coord.NewHub()
		return hub, hub
	})
}

func TestCancelDuringPublish(t *testing.T) {
	hub := coord.NewHub()
	var cancel func()
	hub.Subscribe(func(action.Hint) { cancel() })
	cancel = hub.Subscribe(func(action.Hint) { t.Error("called after cancel") })
	hub.Publish(action.Hint{})
}

func TestCounter(t *testing.T) {
	exerciseCounter(t, func(_ *testing.T, limit int, now func() time.Time) action.Limiter {
		return coord.NewCounter(limit, now)
	})
}

func TestIdleCountersAreDeleted(t *testing.T) {
	now := time.Now()
	c := coord.NewCounter(10, func() time.Time { return now })
	for i := range 1000 {
		c.Allow(t.Context(), fmt.Sprint("key ", i))
	}
	now = now.Add(time.Minute)
	c.Allow(t.Context(), "new")
	now = now.Add(time.Minute)
	c.Allow(t.Context(), "new")
	if n := c.Keys(); n != 1 {
		t.Errorf("%d keys are remembered", n)
	}
}

// Each key is remembered for two windows of its own: no longer, and no less.
func TestCountersAreDeletedAfterTheirWindow(t *testing.T) {
	now := time.Now()
	c := coord.NewCounter(10, func() time.Time { return now })
	limit := func(key string, seconds int) action.Limit {
		return action.Limit{Key: key, Rate: action.Rate{Calls: 1, Seconds: seconds}}
	}
	for i := range 1000 {
		c.Take(t.Context(), limit(fmt.Sprint("short ", i), 1))
	}
	c.Take(t.Context(), limit("long", 3600))
	for passed := time.Duration(0); passed < 119*time.Minute; passed += time.Minute {
		now = now.Add(time.Minute)
		c.Allow(t.Context(), "other")
		if n := c.Keys(); n != 2 {
			t.Fatalf("%d keys are remembered after %v", n, passed+time.Minute)
		}
	}
	now = now.Add(time.Minute)
	c.Allow(t.Context(), "other")
	if n := c.Keys(); n != 1 {
		t.Errorf("%d keys are remembered", n)
	}
}

func TestLocks(t *testing.T) {
	exerciseLocks(t, func(_ *testing.T, n int) []holder {
		holders := []holder{coord.NewLocks(nil)}
		for range n - 1 {
			holders = append(holders, holders[0].(*coord.Locks).NewHolder())
		}
		return holders
	})
}

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func BenchmarkCounter(b *testing.B) {
	c := coord.NewCounter(1<<30, nil)
	for b.Loop() {
		c.Allow(b.Context(), "a")
	}
}

func BenchmarkPublish(b *testing.B) {
	hub := coord.NewHub()
	for range 10 {
		hub.Subscribe(func(action.Hint) {})
	}
	for b.Loop() {
		hub.Publish(action.Hint{})
	}
}
