package mcpserver

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// session is what this instance remembers of an MCP session of the older era:
// what is going on, and what its client knows. All that the session is stands
// in its id, so it can be forgotten at any time when it rests, and begun again
// from the id here or elsewhere. It belongs to the principal that opened it:
// to anyone else it does not exist.
type session struct {
	name      sessionName
	principal string
	issued    time.Time
	ends      time.Time // when its id is good no longer
	view      *view
	can       action.ClientFeatures // what its client can be asked

	used atomic.Int64 // when a request last ended, in nanoseconds
	busy atomic.Int32 // requests and event streams in progress
	owns atomic.Int32 // subscriptions that this instance made for it

	mu         sync.Mutex
	calls      map[string]*call // in flight, by request id; nil while there is none
	lately     []string         // request ids of the last calls that ended here
	stream     *stream          // nil while there is none
	endStream  context.CancelFunc
	over       bool
	knows      versions                 // of the lists that its client took here last
	level      string                   // of log messages; empty: its client did not say
	subscribed map[string]*subscription // by URI, as its client knows it
}

// leave notes that a request of the session ended; see sessions.enter.
func (s *session) leave(now time.Time) {
	s.used.Store(now.UnixNano())
	s.busy.Add(-1)
}

// idleSince reports whether nothing happened since t and nothing is going on.
// One that subscribed here to a resource may well listen elsewhere.
func (s *session) idleSince(t time.Time) bool {
	return s.busy.Load() == 0 && s.owns.Load() == 0 && s.used.Load() < t.UnixNano()
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
	s.endedLocked(id)
}

// inFlight returns the call with the id, or nil when there is none (any more).
func (s *session) inFlight(id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
}

// keepLately is how many ids of ended calls are remembered.
const keepLately = 8

// endedLocked remembers the id of a call that ended here. Some clients cancel
// every call after it ended, and peers need not hear of that.
func (s *session) endedLocked(id string) {
	if len(id) > maxPostedID {
		return
	}
	if len(s.lately) == keepLately {
		s.lately = slices.Delete(s.lately, 0, 1)
	}
	s.lately = append(s.lately, id)
}

// endedLately reports whether the call is one of the last that ended here.
func (s *session) endedLately(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.lately, id)
}

// openStream makes st the session's event stream and returns its context, which
// ends with the session. It returns false when there is a stream already: every
// message is for one of them only. The caller must close the stream.
func (s *session) openStream(ctx context.Context, st *stream) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		return nil, false
	}
	s.stream = st
	ctx, s.endStream = context.WithCancel(ctx)
	if s.over {
		s.endStream()
	}
	return ctx, true
}

func (s *session) closeStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endStream()
	s.stream, s.endStream = nil, nil
}

// close ends the session's event stream, now and for good. Calls in flight go
// on to their answers.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.endStream != nil {
		s.endStream()
	}
}

// took notes which list the client took, and returns the one of the kind that
// it took here before, if any.
func (s *session) took(k kind, version string) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.knows[k] = s.knows[k], version
	return before
}
