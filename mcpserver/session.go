package mcpserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// session is what this instance remembers of an MCP session of the older era:
// what is going on, and what its client knows. All that the session is stands
// in its id, so it can be forgotten at any time when it rests, and begun again
// from the id here or elsewhere. It belongs to the principal that opened it:
// to anyone else it does not exist.
type session struct {
	name      token.SessionHash
	principal string
	issued    time.Time
	ends      time.Time // when its id is good no longer
	view      *view
	features  action.ClientFeatures // what its client can be asked

	lastUsed           atomic.Int64 // when a request last ended, in nanoseconds
	active             atomic.Int32 // requests and event streams in progress
	ownedSubscriptions atomic.Int32 // subscriptions that this instance made for it

	mu           sync.Mutex
	calls        map[string]*call // in flight, by request id; nil while there is none
	recentCalls  []string         // request ids of the last calls that ended here
	stream       *stream          // nil while there is none
	cancelStream context.CancelFunc
	closed       bool
	listVersions versions                 // of the lists that its client took here last
	level        string                   // of log messages; empty: its client did not say
	subscribed   map[string]*subscription // by URI, as its client knows it
}

// release notes that a request of the session ended; see sessions.enter.
func (s *session) release(now time.Time) {
	s.lastUsed.Store(now.UnixNano())
	s.active.Add(-1)
}

// idleSince reports whether nothing happened since t and nothing is going on.
// One that subscribed here to a resource may well listen elsewhere.
func (s *session) idleSince(t time.Time) bool {
	return s.active.Load() == 0 && s.ownedSubscriptions.Load() == 0 && s.lastUsed.Load() < t.UnixNano()
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

// maxRecentCalls is how many ids of ended calls are remembered.
const maxRecentCalls = 8

// endedLocked remembers the id of a call that ended here. Some clients cancel
// every call after it ended, and peers need not hear of that.
func (s *session) endedLocked(id string) {
	if len(id) > maxSignalID {
		return
	}
	if len(s.recentCalls) == maxRecentCalls {
		s.recentCalls = slices.Delete(s.recentCalls, 0, 1)
	}
	s.recentCalls = append(s.recentCalls, id)
}

// endedRecently reports whether the call is one of the last that ended here.
func (s *session) endedRecently(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.recentCalls, id)
}

// openStream makes st the session's event stream and returns its context, which
// ends with the session. It returns false when there is a stream already: every
// Response is for one of them only. The caller must close the stream.
func (s *session) openStream(ctx context.Context, st *stream) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		return nil, false
	}
	s.stream = st
	ctx, s.cancelStream = context.WithCancel(ctx)
	if s.closed {
		s.cancelStream()
	}
	return ctx, true
}

func (s *session) closeStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelStream()
	s.stream, s.cancelStream = nil, nil
}

// close ends the session's event stream, now and for good. Calls in flight go
// on to their answers.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.cancelStream != nil {
		s.cancelStream()
	}
}

// recordVersion notes which list the client took, and returns the one of the kind that
// it took here before, if any.
func (s *session) recordVersion(k kind, version string) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.listVersions[k] = s.listVersions[k], version
	return before
}

const sessionHeader = "Mcp-Session-Id"

// sessionGoneText is what an unknown session is answered with, and another
// principal's. It is plain text: clients take it for the end of their session
// and open a new one.
const sessionGoneText = "This MCP session is unknown or has expired; initialize again."

// errSessionGone tells that an id is no good, or not for this principal.
var errSessionGone = errors.New("the MCP session is gone")

// loadSession finds the MCP session of a request of the older era. It returns
// false when it answered the request.
func (s *Server) loadSession(x *exchange) bool {
	if x.stateless {
		return true
	}
	id := x.r.Header.Get(sessionHeader)
	if id == "" {
		if x.r.Method == http.MethodPost && (x.Method == "initialize" || x.Method == "server/discover") {
			return true
		}
		x.sendError(wire.InvalidRequest("The header " + sessionHeader + " is missing; initialize first."))
		return false
	}
	name := token.HashSessionID(id)
	if x.session = s.sessions.acquire(name, &x.who, s.cfg.Now()); x.session != nil {
		if s.stillOpen(x) {
			return true
		}
		wire.WriteText(x.w, http.StatusNotFound, sessionGoneText)
		return false
	}
	var err error
	x.session, err = s.resume(x, id, name)
	switch {
	case err == nil:
		return true
	case errors.Is(err, errSessionGone):
		wire.WriteText(x.w, http.StatusNotFound, sessionGoneText)
	default:
		s.cfg.Log.Error("asking whether an MCP session ended", "error", err)
		s.sendLookupFailed(x.w)
	}
	return false
}

// stillOpen reports whether a session that is known here was not ended elsewhere
// this moment, and leaves it if it was. Whoever ended it is told at once that
// it is gone, on whichever instance he looks. Only calls, and what some
// clients send after each of them, wait for the signal: the rows are not asked
// once more for those.
func (s *Server) stillOpen(x *exchange) bool {
	if x.Method == methodCall || x.Method == methodCancelled {
		return true
	}
	old := x.session
	ended, err := s.sessionEnded(x, old.name)
	if err != nil {
		s.cfg.Log.Warn("asking whether an MCP session ended; it goes on", "error", err)
	}
	if err != nil || !ended {
		return true
	}
	x.session = nil
	old.release(s.cfg.Now())
	s.endSessionHere(old, old.ends.Add(maxClockSkew))
	return false
}

// sendLookupFailed answers a request that could not be looked at. It must not look like
// the end of the session.
func (s *Server) sendLookupFailed(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	wire.WriteText(w, http.StatusServiceUnavailable, "The MCP session could not be looked up just now; nothing was executed for this request. Try again.")
}

// resume enters a session that this instance does not know: it was opened
// elsewhere, or was forgotten here.
func (s *Server) resume(x *exchange, id string, name token.SessionHash) (*session, error) {
	who, ok := s.ids.Parse(id, s.cfg.Now())
	if !ok || who.Principal != token.PrincipalOf(&x.who) {
		return nil, errSessionGone
	}
	ended, err := s.sessionEnded(x, name)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return nil, errSessionGone
	}
	if kept := s.addSession(x, name, &who); kept != nil {
		return kept, nil
	}
	return nil, errSessionGone
}

// addSession enters a session that is not known here; nil when it ended
// meanwhile.
func (s *Server) addSession(x *exchange, name token.SessionHash, who *token.Session) *session {
	now := s.cfg.Now()
	n := &session{
		name: name, principal: x.who.ID, issued: who.IssuedAt, ends: s.ids.Expiry(who.IssuedAt),
		features: who.Capabilities.Features(), view: s.views.hold(&x.who, now),
	}
	n.lastUsed.Store(now.UnixNano())
	kept, dropped := s.sessions.add(n, s.cfg.MaxSessions)
	if kept != n {
		s.views.release(n.view, now)
	}
	if dropped != nil {
		s.closeSession(dropped)
	}
	return kept
}

// closeSession closes a session that is out of the registry.
func (s *Server) closeSession(old *session) {
	old.close()
	s.removeSubscriptions(old)
	s.views.release(old.view, s.cfg.Now())
}
