package ingest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

const (
	// lockAge is how long a trigger and its secrets are known without looking:
	// a rotation, or a trigger that was disabled, counts after that.
	lockAge = time.Second
	// maxLocks bounds how many are, with those that do not exist.
	maxLocks = 4096
	// maxSearches is how many URLs of which nothing is known are looked up at
	// once. Those that were there a moment ago do not wait for them.
	maxSearches = 4
)

// key is a trigger with its secrets, opened.
type key struct {
	trigger event.Trigger
	secrets [][]byte
}

// locks remember for a moment what URLs were found to be, so that neither a
// busy URL nor one that does not exist costs a query each time. Of many who ask
// at once one looks.
type locks struct {
	now      func() time.Time
	searches chan struct{} // one for each
	mu       sync.Mutex
	all      map[string]*lockEntry
}

type lockEntry struct {
	at    time.Time
	known bool // it was there before
	again bool // it was looked up before its time
	stale bool // it is to be looked up before its time
	once  sync.Once
	key   *key
	err   error
	found atomic.Bool
}

func newLocks(now func() time.Time) *locks {
	return &locks{now: now, searches: make(chan struct{}, maxSearches), all: map[string]*lockEntry{}}
}

// get returns the key of a path, or the error with which looking ended.
func (l *locks) get(path string, look func() (*key, error)) (*key, error) {
	found := l.entry(path)
	found.once.Do(func() {
		found.err = errors.New("looking up a trigger broke off")
		if found.key, found.err = l.search(found, look); found.err == nil {
			found.found.Store(true)
		} else if !errors.Is(found.err, action.ErrNotFound) {
			l.forget(path, found) // the next one tries again
		}
	})
	return found.key, found.err
}

// search looks, when its turn comes.
func (l *locks) search(e *lockEntry, look func() (*key, error)) (*key, error) {
	if e.known {
		return look()
	}
	select {
	case l.searches <- struct{}{}:
	case <-time.After(lookTimeout):
		return nil, errors.New("too many unknown URLs are looked up at once")
	}
	defer func() { <-l.searches }()
	return look()
}

// entry returns what is known of a path, or something that is to be filled in.
func (l *locks) entry(path string) *lockEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, old := l.now(), l.all[path]
	if old != nil {
		if age := now.Sub(old.at); age >= 0 && age < lockAge && !old.stale {
			return old
		}
	}
	if old == nil && len(l.all) >= maxLocks {
		l.evict()
	}
	found := &lockEntry{at: now, known: old != nil && old.found.Load(), again: old != nil && now.Sub(old.at) < lockAge}
	l.all[path] = found
	return found
}

// renew has a path looked up once more before its time, as what was known of it
// did not do; false: that was just done.
func (l *locks) renew(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.all[path]
	if old == nil || old.again {
		return old == nil
	}
	old.stale = true
	return true
}

// evict makes room: first of what was not there.
func (l *locks) evict() {
	for path, e := range l.all {
		if !e.known && !e.found.Load() {
			delete(l.all, path)
		}
	}
	if len(l.all) >= maxLocks {
		clear(l.all)
	}
}

func (l *locks) forget(path string, found *lockEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[path] == found {
		delete(l.all, path)
	}
}
