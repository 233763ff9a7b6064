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
	// cacheTTL is how long a trigger and its secrets are cached. Rotated secrets and
	// disabled triggers take effect after that.
	cacheTTL = time.Second
	// maxCacheEntries bounds the cache, including entries for unknown URLs.
	maxCacheEntries = 4096
	// maxUnknownLookups bounds concurrent lookups of uncached URLs, so that a flood of
	// random ids does not delay known ones.
	maxUnknownLookups = 4
)

// cachedTrigger is a trigger with its opened secrets.
type cachedTrigger struct {
	trigger event.Trigger
	secrets [][]byte
}

// triggerCache caches lookups of URLs, also of unknown ones. Of concurrent requests
// for one URL, one does the lookup.
type triggerCache struct {
	now     func() time.Time
	slots   chan struct{} // for concurrent lookups of uncached URLs
	mu      sync.Mutex
	entries map[string]*cacheEntry
}

type cacheEntry struct {
	loadedAt time.Time
	existed  bool // the trigger existed at the previous lookup
	reloaded bool // this entry is an early reload
	stale    bool // an early reload is due
	once     sync.Once
	trigger  *cachedTrigger
	err      error
	exists   atomic.Bool
}

func newTriggerCache(now func() time.Time) *triggerCache {
	return &triggerCache{now: now, slots: make(chan struct{}, maxUnknownLookups), entries: map[string]*cacheEntry{}}
}

// get returns the trigger of a path, or the error of the lookup.
func (l *triggerCache) get(path string, look func() (*cachedTrigger, error)) (*cachedTrigger, error) {
	found := l.entry(path)
	found.once.Do(func() {
		found.err = errors.New("looking up a trigger broke off")
		if found.trigger, found.err = l.load(found, look); found.err == nil {
			found.exists.Store(true)
		} else if !errors.Is(found.err, action.ErrNotFound) {
			l.forget(path, found) // the next request tries again
		}
	})
	return found.trigger, found.err
}

// load does the lookup, within the limit for uncached URLs.
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

// entry returns the entry of a path, or a new one that is to be loaded.
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

// invalidate requests an early reload after a failed verification; false if that was
// just done.
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

// evict makes room, first by removing unknown URLs.
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
