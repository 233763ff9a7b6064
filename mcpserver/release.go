package mcpserver

import (
	"context"
	"sync"
	"time"
)

const (
	// subscribeWithin bounds the beginning and the end of a subscription at its
	// source.
	subscribeWithin = 10 * time.Second
	// maxReleasing is how many sources are told at once that somebody does not
	// want to hear of a resource any more, and maxReleases how many such words
	// wait for one of them.
	maxReleasing = 8
	maxReleases  = 1000
)

// sourceKey names a source.
type sourceKey struct{ organization, source string }

// released are subscriptions that end at their sources, when there is time for
// it. Each source is told one word after another, so that one that hangs keeps
// only itself waiting.
type released struct {
	mu    sync.Mutex
	of    map[sourceKey][]*subscription
	busy  map[sourceKey]bool
	nudge chan struct{}
}

func newReleased() released {
	return released{of: map[sourceKey][]*subscription{}, busy: map[sourceKey]bool{}, nudge: make(chan struct{}, maxReleasing)}
}

// add returns false when too many wait for the source.
func (r *released) add(sub *subscription) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := sub.key.at()
	if len(r.of[at]) >= maxReleases {
		return false
	}
	r.of[at] = append(r.of[at], sub)
	select {
	case r.nudge <- struct{}{}:
	default:
	}
	return true
}

// next returns one of a source that nobody tells anything now, or nil. The
// caller calls done with it.
func (r *released) next() *subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, waiting := range r.of {
		if r.busy[at] {
			continue
		}
		r.busy[at] = true
		if r.of[at] = waiting[1:]; len(waiting) == 1 {
			delete(r.of, at)
		}
		return waiting[0]
	}
	return nil
}

func (r *released) done(sub *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, sub.key.at())
}

// release has a subscription end at its source, if it was made here.
func (s *Server) release(sub *subscription) {
	if sub == nil || sub.owner == nil || s.released.add(sub) {
		return
	}
	s.standings.unsubscribe(sub.owner.ID)
	s.cfg.Log.Warn("a source is too slow to be told of all subscriptions that ended; it goes on telling of this one", "session", sub.owner.ID, "source", sub.key.source)
}

// runReleases ends what nobody wants any more, until ctx ends.
func (s *Server) runReleases(ctx context.Context) {
	for ctx.Err() == nil {
		if sub := s.released.next(); sub != nil {
			s.unsubscribe(ctx, sub)
			s.released.done(sub)
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.released.nudge:
		}
	}
}

// unsubscribe ends a subscription at its source.
func (s *Server) unsubscribe(ctx context.Context, sub *subscription) {
	defer s.standings.unsubscribe(sub.owner.ID)
	ctx, cancel := context.WithTimeout(ctx, subscribeWithin)
	defer cancel()
	if err := s.cfg.Gate.Subscribe(ctx, sub.owner, sub.key.source, sub.key.uri, false); err != nil {
		s.cfg.Log.Warn("ending a subscription at its source", "session", sub.owner.ID, "source", sub.key.source, "error", err)
	}
}
