package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/mcpserver"
	"sallyport/store/database"
	"sallyport/store/history"
)

// scripted is what a watcher reads, as a test wants it.
type scripted struct {
	mu       sync.Mutex
	versions []history.Versions
	signals  []database.Signal
}

func (r *scripted) Versions(context.Context) ([]history.Versions, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.versions), nil
}

func (r *scripted) Signals(_ context.Context, since time.Time, limit int) ([]database.Signal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []database.Signal
	for _, s := range r.signals {
		if s.CreatedAt.After(since) && len(list) < limit {
			list = append(list, s)
		}
	}
	return list, nil
}

func (r *scripted) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// watched is a watcher and what it told.
type watched struct {
	*watcher
	rows     *scripted
	told     []action.Hint
	received []string
}

func newWatched() *watched {
	w := &watched{watcher: newWatcher(), rows: &scripted{}}
	w.watcher.rows, w.since = w.rows, time.Now()
	w.now = func() time.Time { return w.since.Add(time.Hour) }
	w.deliver = func(h action.Hint) { w.told = append(w.told, h) }
	w.receive = func(s mcpserver.Signal) { w.received = append(w.received, s.Session) }
	return w
}

func TestWatcherNoticesWhatMoved(t *testing.T) {
	t.Parallel()
	w := newWatched()
	look := func(versions ...history.Versions) []action.Hint {
		w.told = nil
		w.rows.set(func() { w.rows.versions = versions })
		if err := w.compare(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.told
	}
	for _, c := range []struct {
		what string
		now  []history.Versions
		want []action.Hint
	}{
		{"the first look is news to nobody", []history.Versions{{Organization: "a", Policy: 1, Catalog: 1}}, nil},
		{"nothing moved", []history.Versions{{Organization: "a", Policy: 1, Catalog: 1}}, nil},
		{"policy", []history.Versions{{Organization: "a", Policy: 2, Catalog: 1}}, []action.Hint{{Kind: action.HintPolicy, Organization: "a"}}},
		{"both, and a new organization", []history.Versions{{Organization: "a", Policy: 3, Catalog: 2}, {Organization: "b", Policy: 7, Catalog: 7}}, []action.Hint{{Kind: action.HintPolicy, Organization: "a"}, {Kind: action.HintCatalog, Organization: "a"}}},
	} {
		if d := cmp.Diff(c.want, look(c.now...)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, d)
		}
	}
}

func TestEachSignalIsReceivedOnce(t *testing.T) {
	t.Parallel()
	w := newWatched()
	start := w.since
	add := func(id string, at time.Duration) {
		w.rows.set(func() {
			w.rows.signals = append(w.rows.signals, database.Signal{ID: id, Session: id, Kind: "cancel", CreatedAt: start.Add(at)})
			slices.SortFunc(w.rows.signals, func(a, b database.Signal) int { return a.CreatedAt.Compare(b.CreatedAt) })
		})
	}
	look := func() {
		t.Helper()
		if err := w.signals(t.Context(), signalOverlap); err != nil {
			t.Fatal(err)
		}
	}
	add("first", time.Second)
	look()
	add("late", 500*time.Millisecond) // an earlier time, a later commit
	look()
	look()
	if d := cmp.Diff([]string{"first", "late"}, w.received); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	// A flood takes several pages, and nothing of it is missed or repeated.
	w.received = nil
	for i := range 2*signalBatch + 7 {
		add(fmt.Sprint("flood ", i), 2*time.Second+time.Duration(i)*time.Microsecond)
	}
	look()
	look()
	if got := len(w.received); got != 2*signalBatch+7 {
		t.Errorf("%d of a flood received, want %d", got, 2*signalBatch+7)
	}
	// One from a clock that was far ahead hides nothing that comes after it.
	w.received = nil
	add("from the future", 3*time.Hour)
	look()
	add("after it", 3*time.Second)
	look()
	if d := cmp.Diff([]string{"from the future", "after it"}, w.received); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	// What is old is forgotten.
	add("much later", 5*time.Minute)
	look()
	if len(w.seen) != 2 { // and that from the future
		t.Errorf("%d signals are remembered", len(w.seen))
	}
}

func TestPagesReloadWhileNothingIsHeard(t *testing.T) {
	t.Parallel()
	w := newWatched()
	w.rows.versions = []history.Versions{{Organization: "a"}}
	var mu sync.Mutex
	heard, polled, reloads := false, 0, 0
	w.hinted = func() bool { mu.Lock(); defer mu.Unlock(); return heard }
	w.poll = func(context.Context) { mu.Lock(); defer mu.Unlock(); polled++ }
	w.deliver = func(h action.Hint) {
		mu.Lock()
		defer mu.Unlock()
		if h.Kind == action.HintReload {
			reloads++
		}
	}
	w.every, w.log = time.Millisecond, slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.run(ctx) }()
	until := func(what string, f func() bool) {
		t.Helper()
		locked := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return f()
		}
		if !comes(locked) {
			t.Fatal("never came:", what)
		}
	}
	until("reloads without hints", func() bool { return reloads > 2 })
	mu.Lock()
	heard = true
	mu.Unlock()
	w.resume()
	until("a look at held calls when hints are back", func() bool { return polled == 1 })
	stop()
	<-done
}
