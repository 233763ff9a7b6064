package coord

import (
	"context"
	"sync"
	"time"
)

// Locks holds short locks within one process. Each value is one holder;
// [Locks.NewHolder] adds another. The goroutines of a holder share its locks: a
// second Hold renews.
type Locks struct {
	now   func() time.Time
	table *lockTable
}

// lockTable is shared by several holders.
type lockTable struct {
	mu      sync.Mutex // protects held
	held    map[string]heldLock
	sweptAt time.Time // when expired locks were last deleted
}

type heldLock struct {
	by    *Locks
	until time.Time
}

// NewLocks returns the first holder of a new table. A nil clock is time.Now.
func NewLocks(now func() time.Time) *Locks {
	if now == nil {
		now = time.Now
	}
	return &Locks{now: now, table: &lockTable{held: map[string]heldLock{}}}
}

// NewHolder returns another holder of the same locks.
func (l *Locks) NewHolder() *Locks { return &Locks{now: l.now, table: l.table} }

// Hold acquires or renews the lock for ttl, and reports whether this holder has it.
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

// Release releases the lock if this holder has it.
func (l *Locks) Release(_ context.Context, name string) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if l.table.held[name].by == l {
		delete(l.table.held, name)
	}
}

// dropLocked deletes expired locks, once a minute.
func (t *lockTable) dropLocked(now time.Time) {
	if now.Sub(t.sweptAt) < minute {
		return
	}
	t.sweptAt = now
	for name, h := range t.held {
		if !now.Before(h.until) {
			delete(t.held, name)
		}
	}
}
