package mcpserver

import (
	"context"
	"sync"
	"time"

	"sallyport/action"
)

const (
	// settleFor is how long changes are collected before lists are compared.
	settleFor = 50 * time.Millisecond
	// listWithin bounds the making of one list for a comparison.
	listWithin = 5 * time.Second
	// streamKeepAlive is how often open event streams carry a comment. Some
	// clients give a stream up that was silent for five minutes.
	streamKeepAlive = time.Minute
)

// hinted are the organizations whose lists may have changed.
type hinted struct {
	mu            sync.Mutex
	organizations map[string]bool
	nudge         chan struct{}
}

// hear takes a hint. It does not block.
func (h *hinted) hear(hint action.Hint) {
	if hint.Kind != action.HintCatalog && hint.Kind != action.HintPolicy {
		return
	}
	h.mu.Lock()
	h.organizations[hint.Organization] = true
	h.mu.Unlock()
	select {
	case h.nudge <- struct{}{}:
	default:
	}
}

// hear takes a hint of any kind. It does not block.
func (s *Server) hear(h action.Hint) {
	switch h.Kind {
	case action.HintResource:
		s.watches.hear(h)
	case action.HintSession:
		s.doubts.add(doubt{h.Organization, h.Session})
	case action.HintReload:
		s.doubts.add(doubt{h.Organization, ""})
	case action.HintCatalog, action.HintPolicy, action.HintInvocation, action.HintSignal:
		s.hinted.hear(h)
	case action.HintRun: // of people, and their workers
	}
}

// take returns what was heard and forgets it.
func (h *hinted) take() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	heard := h.organizations
	h.organizations = map[string]bool{}
	return heard
}

// Run does the upkeep until ctx ends: it tells sessions when their list
// changed, forgets idle sessions, keeps event streams open, and ends those, and
// subscriptions, that nobody may have or wants any more. It returns nil.
func (s *Server) Run(ctx context.Context) error {
	defer s.cfg.Hints.Subscribe(s.hear)()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.runChecks(ctx) })
	for range maxReleasing {
		beside.Go(func() { s.runReleases(ctx) })
	}
	sweep := time.NewTicker(min(max(s.cfg.IdleSession/10, 10*time.Millisecond), time.Minute))
	defer sweep.Stop()
	beat := time.NewTicker(streamKeepAlive)
	defer beat.Stop()
	settled := time.NewTimer(settleFor)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.hinted.nudge:
			settled.Reset(settleFor)
		case <-settled.C:
			s.compare(ctx)
		case <-sweep.C:
			s.expire()
		case <-beat.C:
			s.views.keepAlive()
			s.doubts.add(doubt{}) // a hint may be lost
		}
	}
}

// compare makes the lists again that may have changed, and tells whoever sees
// one that did.
func (s *Server) compare(ctx context.Context) {
	watched := s.watches.seenBy()
	for _, v := range s.views.stale(s.hinted.take()) {
		v.mu.Lock()
		who, known := v.sample, v.announced
		v.mu.Unlock()
		s.look(ctx, v, &who, known, watched[v])
	}
}

// expire forgets what nobody used for long, and ends sessions whose time is
// over.
func (s *Server) expire() {
	now := s.cfg.Now()
	t := now.Add(-s.cfg.IdleSession)
	for _, old := range s.sessions.takeIdle(t, now) {
		s.end(old)
	}
	for _, principal := range s.standings.expired(now) {
		s.lapse(principal)
	}
	s.sessions.forget(now)
	s.posted.forget(now)
	s.views.expire(t)
}
