package webhook

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

const (
	// cacheTTL is how long a trigger and its secrets are known without looking:
	// a rotation, or a trigger that was disabled, counts after that.
	cacheTTL = time.Second
	// maxCacheEntries bounds how many are, with those that do not exist.
	maxCacheEntries = 4096
	// maxUnknownLookups is how many URLs of which nothing is known are looked up at
	// once. Those that were there a moment ago do not wait for them.
	maxUnknownLookups = 4
)

// cachedTrigger is a trigger with its secrets, opened.
type cachedTrigger struct {
	trigger event.Trigger
	secrets [][]byte
}

// triggerCache remember for a moment what URLs were found to be, so that neither a
// busy URL nor one that does not exist costs a query each time. Of many who ask
// at once one looks.
type triggerCache struct {
	now     func() time.Time
	slots   chan struct{} // one for each
	mu      sync.Mutex
	entries map[string]*cacheEntry
}

type cacheEntry struct {
	loadedAt time.Time
	existed  bool // it was there before
	reloaded bool // it was looked up before its time
	stale    bool // it is to be looked up before its time
	once     sync.Once
	trigger  *cachedTrigger
	err      error
	exists   atomic.Bool
}

func newTriggerCache(now func() time.Time) *triggerCache {
	return &triggerCache{now: now, slots: make(chan struct{}, maxUnknownLookups), entries: map[string]*cacheEntry{}}
}

// get returns the key of a path, or the error with which looking ended.
func (l *triggerCache) get(path string, look func() (*cachedTrigger, error)) (*cachedTrigger, error) {
	found := l.entry(path)
	found.once.Do(func() {
		found.err = errors.New("looking up a trigger broke off")
		if found.trigger, found.err = l.load(found, look); found.err == nil {
			found.exists.Store(true)
		} else if !errors.Is(found.err, action.ErrNotFound) {
			l.forget(path, found) // the next one tries again
		}
	})
	return found.trigger, found.err
}

// load looks, when its turn comes.
func (l *triggerCache) load(e *cacheEntry, look func() (*cachedTrigger, error)) (*cachedTrigger, error) {
	if e.existed {
		return look()
	}
	select {
	case l.slots <- struct{}{}:
	case <-time.After(lookupTimeout):
		return nil, errors.New("too many unknown URLs are looked up at once")
	}
	defer func() { <-l.slots }()
	return look()
}

// entry returns what is known of a path, or something that is to be filled in.
func (l *triggerCache) entry(path string) *cacheEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, old := l.now(), l.entries[path]
	if old != nil {
		if age := now.Sub(old.loadedAt); age >= 0 && age < cacheTTL && !old.stale {
			return old
		}
	}
	if old == nil && len(l.entries) >= maxCacheEntries {
		l.evict()
	}
	found := &cacheEntry{loadedAt: now, existed: old != nil && old.exists.Load(), reloaded: old != nil && now.Sub(old.loadedAt) < cacheTTL}
	l.entries[path] = found
	return found
}

// invalidate has a path looked up once more before its time, as what was known of it
// did not do; false: that was just done.
func (l *triggerCache) invalidate(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.entries[path]
	if old == nil || old.reloaded {
		return old == nil
	}
	old.stale = true
	return true
}

// evict makes room: first of what was not there.
func (l *triggerCache) evict() {
	for path, e := range l.entries {
		if !e.existed && !e.exists.Load() {
			delete(l.entries, path)
		}
	}
	if len(l.entries) >= maxCacheEntries {
		clear(l.entries)
	}
}

func (l *triggerCache) forget(path string, found *cacheEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries[path] == found {
		delete(l.entries, path)
	}
}
