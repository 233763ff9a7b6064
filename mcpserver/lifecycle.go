package mcpserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/wire"
)

const (
	// debounce is how long changes are collected before lists are refreshed.
	debounce = 50 * time.Millisecond
	// listTimeout bounds the refresh of one list.
	listTimeout = 5 * time.Second
	// streamKeepAlive is the interval of keep-alive comments in event streams. Some
	// clients close a stream after five minutes of silence.
	streamKeepAlive = time.Minute
)

// changedOrganizations are the organizations whose lists may have changed.
type changedOrganizations struct {
	mu            sync.Mutex
	organizations map[string]bool
	wake          chan struct{}
}

// onHint records a hint. It does not block.
func (h *changedOrganizations) onHint(hint action.Hint) {
	if hint.Kind != action.HintCatalog && hint.Kind != action.HintPolicy {
		return
	}
	h.mu.Lock()
	h.organizations[hint.Organization] = true
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// onHint handles a hint of any kind. It does not block.
func (s *Server) onHint(h action.Hint) {
	switch h.Kind {
	case action.HintResource:
		s.subscribers.onHint(h)
	case action.HintSession:
		s.rechecks.add(recheck{h.Organization, h.Session})
	case action.HintReload:
		s.rechecks.add(recheck{h.Organization, ""})
	case action.HintCatalog, action.HintPolicy, action.HintInvocation, action.HintSignal:
		s.changed.onHint(h)
	case action.HintRun: // concerns people and workers only
	}
}

// take returns the recorded organizations and resets them.
func (h *changedOrganizations) take() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	heard := h.organizations
	h.organizations = map[string]bool{}
	return heard
}

// Run does the background work until ctx ends: it notifies sessions of changed
// lists, removes idle sessions, keeps event streams alive, and ends streams and
// subscriptions whose principal lost the right to them. It returns nil.
func (s *Server) Run(ctx context.Context) error {
	defer s.cfg.Hints.Subscribe(s.onHint)()
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { s.runRechecks(ctx) })
	for range unsubscribeWorkers {
		workers.Go(func() { s.runUnsubscribes(ctx) })
	}
	sweep := time.NewTicker(min(max(s.cfg.IdleSession/10, 10*time.Millisecond), time.Minute))
	defer sweep.Stop()
	beat := time.NewTicker(streamKeepAlive)
	defer beat.Stop()
	settled := time.NewTimer(debounce)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed.wake:
			settled.Reset(debounce)
		case <-settled.C:
			watched := s.subscribers.byView()
			for _, v := range s.views.invalidate(s.changed.take()) { // rebuild the lists, and notify the streams that show them
				v.mu.Lock()
				who, known := v.sampleSession, v.announced
				v.mu.Unlock()
				s.refreshView(ctx, v, &who, known, watched[v])
			}
		case <-sweep.C:
			s.expire()
		case <-beat.C:
			s.views.keepAlive()
			s.rechecks.add(recheck{}) // hints may be lost
		}
	}
}

// expire removes what was idle for too long and ends sessions that have expired.
func (s *Server) expire() {
	now := s.cfg.Now()
	t := now.Add(-s.cfg.IdleSession)
	for _, old := range s.sessions.removeIdle(t, now) {
		s.closeSession(old)
	}
	for _, principal := range s.principals.expired(now) {
		s.revoke(principal)
	}
	s.sessions.forgetEnded(now)
	s.limits.expire(now)
	s.views.expire(t)
}

const (
	drainingText   = "The gateway is shutting down; nothing was executed. Try again in a few seconds."
	restartingText = "The gateway is restarting. "
	// drainUnknownText is for a call that may or may not have started.
	drainUnknownText = "The gateway is shutting down and the call has no answer yet: it may or may not have happened. " +
		"Call again with the same arguments in a few seconds: a call that has started is joined, not repeated."
	// drainGateTimeout is what remains to ask for the last words when the time is
	// over, and partedWithin for sending them.
	drainGateTimeout  = 250 * time.Millisecond
	drainWriteTimeout = time.Second
)

// errDraining is the cause of canceled calls during a shutdown.
var errDraining = errors.New("the gateway is shutting down")

// Drain refuses new calls and answers the open ones: pending calls at once, with
// instructions for picking up the result, executing calls when they finish or when
// ctx ends. It then closes the event streams and removes the MCP sessions from
// memory. It returns ctx's error if calls were still executing.
func (s *Server) Drain(ctx context.Context) error {
	until, _ := ctx.Deadline()
	empty := s.calls.close(until)
	s.calls.cancel(errDraining, true)
	var err error
	select {
	case <-empty:
	case <-ctx.Done():
		err = ctx.Err()
		s.calls.cancel(errDraining, false)
		select {
		case <-empty:
		case <-time.After(drainWriteTimeout):
			s.cfg.Log.Warn("clients did not receive their last response")
		}
	}
	s.close()
	for _, old := range s.sessions.removeWhere(func(*session) bool { return true }) {
		s.closeSession(old)
	}
	return err
}

// answerInterrupted answers a call that a shutdown interrupted. It asks the Gate
// once more without waiting: that counts the caller as informed, and finds an
// approval that arrived at this moment.
func (s *Server) answerInterrupted(c *caller, o *action.Outcome, err error) {
	until := time.Now().Add(drainGateTimeout)
	if t := s.calls.deadline(); t.After(until) {
		until = t
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(c.r.Context()), until)
	defer cancel()
	recorded := o.Invocation.ID != ""
	if err != nil && recorded {
		if again, e := s.cfg.Gate.Wait(ctx, &c.who, o.Invocation.ID, action.Waiting{}); e == nil || again.Invocation.ID != "" {
			o = again
		}
	}
	m := wire.ToolError("%s", drainUnknownText)
	if recorded {
		m = s.outcomeResponse(o, restartingText, c.tool.strict, s.cfg.Now())
	}
	s.deliver(ctx, c, o, m, recorded)
}
