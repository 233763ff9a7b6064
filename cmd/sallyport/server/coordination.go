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

// coordination has the state that instances share outside the database: hints, rate
// counters and locks. Without it, calls are slower but still correct.
type coordination struct {
	action.Hints
	action.Limiter
	locks
	deliver func(action.Hint) // to this instance only
	valkey  *coord.Valkey     // nil: within this process
}

// openCoordination opens the coordination. It connects to nothing before Run.
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

// locks returns locks that do not need Valkey.
func (g *Gateway) locks() locks {
	if g.DB.Shared() {
		return &rowLocks{db: g.DB, instance: g.instance, log: g.log}
	}
	return coord.NewLocks(time.Now)
}

// hinted reports whether hints of other instances arrive.
func (g *Gateway) hinted() bool {
	if !g.DB.Shared() {
		return true // there are no other instances
	}
	return g.coord.valkey != nil && g.coord.valkey.Healthy()
}

// rowLocks are locks in rows, for instances that share a database.
type rowLocks struct {
	db       *store.DB
	instance string
	log      *slog.Logger

	mu      sync.Mutex
	renewed map[string]time.Time // locks that this instance holds, by its own clock
}

// Hold implements locks. It renews the row after a third of ttl, not on each call.
func (l *rowLocks) Hold(ctx context.Context, name string, ttl time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.renewed[name]; ok && now.Sub(at) < ttl/3 {
		return true
	}
	held, err := l.db.Hold(ctx, name, l.instance, ttl)
	if err != nil && ctx.Err() == nil {
		l.log.Warn("could not acquire a lock", "lock", name, "error", err)
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
		l.log.Warn("could not release a lock; it will expire", "lock", name, "error", err)
	}
}

// valkeyLocks are locks in Valkey, or in rows while Valkey is unavailable.
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
