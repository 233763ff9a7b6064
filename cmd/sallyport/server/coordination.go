package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/store"
	"sallyport/store/coord"
)

// coordination is what instances share beside rows: hints, the counting of
// calls, locks. None of it is truth.
type coordination struct {
	action.Hints
	action.Limiter
	locks
	deliver func(action.Hint) // to this instance alone
	valkey  *coord.Valkey     // nil: this process alone
}

// openCoordination builds it; nothing is connected before run.
func (g *Gateway) openCoordination(context.Context) error {
	if g.Options.ValkeyURL == "" {
		hub := coord.NewHub()
		g.coord = coordination{Hints: hub, Limiter: coord.NewCounter(g.Options.RateLimit, time.Now), locks: g.locks(), deliver: hub.Publish}
		return nil
	}
	valkey, err := coord.NewValkey(coord.ValkeyConfig{
		URL: g.Options.ValkeyURL, Instance: g.instance, Limit: g.Options.RateLimit,
		Timeout: g.Options.Intervals.ValkeyTimeout, Heartbeat: g.Options.Intervals.ValkeyHeartbeat, Resumed: g.watch.resume, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.coord = coordination{Hints: valkey, Limiter: valkey, locks: valkeyLocks{valkey, g.locks()}, deliver: valkey.Deliver, valkey: valkey}
	return nil
}

// locks are those that need no Valkey.
func (g *Gateway) locks() locks {
	if g.DB.Shared() {
		return &rowLocks{db: g.DB, instance: g.instance, log: g.log}
	}
	return coord.NewLocks(time.Now)
}

// hinted tells whether the hints of other instances arrive.
func (g *Gateway) hinted() bool {
	if !g.DB.Shared() {
		return true // there are none
	}
	return g.coord.valkey != nil && g.coord.valkey.Healthy()
}

// rowLocks are locks kept as rows: of the instances that share a database,
// with or without a Valkey, one holds each.
type rowLocks struct {
	db       *store.DB
	instance string
	log      *slog.Logger

	mu      sync.Mutex
	renewed map[string]time.Time // those held here, by this machine's clock
}

// Hold implements locks. It writes the row when a third of the time is over,
// and not each time that it is asked.
func (l *rowLocks) Hold(ctx context.Context, name string, ttl time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.renewed[name]; ok && now.Sub(at) < ttl/3 {
		return true
	}
	held, err := l.db.Hold(ctx, name, l.instance, ttl)
	if err != nil && ctx.Err() == nil {
		l.log.Warn("taking a lock", "lock", name, "error", err)
	}
	if !held || err != nil {
		delete(l.renewed, name)
		return false
	}
	if l.renewed == nil {
		l.renewed = map[string]time.Time{}
	}
	l.renewed[name] = now
	return true
}

// Release implements locks.
func (l *rowLocks) Release(ctx context.Context, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.renewed[name]; !held {
		return
	}
	delete(l.renewed, name)
	if err := l.db.Release(ctx, name, l.instance); err != nil {
		l.log.Warn("releasing a lock; it lapses by itself", "lock", name, "error", err)
	}
}

// valkeyLocks are in Valkey, and in rows while it is away.
type valkeyLocks struct {
	valkey *coord.Valkey
	rows   locks
}

// Hold implements locks.
func (l valkeyLocks) Hold(ctx context.Context, name string, ttl time.Duration) bool {
	if l.valkey.Healthy() {
		return l.valkey.Hold(ctx, name, ttl)
	}
	return l.rows.Hold(ctx, name, ttl)
}

// Release implements locks.
func (l valkeyLocks) Release(ctx context.Context, name string) {
	l.valkey.Release(ctx, name)
	l.rows.Release(ctx, name)
}
