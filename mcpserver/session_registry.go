package mcpserver

import (
	"sync"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/token"
)

// maxEnded is the number of ended sessions that are kept. Beyond it, clients could
// use some of them again until their ids expire, unless peers know that they ended.
const maxEnded = 100_000

// sessions is the registry of the MCP sessions in memory.
type sessions struct {
	mu          sync.Mutex
	all         map[token.SessionHash]*session
	byPrincipal map[string]map[*session]bool // by principal
	ended       map[token.SessionHash]int64  // ended by clients, with the expiry in Unix seconds
}

// acquire returns the principal's session and marks a request as in progress, so
// that the session is not evicted; nil if it is not in memory. The caller must
// release it.
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

// find returns a session of any principal, or nil.
func (r *sessions) find(name token.SessionHash) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[name]
}

// add registers a session. If several requests do so at once, one session is kept
// and all acquire it; nil means that it ended meanwhile. Above the limit of its
// principal, the least recently used session is removed and returned.
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
		for s := range mine {
			if s.active.Load() == 0 && (dropped == nil || s.lastUsed.Load() < dropped.lastUsed.Load()) {
				dropped = s
			}
		}
	}
	if dropped != nil { // nil: all are active
		r.removeLocked(dropped)
	}
	return n, dropped
}

// end removes a session for good: its id is not accepted any more. It returns the
// session, or nil if it was not in memory.
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

// hasEnded reports whether this instance knows that the session ended.
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

// removeIdle removes and returns the sessions that were unused since t or whose ids
// expired. A session with subscriptions from this instance counts as used: its event
// stream may be on another one.
func (r *sessions) removeIdle(t, now time.Time) []*session {
	return r.removeWhere(func(s *session) bool {
		return s.active.Load() == 0 && s.ownedSubscriptions.Load() == 0 && s.lastUsed.Load() < t.UnixNano() || !now.Before(s.ends)
	})
}

// removeByPrincipal removes and returns all sessions of a principal.
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

// forgetEnded drops ended sessions whose ids have expired.
func (r *sessions) forgetEnded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, until := range r.ended {
		if until < now.Unix() {
			delete(r.ended, name)
		}
	}
}
