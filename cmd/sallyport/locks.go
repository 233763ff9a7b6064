package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sallyport/store"
	"sallyport/store/coord"
)

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
