package connector

import (
	"context"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// maxAgents bounds the sessions of individual agents.
const maxAgents = 200

// sessionKey identifies the owner of a session. The zero value is the shared
// session.
type sessionKey struct {
	agent string // ID of a gateway session
}

// sessionSlot holds the session of a key, or the handshake in progress.
type sessionSlot struct {
	session   *session   // nil: none yet, or the last one died
	handshake *handshake // the handshake under way
}

// handshake is a handshake in progress, which several calls can await.
type handshake struct {
	done    chan struct{}
	waiters int // calls; the session's first users
	session *session
	err     error
}

// sessionKeyFor returns the place for a request.
func (s *Source) sessionKeyFor(r *request) sessionKey {
	if r.caller == nil || !s.cfg.PerAgent && s.features == 0 {
		return sessionKey{}
	}
	return sessionKey{agent: r.caller.Session()}
}

// acquire returns the session for a key and creates it if necessary. The caller
// must release it. Errors are of kind ErrUnavailable: no call was sent.
func (s *Source) acquire(ctx context.Context, p sessionKey) (*session, error) {
	// Only a handshake tells whether the server has sessions at all.
	if era := s.protocol(); p != (sessionKey{}) && (era == "" || era >= stateless) {
		ses, err := s.acquireSlot(ctx, sessionKey{})
		if err != nil || ses.stateless {
			return ses, err
		}
		s.release(ses)
	}
	return s.acquireSlot(ctx, p)
}

func (s *Source) acquireSlot(ctx context.Context, p sessionKey) (*session, error) {
	s.mu.Lock()
	at, err := s.slot(p)
	if err != nil || at.session != nil {
		defer s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		at.session.users++
		if at.session.idle != nil {
			at.session.idle.Stop()
		}
		return at.session, nil
	}
	a := at.handshake
	if a == nil {
		a = &handshake{done: make(chan struct{})}
		at.handshake = a
		s.running.Go(func() { s.connect(p, at) })
	}
	a.waiters++
	s.mu.Unlock()
	select {
	case <-a.done:
		return a.session, a.err
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if a.waiters--; a.session != nil {
			a.session.users--
			s.startIdleLocked(a.session)
		}
		return nil, interrupted(ctx, action.ErrUnavailable)
	}
}

// slot returns the slot of a key. If all are taken, it closes the session that
// has been idle longest.
func (s *Source) slot(p sessionKey) (*sessionSlot, error) {
	if at := s.slots[p]; at != nil {
		return at, nil
	}
	if p != (sessionKey{}) && len(s.slots) > maxAgents {
		var oldest *session
		for _, at := range s.slots {
			if ses := at.session; ses != nil && ses.key != (sessionKey{}) && ses.users == 0 && (oldest == nil || ses.used.Before(oldest.used)) {
				oldest = ses
			}
		}
		if oldest == nil {
			return nil, action.Errorf(action.ErrUnavailable, sources.FaultRateLimited, "%d agents have a session at the server, and all are busy. Retry in a moment.", maxAgents)
		}
		s.removeLocked(oldest)
		s.closeSession(oldest)
	}
	at := &sessionSlot{}
	s.slots[p] = at
	return at, nil
}

func (s *Source) release(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses.users--
	s.startIdleLocked(ses)
}

// startIdleLocked starts the idle timer of a session without users, or closes a
// dropped one.
func (s *Source) startIdleLocked(ses *session) {
	ses.used = time.Now()
	switch {
	case ses.users > 0:
	case ses.dropped:
		s.closeSession(ses)
	case ses.key != (sessionKey{}):
		ses.idle = time.AfterFunc(s.cfg.IdleAgent, func() { s.closeIdle(ses) })
	}
}

// closeIdle closes a session that was idle for too long.
func (s *Source) closeIdle(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ses.dropped || ses.users > 0 {
		return
	}
	s.removeLocked(ses)
	s.closeSession(ses)
}

// drop makes the next call create a new session. The old one is closed once no
// call uses it.
func (s *Source) drop(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses.dropped || s.closed && ses.users == 0 { // Close ends it
		return
	}
	s.removeLocked(ses)
	if ses.users == 0 {
		s.closeSession(ses)
	}
}

// removeLocked removes the session from its slot.
func (s *Source) removeLocked(ses *session) {
	if at := s.slots[ses.key]; at != nil && at.session == ses {
		delete(s.slots, ses.key)
	}
	ses.dropped = true
}

// closeSession closes a session in the background. Close waits for that: it
// runs within a call, or before the source was closed.
func (s *Source) closeSession(ses *session) {
	ses.cancel()
	s.running.Go(func() {
		if err := ses.sdk.Close(); err != nil {
			s.cfg.Log.Debug("could not end a session", "source", s.cfg.ID, "error", s.redactError(err))
		}
	})
}

// connect makes one handshake for all waiting calls.
func (s *Source) connect(p sessionKey, at *sessionSlot) {
	ctx, stop := context.WithTimeout(s.ctx, s.cfg.ConnectTimeout)
	defer stop()
	era := s.protocol()
	ses, err := s.agree(ctx, p, era)
	if err == nil {
		s.circuit.recordContact()
		ses.key = p
		if p != (sessionKey{}) && !ses.stateless {
			// Messages sent before its stream is open are lost.
			heard := make(chan struct{})
			s.streams.Go(func() { s.listenToSession(ses, sync.OnceFunc(func() { close(heard) })) })
			waitFor(ctx, heard, sessionStreamWait)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		at.session, s.era, s.capabilities, s.instructions = ses, ses.version, ses.capabilities, ses.instructions
		s.serverName, s.sse = ses.serverName, ses.sse != nil
		ses.users = at.handshake.waiters
		s.startIdleLocked(ses)
	case era == "" && ctx.Err() != nil:
		// Some old servers never answer a method that they do not know.
		s.era = lastLegacy
	default:
		s.era, s.sse = "", false
	}
	if err != nil {
		delete(s.slots, p)
	}
	at.handshake.session, at.handshake.err = ses, err
	close(at.handshake.done)
	at.handshake = nil
}

// registerCall registers a caller's request, to which messages on the stream of
// an agent's own session are assigned.
func (s *Source) registerCall(x *exchange) {
	if x.request.caller == nil || x.ses.key == (sessionKey{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.ses.calls = append(x.ses.calls, x)
}

func (s *Source) unregisterCall(x *exchange) {
	if x.ses.key == (sessionKey{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(x.ses.calls, x); i >= 0 {
		x.ses.calls = slices.Delete(x.ses.calls, i, i+1)
	}
}

// callsOn returns the requests on a session, the latest last.
func (s *Source) callsOn(ses *session) []*exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(ses.calls)
}

func (s *Source) protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era
}

// sessionStreamWait is how long a new session waits for its stream.
const sessionStreamWait = time.Second
