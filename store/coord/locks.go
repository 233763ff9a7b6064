package coord

import (
	"context"
	"sync"
	"time"
)

// Locks are short locks within one process, held by whoever has this value;
// [Locks.Beside] makes another holder. All goroutines of one holder share its
// locks: a second Hold renews.
type Locks struct {
	now   func() time.Time
	table *lockTable
}

// lockTable is what several holders contend for.
type lockTable struct {
	mu    sync.Mutex // protects held
	held  map[string]heldLock
	sweep time.Time // when lapsed ones were last dropped
}

type heldLock struct {
	by    *Locks
	until time.Time
}

// NewLocks returns the first holder of a table of its own. A nil clock is
// time.Now.
func NewLocks(now func() time.Time) *Locks {
	if now == nil {
		now = time.Now
	}
	return &Locks{now: now, table: &lockTable{held: map[string]heldLock{}}}
}

// Beside returns another holder of the same locks.
func (l *Locks) Beside() *Locks { return &Locks{now: l.now, table: l.table} }

// Hold takes the lock for ttl, or renews it, and reports whether it is held
// now.
func (l *Locks) Hold(_ context.Context, name string, ttl time.Duration) bool {
	now := l.now()
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	l.table.dropLocked(now)
	if h, ok := l.table.held[name]; ok && h.by != l && now.Before(h.until) {
		return false
	}
	l.table.held[name] = heldLock{l, now.Add(ttl)}
	return true
}

// Release gives the lock back when it is held here, and else does nothing.
func (l *Locks) Release(_ context.Context, name string) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if l.table.held[name].by == l {
		delete(l.table.held, name)
	}
}

// dropLocked forgets lapsed locks, once a minute.
func (t *lockTable) dropLocked(now time.Time) {
	if now.Sub(t.sweep) < minute {
		return
	}
	t.sweep = now
	for name, h := range t.held {
		if !now.Before(h.until) {
			delete(t.held, name)
		}
	}
}
