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

// Window is how far back statistics look. It has so many buckets, of which the
// last one goes on now.
type Window struct {
	Name, Words string // in an address, and behind "the last"
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
		return Window{}, Invalid("/window", "There is no such window; take 1h, 24h, 7d or 30d.")
	}
	return Windows()[i], nil
}

// period is the window at a time.
func (w Window) period(now time.Time) action.Period {
	to := now.UTC().Truncate(w.width).Add(w.width)
	return action.Period{From: to.Add(-time.Duration(w.buckets) * w.width), To: to, Width: w.width}
}

const (
	maxFigures  = 200              // that are kept
	figuresLast = 10 * time.Second // how long they are not counted again
	figuresRest = 20               // and how many times as long as counting took
)

// figures are statistics that were counted a short while ago. Only one counts
// at a time, and never more than one part of twenty of the time for each
// window: people who look at charts cost calls next to nothing.
type figures struct {
	turn chan struct{} // holds who counts

	mu   sync.Mutex // protects what is below
	kept map[figureKey]figure
}

type figureKey struct{ organization, window string }

type figure struct {
	action.Statistics
	at, until time.Time
}

func newFigures() *figures {
	return &figures{turn: make(chan struct{}, 1), kept: map[figureKey]figure{}}
}

// CachedStatistics returns an organization's statistics, counted recently, and
// when they were counted.
func (s *Server) CachedStatistics(ctx context.Context, organization string, w Window) (action.Statistics, time.Time, error) {
	found, err := s.figures.of(ctx, s, organization, w)
	return found.Statistics, found.at, err
}

// of returns the figures of an organization, and counts them if they are old.
func (f *figures) of(ctx context.Context, s *Server, organization string, w Window) (figure, error) {
	key := figureKey{organization, w.Name}
	if found, ok := f.find(key, s.Now()); ok {
		return found, nil
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return figure{}, ctx.Err()
	}
	if found, ok := f.find(key, s.Now()); ok { // somebody else asked the same
		return found, nil
	}
	begun := s.Now()
	counted, err := s.Calls.Statistics(ctx, organization, w.period(begun))
	if err != nil {
		return figure{}, err
	}
	now := s.Now()
	found := figure{counted, begun, now.Add(max(figuresLast, figuresRest*now.Sub(begun)))}
	f.keep(key, found, now)
	return found, nil
}

func (f *figures) find(key figureKey, now time.Time) (figure, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.kept[key]
	return found, ok && now.Before(found.until)
}

// keep forgets what is old, and when there is too much what will be so first.
func (f *figures) keep(key figureKey, found figure, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept[key] = found
	maps.DeleteFunc(f.kept, func(_ figureKey, old figure) bool { return !now.Before(old.until) })
	for len(f.kept) > maxFigures {
		delete(f.kept, slices.MinFunc(slices.Collect(maps.Keys(f.kept)), func(a, b figureKey) int {
			return cmp.Or(f.kept[a].until.Compare(f.kept[b].until), cmp.Compare(a.organization, b.organization))
		}))
	}
}
