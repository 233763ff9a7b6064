package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// alone holds every lock.
type alone struct{}

func (alone) Hold(context.Context, string, time.Duration) bool { return true }

func (alone) Release(context.Context, string) {}

// never holds none, and remembers what was let go.
type never struct{ released atomic.Int64 }

func (n *never) Hold(context.Context, string, time.Duration) bool { return false }

func (n *never) Release(context.Context, string) { n.released.Add(1) }

func TestChoresGoOnAfterAPanic(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	rounds := make(chan struct{}, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = runJobs(ctx, alone{}, slog.New(slog.DiscardHandler), []job{{name: "brittle", every: time.Millisecond, do: func(context.Context) {
			rounds <- struct{}{}
			panic("no")
		}}})
	}()
	for range 3 {
		<-rounds
	}
	stop()
	<-done
}

func TestOnlyTheHolderDoesAChore(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	locks := &never{}
	var each, once atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = runJobs(ctx, locks, slog.New(slog.DiscardHandler), []job{
			{name: "each", every: time.Millisecond, do: func(context.Context) { each.Add(1) }},
			{name: "once", every: time.Millisecond, once: true, do: func(context.Context) { once.Add(1) }},
		})
	}()
	for each.Load() < 20 {
		time.Sleep(time.Millisecond)
	}
	stop()
	<-done
	if once.Load() != 0 {
		t.Errorf("done %d times without the lock", once.Load())
	}
	if locks.released.Load() != 1 {
		t.Errorf("%d locks let go at the end, want one", locks.released.Load())
	}
}

// lost is a lock that is taken away while its job works.
type lost struct{ asked atomic.Int64 }

func (l *lost) Hold(context.Context, string, time.Duration) bool { return l.asked.Add(1) == 1 }

func (l *lost) Release(context.Context, string) {}

func TestAChoreEndsWithItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		c := job{name: "long", every: time.Second, once: true, do: func(ctx context.Context) { <-ctx.Done(); ended = true }}
		c.round(t.Context(), &lost{}, slog.New(slog.DiscardHandler))
		if !ended {
			t.Error("the job went on")
		}
	})
}
