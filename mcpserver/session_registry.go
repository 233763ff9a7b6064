package mcpserver

import (
	"sync"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/token"
)

// maxEnded is how many ended sessions are remembered. Beyond it some are
// forgotten, and their clients could use them again until their ids expire,
// unless peers remember.
const maxEnded = 100_000

// sessions is the registry of the MCP sessions that this instance remembers.
type sessions struct {
	mu          sync.Mutex
	all         map[token.SessionHash]*session
	byPrincipal map[string]map[*session]bool // by principal
	ended       map[token.SessionHash]int64  // those that a client ended, until when, in Unix seconds
}

func newSessions() sessions {
	return sessions{all: map[token.SessionHash]*session{}, byPrincipal: map[string]map[*session]bool{}, ended: map[token.SessionHash]int64{}}
}

// acquire returns the principal's session and notes that a request of it
// begins, so that it is not forgotten in between; nil when it is not known
// here. The caller must leave it.
func (r *sessions) acquire(name token.SessionHash, who *action.Session, now time.Time) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.all[name]
	if s == nil || s.principal != who.ID || !now.Before(s.ends) {
		return nil
	}
	s.active.Add(1)
	return s
}

// find returns a session, whoever's it is, or nil.
func (r *sessions) find(name token.SessionHash) *session {
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
		s.active.Add(1)
		return s, nil
	}
	n.active.Add(1)
	r.all[n.name] = n
	mine := r.byPrincipal[n.principal]
	if mine == nil {
		mine = make(map[*session]bool)
		r.byPrincipal[n.principal] = mine
	}
	mine[n] = true
	if len(mine) > limit {
		dropped = leastRecentlyUsed(mine)
	}
	if dropped != nil {
		r.removeLocked(dropped)
	}
	return n, dropped
}

// leastRecentlyUsed returns the session of them that nobody used for longest, or
// nil when all are busy.
func leastRecentlyUsed(of map[*session]bool) (found *session) {
	for s := range of {
		if s.active.Load() == 0 && (found == nil || s.lastUsed.Load() < found.lastUsed.Load()) {
			found = s
		}
	}
	return found
}

// end takes a session out for good: it is not begun again here, whoever has
// its id. It returns the session, or nil when it was not known.
func (r *sessions) end(name token.SessionHash, until time.Time) *session {
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
func (r *sessions) hasEnded(name token.SessionHash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ended := r.ended[name]
	return ended
}

func (r *sessions) removeLocked(s *session) {
	delete(r.all, s.name)
	delete(r.byPrincipal[s.principal], s)
	if len(r.byPrincipal[s.principal]) == 0 {
		delete(r.byPrincipal, s.principal)
	}
}

// removeIdle takes out every session that rested since t or whose id expired,
// and returns them.
func (r *sessions) removeIdle(t, now time.Time) []*session {
	return r.removeWhere(func(s *session) bool { return s.idleSince(t) || !now.Before(s.ends) })
}

// removeAll takes out every session and returns them.
func (r *sessions) removeAll() []*session {
	return r.removeWhere(func(*session) bool { return true })
}

// removeByPrincipal takes out every session of a principal and returns them.
func (r *sessions) removeByPrincipal(principal string) (out []*session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.byPrincipal[principal] {
		out = append(out, s)
	}
	for _, s := range out {
		r.removeLocked(s)
	}
	return out
}

func (r *sessions) removeWhere(which func(*session) bool) []*session {
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

// forgetEnded forgets the ended sessions whose ids are good no longer.
func (r *sessions) forgetEnded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, until := range r.ended {
		if until < now.Unix() {
			delete(r.ended, name)
		}
	}
}
