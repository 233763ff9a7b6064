package mcpserver

import (
	"sync"
	"time"

	"sallyport/action"
)

// maxEnded is how many ended sessions are remembered. Beyond it some are
// forgotten, and their clients could use them again until their ids expire,
// unless peers remember.
const maxEnded = 100_000

// sessions is the registry of the MCP sessions that this instance remembers.
type sessions struct {
	mu    sync.Mutex
	all   map[sessionName]*session
	of    map[string]map[*session]bool // by principal
	ended map[sessionName]int64        // those that a client ended, until when, in Unix seconds
}

func newSessions() sessions {
	return sessions{all: map[sessionName]*session{}, of: map[string]map[*session]bool{}, ended: map[sessionName]int64{}}
}

// enter returns the principal's session and notes that a request of it
// begins, so that it is not forgotten in between; nil when it is not known
// here. The caller must leave it.
func (r *sessions) enter(name sessionName, who *action.Session, now time.Time) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.all[name]
	if s == nil || s.principal != who.ID || !now.Before(s.ends) {
		return nil
	}
	s.busy.Add(1)
	return s
}

// find returns a session, whoever's it is, or nil.
func (r *sessions) find(name sessionName) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[name]
}

// add enters a session that was not known here. Of several that do so at once
// one is kept, and all enter it; nil is for one that ended meanwhile. When its
// principal has too many, the one that rested longest is taken out and
// returned.
func (r *sessions) add(n *session, limit int) (kept, dropped *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ended := r.ended[n.name]; ended {
		return nil, nil
	}
	if s := r.all[n.name]; s != nil {
		s.busy.Add(1)
		return s, nil
	}
	n.busy.Add(1)
	r.all[n.name] = n
	mine := r.of[n.principal]
	if mine == nil {
		mine = make(map[*session]bool)
		r.of[n.principal] = mine
	}
	mine[n] = true
	if len(mine) > limit {
		dropped = longestRested(mine)
	}
	if dropped != nil {
		r.removeLocked(dropped)
	}
	return n, dropped
}

// longestRested returns the session of them that nobody used for longest, or
// nil when all are busy.
func longestRested(of map[*session]bool) (found *session) {
	for s := range of {
		if s.busy.Load() == 0 && (found == nil || s.used.Load() < found.used.Load()) {
			found = s
		}
	}
	return found
}

// finish takes a session out for good: it is not begun again here, whoever has
// its id. It returns the session, or nil when it was not known.
func (r *sessions) finish(name sessionName, until time.Time) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ended) >= maxEnded {
		for some := range r.ended {
			delete(r.ended, some)
			break
		}
	}
	r.ended[name] = until.Unix()
	s := r.all[name]
	if s != nil {
		r.removeLocked(s)
	}
	return s
}

// hasEnded reports whether a client ended the session, as far as is known
// here.
func (r *sessions) hasEnded(name sessionName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ended := r.ended[name]
	return ended
}

func (r *sessions) removeLocked(s *session) {
	delete(r.all, s.name)
	delete(r.of[s.principal], s)
	if len(r.of[s.principal]) == 0 {
		delete(r.of, s.principal)
	}
}

// takeIdle takes out every session that rested since t or whose id expired,
// and returns them.
func (r *sessions) takeIdle(t, now time.Time) []*session {
	return r.take(func(s *session) bool { return s.idleSince(t) || !now.Before(s.ends) })
}

// takeAll takes out every session and returns them.
func (r *sessions) takeAll() []*session {
	return r.take(func(*session) bool { return true })
}

// takeOf takes out every session of a principal and returns them.
func (r *sessions) takeOf(principal string) (out []*session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.of[principal] {
		out = append(out, s)
	}
	for _, s := range out {
		r.removeLocked(s)
	}
	return out
}

func (r *sessions) take(which func(*session) bool) []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*session
	for _, s := range r.all {
		if which(s) {
			r.removeLocked(s)
			out = append(out, s)
		}
	}
	return out
}

// forget forgets the ended sessions whose ids are good no longer.
func (r *sessions) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, until := range r.ended {
		if until < now.Unix() {
			delete(r.ended, name)
		}
	}
}
