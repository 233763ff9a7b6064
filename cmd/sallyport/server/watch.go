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

// watcher finds in the rows what other instances did: all of it, once a second
// or so, whether their hints arrive or not. Hints only make it sooner.
type watcher struct {
	rows interface {
		Versions(ctx context.Context) ([]history.Versions, error)
		Signals(ctx context.Context, since time.Time, limit int) ([]database.Signal, error)
	}
	tell    func(action.Hint)      // this instance alone
	receive func(mcpserver.Signal) // what is new to MCP sessions
	poll    func(context.Context)  // looks at held calls
	hinted  func() bool
	now     func() time.Time
	every   time.Duration
	log     *slog.Logger

	nudged  chan struct{} // a hint told of signals
	resumed chan struct{} // hints are back; some were missed

	versions map[string]history.Versions
	heard    map[string]time.Time // signals by id
	since    time.Time            // of the newest one
}

const (
	// signalOverlap is how far back each look for signals goes: rows become
	// visible in the order of their commits, not of their times.
	signalOverlap = 10 * time.Second
	nudgeOverlap  = time.Second // what is older can wait for the next regular look
	nudgeRest     = 50 * time.Millisecond
	signalBatch   = 500
)

func newWatcher() *watcher {
	return &watcher{nudged: make(chan struct{}, 1), resumed: make(chan struct{}, 1), heard: map[string]time.Time{}}
}

// hint receives a hint of another instance. It does not block.
func (w *watcher) hint(h action.Hint) {
	if h.Kind == action.HintSignal {
		nudge(w.nudged)
	}
}

// resume is called when hints arrive again. It does not block.
func (w *watcher) resume() { nudge(w.resumed) }

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func nudge(c chan struct{}) {
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
		case <-w.nudged:
			w.logged("reading signals", w.signals(ctx, nudgeOverlap))
			rest(ctx, nudgeRest) // many nudges cause one query
		case <-w.resumed:
			w.poll(ctx)
			w.reload()
		case <-ticker.C:
			w.logged("reading versions", w.compare(ctx))
			w.logged("reading signals", w.signals(ctx, signalOverlap))
			if !w.hinted() {
				w.reload()
			}
		}
	}
}

func (w *watcher) logged(doing string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		w.log.Warn(doing, "error", err)
	}
}

// compare finds the organizations whose policy or catalog has changed.
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
			w.tell(action.Hint{Kind: action.HintPolicy, Organization: v.Organization})
		}
		if old.Catalog != v.Catalog {
			w.tell(action.Hint{Kind: action.HintCatalog, Organization: v.Organization})
		}
	}
	w.versions = next
	return nil
}

// reload makes open pages fetch everything again: without hints they do not learn of
// calls on other instances.
func (w *watcher) reload() {
	for organization := range w.versions {
		w.tell(action.Hint{Kind: action.HintReload, Organization: organization})
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
			w.hear(s)
		}
		if len(list) < signalBatch || !list[len(list)-1].CreatedAt.After(from) {
			break
		}
		from = list[len(list)-1].CreatedAt
	}
	for id, at := range w.heard {
		if at.Before(w.since.Add(-2 * signalOverlap)) {
			delete(w.heard, id)
		}
	}
	return nil
}

func (w *watcher) hear(s database.Signal) {
	if _, ok := w.heard[s.ID]; ok {
		return
	}
	w.heard[s.ID] = s.CreatedAt
	if s.CreatedAt.After(w.since) && !s.CreatedAt.After(w.now()) { // a signal from a wrong clock must not hide later ones
		w.since = s.CreatedAt
	}
	w.receive(mcpserver.Signal{Kind: mcpserver.SignalKind(s.Kind), Organization: s.Organization, Session: s.Session, Data: s.Data})
}

// peers are the other instances, reached through rows.
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
