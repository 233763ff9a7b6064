package connector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// Bounds of subscriptions.
const (
	maxWishes = 1_000
	wishTime  = 5 * time.Second // for a server to take one
)

// wishes are the resources of whose changes somebody wants to hear.
type wishes struct {
	turn sync.Mutex // one change at a time; held while the server is told

	mu        sync.Mutex // the fields below
	counts    map[string]int
	changed   chan struct{}   // closed at the next change of the set; nil: nobody looked
	listening int             // streams that hear of them
	heard     map[string]bool // what the last stream without session was begun with
	news      chan struct{}   // closed when heard or listening changes
	session   *session        // with sessions: the last that was told of all
}

// add counts one more or less for a resource. turned reports whether it is the
// first, or was the last.
func (w *wishes) add(uri string, on bool) (turned bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.counts[uri]
	switch {
	case on && n == 0 && len(w.counts) >= maxWishes:
		return false, action.Errorf(action.ErrTooMany, "too_many_subscriptions", "More than %d resources of this source are subscribed to; end some subscriptions first.", maxWishes)
	case !on && n == 0:
		return false, nil
	case on && w.counts == nil:
		w.counts = map[string]int{}
	}
	if on {
		n++
	} else {
		n--
	}
	w.counts[uri] = n
	if n == 0 {
		delete(w.counts, uri)
	}
	turned = on && n == 1 || !on && n == 0
	if turned && w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
	return turned, nil
}

func (w *wishes) uris() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.counts))
}

// now returns the resources and a channel that is closed when others are
// wanted.
func (w *wishes) now() (uris []string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return slices.Sorted(maps.Keys(w.counts)), w.changed
}

// listen notes that somebody listens, or no more.
func (w *wishes) listen(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		w.listening++
	} else {
		w.listening--
	}
	w.tell()
}

// told notes with which resources a stream was begun.
func (w *wishes) told(uris []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = map[string]bool{}
	for _, uri := range uris {
		w.heard[uri] = true
	}
	w.tell()
}

func (w *wishes) tell() {
	if w.news != nil {
		close(w.news)
		w.news = nil
	}
}

// settle waits until the stream that is listened to has the resource, if
// somebody listens.
func (w *wishes) settle(ctx context.Context, uri string) {
	ctx, stop := context.WithTimeout(ctx, wishTime)
	defer stop()
	for {
		w.mu.Lock()
		if w.listening == 0 || w.heard[uri] {
			w.mu.Unlock()
			return
		}
		if w.news == nil {
			w.news = make(chan struct{})
		}
		news := w.news
		w.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// Subscribe implements [sources.Offerer].
func (s *Source) Subscribe(ctx context.Context, uri string, on bool) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	s.wishes.turn.Lock()
	defer s.wishes.turn.Unlock()
	turned, err := s.wishes.add(uri, on)
	if err != nil || !turned {
		return err
	}
	if err := s.wish(ctx, uri, on); err != nil && on {
		_, _ = s.wishes.add(uri, false)
		return err
	}
	return nil
}

// wish tells the server of one resource.
func (s *Source) wish(ctx context.Context, uri string, on bool) error {
	ctx, stop := context.WithTimeout(ctx, s.cfg.ConnectTimeout+wishTime)
	defer stop()
	ses, err := s.shared(ctx)
	switch {
	case errors.Is(err, errDeaf):
		return action.Errorf(action.ErrUnavailable, sources.FaultConfig, "The connector was changed or removed; try again.")
	case err != nil:
		return err
	case ses.stateless && on:
		s.wishes.settle(ctx, uri)
		return nil
	case ses.stateless:
		return nil
	}
	return s.tellWish(ctx, uri, on)
}

// tellWish sends resources/subscribe or its opposite on the shared session.
func (s *Source) tellWish(ctx context.Context, uri string, on bool) error {
	cred, err := s.credential(ctx)
	if err != nil {
		return err
	}
	r := &request{method: "resources/subscribe", name: uri, params: append(jsonlex.Quote([]byte(`{"uri":`), uri), '}')}
	if !on {
		r.method = "resources/unsubscribe"
	}
	a, err := s.do(ctx, &cred, r)
	if err != nil {
		return asListing(err)
	}
	if a.problem != nil {
		return action.Errorf(action.ErrUnavailable, sources.FaultRefused, "The server did not take the subscription. It says: %s", printable(problemText(a.problem), 200))
	}
	return nil
}

// resubscribe tells a new session of all that is wanted.
func (e *ear) resubscribe(ctx context.Context, ses *session) error {
	e.wishes.turn.Lock()
	defer e.wishes.turn.Unlock()
	if e.wishes.session == ses {
		return nil
	}
	e.wishes.session = ses
	for _, uri := range e.wishes.uris() {
		if err := e.tellWish(ctx, uri, true); err != nil {
			e.cfg.Log.Debug("subscribing again", "source", e.cfg.ID, "error", e.scrub(err))
		}
	}
	return ctx.Err()
}
