package coord_test

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

// exerciseHints is the suite that every carrier of hints passes. open returns
// two ends of one carrier: what is published on either reaches the subscribers
// of both. In one process they may be the same.
func exerciseHints(t *testing.T, open func(t *testing.T) (a, b action.Hints)) {
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
