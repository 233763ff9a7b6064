package mcpserver

import (
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// session is an MCP session of the older era. It belongs to the principal that
// opened it: to anyone else it does not exist.
type session struct {
	id        string
	principal string
	view      *view

	used atomic.Int64 // when a request last ended, in nanoseconds
	busy atomic.Int32 // requests and event streams in progress

	mu    sync.Mutex
	calls map[string]*call // in flight, by request id; nil while there is none
}

// leave notes that a request of the session ended; see sessions.enter.
func (s *session) leave(now time.Time) {
	s.used.Store(now.UnixNano())
	s.busy.Add(-1)
}

// idleSince reports whether nothing happened since t and nothing is going on.
func (s *session) idleSince(t time.Time) bool {
	return s.busy.Load() == 0 && s.used.Load() < t.UnixNano()
}

// register notes a call in flight. It returns false when its id is in use.
func (s *session) register(id string, c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[id] != nil {
		return false
	}
	if s.calls == nil {
		s.calls = make(map[string]*call)
	}
	s.calls[id] = c
	return true
}

// unregister forgets a call; its id may be another's by now.
func (s *session) unregister(id string, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[id] != c {
		return
	}
	delete(s.calls, id)
	if len(s.calls) == 0 {
		s.calls = nil // most sessions rest most of the time
	}
}

// inFlight returns the call with the id, or nil when there is none (any more).
func (s *session) inFlight(id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
}

// sessions is the registry of MCP sessions.
type sessions struct {
	mu  sync.Mutex
	all map[string]*session
	of  map[string]map[*session]bool // by principal
}

// enter returns the principal's session and notes that a request of it
// begins, so that it does not expire in between; nil when there is none. The
// caller must leave it.
func (r *sessions) enter(id string, who *action.Session) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.all[id]
	if s == nil || s.principal != who.ID {
		return nil
	}
	s.busy.Add(1)
	return s
}

// add registers a session. When its principal has too many, the one that
// rested longest is taken out and returned.
func (r *sessions) add(s *session, limit int) (dropped *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[s.id] = s
	mine := r.of[s.principal]
	if mine == nil {
		mine = make(map[*session]bool)
		r.of[s.principal] = mine
	}
	mine[s] = true
	if len(mine) <= limit {
		return nil
	}
	for other := range mine {
		if other == s || other.busy.Load() > 0 {
			continue
		}
		if dropped == nil || other.used.Load() < dropped.used.Load() {
			dropped = other
		}
	}
	if dropped != nil {
		r.removeLocked(dropped)
	}
	return dropped
}

// remove takes a session out. It returns false when it was out already.
func (r *sessions) remove(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(s)
}

func (r *sessions) removeLocked(s *session) bool {
	if r.all[s.id] != s {
		return false
	}
	delete(r.all, s.id)
	delete(r.of[s.principal], s)
	if len(r.of[s.principal]) == 0 {
		delete(r.of, s.principal)
	}
	return true
}

// takeIdle takes out every session that rested since t, or all of them with
// the zero time, and returns them.
func (r *sessions) takeIdle(t time.Time) []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*session
	for _, s := range r.all {
		if t.IsZero() || s.idleSince(t) {
			r.removeLocked(s)
			out = append(out, s)
		}
	}
	return out
}
