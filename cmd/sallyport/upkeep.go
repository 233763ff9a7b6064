package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// chore is work that comes again and again.
type chore struct {
	name  string
	every time.Duration
	// once: of the instances that share rows one does it at a time.
	once bool
	do   func(context.Context)
}

// locks make sure that one instance at a time does something. Around the loss
// of an instance or a server two may hold one for a moment: what is done under
// them must be right then, too.
type locks interface {
	Hold(ctx context.Context, name string, ttl time.Duration) bool
	Release(ctx context.Context, name string)
}

// lockFor is how long a chore's lock outlives the instance that held it: it is
// renewed each time, so another one takes over a few seconds after a crash.
func (c chore) lockFor() time.Duration { return max(3*c.every, 5*time.Second) }

// upkeep does the chores until ctx ends. One that is still busy when its time
// comes again is left alone.
func upkeep(ctx context.Context, locks locks, log *slog.Logger, chores []chore) error {
	quiet := cron.DiscardLogger
	clock := cron.New(cron.WithLogger(quiet), cron.WithChain(cron.SkipIfStillRunning(quiet)))
	for _, c := range chores {
		clock.Schedule(every(c.every), cron.FuncJob(func() { c.round(ctx, locks, log) }))
	}
	clock.Start()
	<-ctx.Done()
	<-clock.Stop().Done()
	released, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	for _, c := range chores {
		if c.once {
			locks.Release(released, c.name) // the next instance need not wait
		}
	}
	return ctx.Err()
}

// round does the chore once. A panic must not end it for good, nor the
// program.
func (c chore) round(ctx context.Context, locks locks, log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a chore panicked", "chore", c.name, "panic", p)
		}
	}()
	if ctx.Err() != nil || c.once && !locks.Hold(ctx, c.name, c.lockFor()) {
		return
	}
	if !c.once {
		c.do(ctx)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { c.keep(ctx, locks, stop) })
	defer keeping.Wait()
	defer stop()
	c.do(ctx)
}

// keep renews the lock of a chore that takes long, and stops the chore when
// another instance has it.
func (c chore) keep(ctx context.Context, locks locks, stop func()) {
	renew := time.NewTicker(c.lockFor() / 3)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			if !locks.Hold(ctx, c.name, c.lockFor()) && ctx.Err() == nil {
				stop()
				return
			}
		}
	}
}

// every is a cron schedule whose steps may be shorter than a second.
type every time.Duration

// Next implements cron.Schedule.
func (e every) Next(t time.Time) time.Time { return t.Add(time.Duration(e)) }
