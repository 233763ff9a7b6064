package dashboard

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/action"
)

// Window is the period that statistics cover, in buckets of equal width. The last
// bucket is in progress.
type Window struct {
	Name, Words string // in a URL, and after "the last"
	width       time.Duration
	buckets     int
}

// Windows lists the windows that statistics can have.
func Windows() []Window {
	return []Window{
		{"1h", "hour", time.Minute, 60},
		{"24h", "24 hours", 30 * time.Minute, 48},
		{"7d", "7 days", 3 * time.Hour, 56},
		{"30d", "30 days", 12 * time.Hour, 60},
	}
}

// FindWindow returns the window of a name; empty: the default.
func FindWindow(name string) (Window, error) {
	i := slices.IndexFunc(Windows(), func(w Window) bool { return w.Name == cmp.Or(name, "24h") })
	if i < 0 {
		return Window{}, Invalid("/window", "window must be 1h, 24h, 7d or 30d.")
	}
	return Windows()[i], nil
}

const (
	maxCachedStatistics = 200
	statisticsTTL       = 10 * time.Second // how long a result is reused at least
	statisticsTTLFactor = 20               // and as a multiple of the time that counting took
)

// statisticsCache caches recent statistics. One goroutine counts at a time, and
// counting takes at most a twentieth of the time per window, so that open charts
// hardly slow calls down.
type statisticsCache struct {
	counting chan struct{} // a semaphore of one

	mu      sync.Mutex // guards entries
	entries map[statisticsKey]cachedStatistics
}

type statisticsKey struct{ organization, window string }

type cachedStatistics struct {
	action.Statistics
	computedAt, expiresAt time.Time
}

// CachedStatistics returns an organization's statistics, counted recently, and
// when they were counted.
func (s *Server) CachedStatistics(ctx context.Context, organization string, w Window) (action.Statistics, time.Time, error) {
	found, err := s.statistics.get(ctx, s, organization, w)
	return found.Statistics, found.computedAt, err
}

// get returns the statistics of an organization, and counts again if they are old.
func (f *statisticsCache) get(ctx context.Context, s *Server, organization string, w Window) (cachedStatistics, error) {
	key := statisticsKey{organization, w.Name}
	if found, ok := f.lookup(key, s.Now()); ok {
		return found, nil
	}
	select {
	case f.counting <- struct{}{}:
		defer func() { <-f.counting }()
	case <-ctx.Done():
		return cachedStatistics{}, ctx.Err()
	}
	if found, ok := f.lookup(key, s.Now()); ok { // counted while this request waited
		return found, nil
	}
	begun := s.Now()
	to := begun.Truncate(w.width).Add(w.width)
	counted, err := s.Calls.Statistics(ctx, organization, action.Period{From: to.Add(-time.Duration(w.buckets) * w.width), To: to, Width: w.width})
	if err != nil {
		return cachedStatistics{}, err
	}
	now := s.Now()
	found := cachedStatistics{counted, begun, now.Add(max(statisticsTTL, statisticsTTLFactor*now.Sub(begun)))}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries[key] = found
	maps.DeleteFunc(f.entries, func(_ statisticsKey, old cachedStatistics) bool { return !now.Before(old.expiresAt) })
	for len(f.entries) > maxCachedStatistics { // evict those that expire first
		delete(f.entries, slices.MinFunc(slices.Collect(maps.Keys(f.entries)), func(a, b statisticsKey) int {
			return cmp.Or(f.entries[a].expiresAt.Compare(f.entries[b].expiresAt), cmp.Compare(a.organization, b.organization))
		}))
	}
	return found, nil
}

func (f *statisticsCache) lookup(key statisticsKey, now time.Time) (cachedStatistics, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.entries[key]
	return found, ok && now.Before(found.expiresAt)
}
