package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sallyport/action"
	"sallyport/mcpserver"
	"sallyport/store"
	"sallyport/store/database"
	"sallyport/store/history"
)

// watcher polls the database for changes by other instances, about once a second.
// Hints only make it poll sooner, so it finds every change even if they are lost.
type watcher struct {
	rows interface {
		Versions(ctx context.Context) ([]history.Versions, error)
		Signals(ctx context.Context, since time.Time, limit int) ([]database.Signal, error)
	}
	deliver func(action.Hint)      // this instance alone
	receive func(mcpserver.Signal) // new signals for MCP sessions
	poll    func(context.Context)  // polls held calls
	hinted  func() bool
	now     func() time.Time
	every   time.Duration
	log     *slog.Logger

	signalled chan struct{} // a hint announced signals
	resumed   chan struct{} // hints arrive again; some were missed

	versions map[string]history.Versions
	seen     map[string]time.Time // signals by id
	since    time.Time            // of the newest one
}

const (
	// signalOverlap is how far back each query for signals reads: rows become
	// visible in the order of their commits, not of their timestamps.
	signalOverlap = 10 * time.Second
	hintOverlap   = time.Second // older signals can wait for the next regular query
	hintPause     = 50 * time.Millisecond
	signalBatch   = 500
)

func newWatcher() *watcher {
	return &watcher{signalled: make(chan struct{}, 1), resumed: make(chan struct{}, 1), seen: map[string]time.Time{}}
}

// hint receives a hint of another instance. It does not block.
func (w *watcher) hint(h action.Hint) {
	if h.Kind == action.HintSignal {
		wake(w.signalled)
	}
}

// resume is called when hints arrive again. It does not block.
func (w *watcher) resume() { wake(w.resumed) }

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run polls until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	w.since = w.now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.signalled:
			w.logError("could not read signals", w.signals(ctx, hintOverlap))
			sleep(ctx, hintPause) // many hints cause one query
		case <-w.resumed:
			w.poll(ctx)
			w.reload()
		case <-ticker.C:
			w.logError("could not read versions", w.compare(ctx))
			w.logError("could not read signals", w.signals(ctx, signalOverlap))
			if !w.hinted() {
				w.reload()
			}
		}
	}
}

func (w *watcher) logError(message string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		w.log.Warn(message, "error", err)
	}
}

// compare publishes the organizations whose policy or catalog changed.
func (w *watcher) compare(ctx context.Context) error {
	list, err := w.rows.Versions(ctx)
	if err != nil {
		return err
	}
	next := make(map[string]history.Versions, len(list))
	for _, v := range list {
		next[v.Organization] = v
		old, known := w.versions[v.Organization]
		if !known {
			continue
		}
		if old.Policy != v.Policy {
			w.deliver(action.Hint{Kind: action.HintPolicy, Organization: v.Organization})
		}
		if old.Catalog != v.Catalog {
			w.deliver(action.Hint{Kind: action.HintCatalog, Organization: v.Organization})
		}
	}
	w.versions = next
	return nil
}

// reload makes open pages fetch everything again, because without hints they miss
// calls on other instances.
func (w *watcher) reload() {
	for organization := range w.versions {
		w.deliver(action.Hint{Kind: action.HintReload, Organization: organization})
	}
}

// signals delivers new signals.
func (w *watcher) signals(ctx context.Context, overlap time.Duration) error {
	from := w.since.Add(-overlap)
	for {
		list, err := w.rows.Signals(ctx, from, signalBatch)
		if err != nil {
			return err
		}
		for _, s := range list {
			w.receiveSignal(s)
		}
		if len(list) < signalBatch || !list[len(list)-1].CreatedAt.After(from) {
			break
		}
		from = list[len(list)-1].CreatedAt
	}
	for id, at := range w.seen {
		if at.Before(w.since.Add(-2 * signalOverlap)) {
			delete(w.seen, id)
		}
	}
	return nil
}

func (w *watcher) receiveSignal(s database.Signal) {
	if _, ok := w.seen[s.ID]; ok {
		return
	}
	w.seen[s.ID] = s.CreatedAt
	if s.CreatedAt.After(w.since) && !s.CreatedAt.After(w.now()) { // a signal from a wrong clock must not hide later ones
		w.since = s.CreatedAt
	}
	w.receive(mcpserver.Signal{Kind: mcpserver.SignalKind(s.Kind), Organization: s.Organization, Session: s.Session, Data: s.Data})
}

// peers reaches the other instances through the database.
type peers struct {
	db    *store.DB
	hints action.Hints
}

// Post implements mcpserver.Peers.
func (p peers) Post(ctx context.Context, s mcpserver.Signal) error {
	_, err := p.db.PostSignal(ctx, database.Signal{Organization: s.Organization, Session: s.Session, Kind: string(s.Kind), Data: s.Data, CreatedAt: p.db.Now()})
	if err == nil {
		p.hints.Publish(action.Hint{Kind: action.HintSignal, Organization: s.Organization})
	}
	return err
}

// End implements mcpserver.Peers.
func (p peers) End(ctx context.Context, organization, session string, until time.Time) error {
	return p.db.EndMCPSession(ctx, organization, session, until)
}

// Ended implements mcpserver.Peers.
func (p peers) Ended(ctx context.Context, organization, session string) (bool, error) {
	return p.db.MCPSessionEnded(ctx, organization, session)
}
