package mcpserver

import (
	"sync"
	"time"
)

const (
	// maxPosted is how much of one kind a principal has told to peers in a
	// minute, by one instance: each word is a row, and an agent may cancel, and
	// open and end sessions, as often as it likes.
	maxPosted  = 120
	postWindow = time.Minute
)

// allowances count what principals had told to peers. They are of principals
// and not of MCP sessions, which cost nothing to open.
type allowances struct {
	mu sync.Mutex
	of map[allowanceKey]allowance
}

type allowanceKey struct {
	principal string
	kind      SignalKind
}

type allowance struct {
	since time.Time // of the first word of its window
	count int
}

func (a allowance) over(now time.Time) bool { return now.Sub(a.since) >= postWindow }

// take counts a word and reports whether peers may be told of it. The first of
// a minute that they may not be told of is worth a line in the log.
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

// mayPost reports whether peers are to be told of one more word of the kind,
// and counts it.
func (s *Server) mayPost(x *exchange, kind SignalKind) bool {
	ok, first := s.posted.take(allowanceKey{x.who.ID, kind}, s.cfg.Now())
	if first {
		s.cfg.Log.Warn("a session cancels calls or ends MCP sessions too often; other instances are told no more of it within this minute", "session", x.who.ID, "kind", kind)
	}
	return ok
}
