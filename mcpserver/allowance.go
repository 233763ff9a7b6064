package mcpserver

import (
	"sync"
	"time"
)

const (
	// maxPosted is how much of one kind a principal has written to rows in a
	// minute, by one instance, beside its calls: an agent may cancel, reply, and
	// open and end sessions, as often as it likes.
	maxPosted  = 120
	postWindow = time.Minute
)

// allowances count what principals had told to peers, and what they replied.
// They are of principals and not of MCP sessions, which cost nothing to open.
type allowances struct {
	mu sync.Mutex
	of map[allowanceKey]allowance
}

type allowanceKey struct {
	principal string
	kind      SignalKind // kindReply for a reply
}

type allowance struct {
	since time.Time // of the first word of its window
	count int
}

func (a allowance) over(now time.Time) bool { return now.Sub(a.since) >= postWindow }

// take counts a word and reports whether it may be written. The first of a
// minute that may not is worth a line in the log.
func (a *allowances) take(k allowanceKey, now time.Time) (ok, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, known := a.of[k]
	if !known || one.over(now) {
		one = allowance{since: now}
	}
	one.count++
	a.of[k] = one
	return one.count <= maxPosted, one.count == maxPosted+1
}

// forget drops what counts no longer.
func (a *allowances) forget(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, one := range a.of {
		if one.over(now) {
			delete(a.of, k)
		}
	}
}

// kindReply counts replies to questions among what is told to peers.
const kindReply SignalKind = "reply"

// mayReply reports whether one more reply of the principal is taken, and counts
// it.
func (s *Server) mayReply(x *exchange) bool {
	ok, first := s.posted.take(allowanceKey{x.who.ID, kindReply}, s.cfg.Now())
	if first {
		s.cfg.Log.Warn("a session replies too often to questions; no more is taken of it within this minute", "session", x.who.ID)
	}
	return ok
}

// mayPost reports whether peers are to be told of one more word of the kind,
// and counts it.
func (s *Server) mayPost(x *exchange, kind SignalKind) bool {
	ok, first := s.posted.take(allowanceKey{x.who.ID, kind}, s.cfg.Now())
	if first {
		s.cfg.Log.Warn("a session cancels calls or ends MCP sessions too often; other instances are told no more of it within this minute", "session", x.who.ID, "kind", kind)
	}
	return ok
}
