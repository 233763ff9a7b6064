package connector

import (
	"context"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// maxAgents bounds the sessions that agents have of their own.
const maxAgents = 200

// place is whose session it is. The zero value is the one that all share.
type place struct {
	agent string // the id of a session of the gateway
}

// seat is a place's session, or the handshake for it.
type seat struct {
	session *session // nil: none yet, or the last one died
	attempt *attempt // the handshake under way
}

// attempt is a handshake under way, which several calls may wait for.
type attempt struct {
	done    chan struct{}
	waiting int // calls; the session's first users
	session *session
	err     error
}

// placeOf returns the place for a request.
func (s *Source) placeOf(r *request) place {
	if r.caller == nil || !s.cfg.PerAgent && s.may == 0 {
		return place{}
	}
	return place{agent: r.caller.Session()}
}

// acquire returns the session of a place, made if need be. Whoever acquires
// releases. Its errors are of kind ErrUnavailable: no call was sent yet.
func (s *Source) acquire(ctx context.Context, p place) (*session, error) {
	// Only a handshake tells whether the server has sessions at all.
	if era := s.protocol(); p != (place{}) && (era == "" || era >= stateless) {
		ses, err := s.take(ctx, place{})
		if err != nil || ses.stateless {
			return ses, err
		}
		s.release(ses)
	}
	return s.take(ctx, p)
}

func (s *Source) take(ctx context.Context, p place) (*session, error) {
	s.mu.Lock()
	at, err := s.seat(p)
	if err != nil || at.session != nil {
		defer s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		at.session.use()
		return at.session, nil
	}
	a := at.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		at.attempt = a
		s.work.Go(func() { s.connect(p, at) })
	}
	a.waiting++
	s.mu.Unlock()
	select {
	case <-a.done:
		return a.session, a.err
	case <-ctx.Done():
		s.leave(a)
		return nil, interrupted(ctx, action.ErrUnavailable)
	}
}

// leave is a call that does not wait for the handshake any more.
func (s *Source) leave(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case a.session != nil:
		s.free(a.session)
	default:
		a.waiting--
	}
}

// seat returns the place's seat. For a new one the agent whose session is idle
// for the longest time makes room.
func (s *Source) seat(p place) (*seat, error) {
	if at := s.seats[p]; at != nil {
		return at, nil
	}
	if p != (place{}) && len(s.seats) > maxAgents {
		var oldest *session
		for _, at := range s.seats {
			if ses := at.session; ses != nil && ses.place != (place{}) && ses.users == 0 && (oldest == nil || ses.used.Before(oldest.used)) {
				oldest = ses
			}
		}
		if oldest == nil {
			return nil, action.Errorf(action.ErrUnavailable, sources.FaultRateLimited, "%d agents have a session at the server, and all are at work; try again in a moment.", maxAgents)
		}
		s.unseat(oldest)
		s.hangUp(oldest)
	}
	at := &seat{}
	s.seats[p] = at
	return at, nil
}

// use counts one more user. The source's mutex is held.
func (ses *session) use() {
	ses.users++
	if ses.idle != nil {
		ses.idle.Stop()
	}
}

func (s *Source) release(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free(ses)
}

// free counts one user less. The source's mutex is held, as in rest.
func (s *Source) free(ses *session) {
	ses.users--
	s.rest(ses)
}

// rest begins the idle time of a session, or ends it, when nobody uses it.
func (s *Source) rest(ses *session) {
	ses.used = time.Now()
	switch {
	case ses.users > 0:
	case ses.dropped:
		s.hangUp(ses)
	case ses.place != (place{}):
		ses.idle = time.AfterFunc(s.cfg.IdleAgent, func() { s.retire(ses) })
	}
}

// retire ends a session that nobody used for long.
func (s *Source) retire(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ses.dropped || ses.users > 0 {
		return
	}
	s.unseat(ses)
	s.hangUp(ses)
}

// drop makes the next call shake hands again. The session is ended when no
// call uses it any more: ending it would end them.
func (s *Source) drop(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses.dropped || s.closed && ses.users == 0 { // Close ends it
		return
	}
	s.unseat(ses)
	if ses.users == 0 {
		s.hangUp(ses)
	}
}

// unseat takes the session from its place. The source's mutex is held.
func (s *Source) unseat(ses *session) {
	if at := s.seats[ses.place]; at != nil && at.session == ses {
		delete(s.seats, ses.place)
	}
	ses.dropped = true
}

// hangUp ends a session in the background. Close waits for it: it runs within
// a call, or before the source was closed.
func (s *Source) hangUp(ses *session) {
	ses.end()
	s.work.Go(func() {
		if err := ses.sdk.Close(); err != nil {
			s.cfg.Log.Debug("ending a session", "source", s.cfg.ID, "error", s.scrub(err))
		}
	})
}

// connect makes one handshake for all who wait for it.
func (s *Source) connect(p place, at *seat) {
	ctx, stop := context.WithTimeout(s.life, s.cfg.ConnectTimeout)
	defer stop()
	era := s.protocol()
	ses, err := s.shake(ctx, p, era, s.may)
	if err == nil {
		s.circuit.reached()
		ses.place = p
		if p != (place{}) && !ses.stateless {
			s.hear(ctx, ses)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		at.session, s.era, s.offers, s.says = ses, ses.version, ses.offers, ses.says
		ses.users = at.attempt.waiting
		s.rest(ses)
	case era == "" && ctx.Err() != nil:
		// Some old servers never answer a method that they do not know.
		s.era = lastLegacy
	default:
		s.era = ""
	}
	if err != nil {
		delete(s.seats, p)
	}
	at.attempt.session, at.attempt.err = ses, err
	close(at.attempt.done)
	at.attempt = nil
}

// enlist notes that a caller's request is in flight, for what the server says
// on the stream of an agent's own session; delist ends that.
func (s *Source) enlist(x *exchange) {
	if x.request.caller == nil || x.ses.place == (place{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.ses.calls = append(x.ses.calls, x)
}

func (s *Source) delist(x *exchange) {
	if x.ses.place == (place{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(x.ses.calls, x); i >= 0 {
		x.ses.calls = slices.Delete(x.ses.calls, i, i+1)
	}
}

// inFlight returns the requests of callers on a session, the latest last.
func (s *Source) inFlight(ses *session) []*exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(ses.calls)
}

func (s *Source) protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era
}

// hearWithin is how long a new session waits for its stream.
const hearWithin = time.Second

// hear begins to attend to the session, and waits a moment until the server
// takes part: what it says while nobody listens is lost.
func (s *Source) hear(ctx context.Context, ses *session) {
	heard := make(chan struct{})
	s.ears.Go(func() { s.attend(ses, sync.OnceFunc(func() { close(heard) })) })
	late := time.NewTimer(hearWithin)
	defer late.Stop()
	select {
	case <-heard:
	case <-late.C:
	case <-ctx.Done():
	}
}
