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

// session is the state of an MCP session in this instance. The session itself is
// defined by its id, so an idle one can be removed at any time and restored from the
// id, here or on another instance. It belongs to the principal that opened it; for
// others it does not exist.
type session struct {
	name      token.SessionHash
	principal string
	issued    time.Time
	ends      time.Time // when its id expires
	view      *view
	features  action.ClientFeatures // what its client can be asked for

	lastUsed           atomic.Int64 // when a request last ended, in nanoseconds
	active             atomic.Int32 // requests and event streams in progress
	ownedSubscriptions atomic.Int32 // subscriptions that this instance made at sources

	mu           sync.Mutex
	calls        map[string]*call // in flight, by request id; nil if there is none
	recentCalls  []string         // request ids of the last calls that ended on this instance
	stream       *stream          // nil if no event stream is open
	cancelStream context.CancelFunc
	closed       bool
	listVersions versions                 // of the lists that its client last fetched from this instance
	level        string                   // of log messages; empty: not set
	subscribed   map[string]*subscription // by the URI that its client uses
}

// release marks the end of a request; see sessions.acquire.
func (s *session) release(now time.Time) {
	s.lastUsed.Store(now.UnixNano())
	s.active.Add(-1)
}

// register adds a call in flight. It returns false if the id is in use.
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

// maxRecentCalls is the number of ended calls whose ids are kept. Some clients send a
// cancellation after every call; peers need not receive those.
const maxRecentCalls = 8

// unregister removes a call unless its id belongs to another call by now.
func (s *session) unregister(id string, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[id] != c {
		return
	}
	delete(s.calls, id)
	if len(s.calls) == 0 {
		s.calls = nil // most sessions are idle most of the time
	}
	if len(id) > maxSignalID {
		return
	}
	if len(s.recentCalls) == maxRecentCalls {
		s.recentCalls = slices.Delete(s.recentCalls, 0, 1)
	}
	s.recentCalls = append(s.recentCalls, id)
}

// inFlight returns the call with the id, or nil.
func (s *session) inFlight(id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
}

// endedRecently reports whether the call is one of the last that ended on this
// instance.
func (s *session) endedRecently(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.recentCalls, id)
}

// openStream registers the event stream of the session and returns a context that
// ends with the session. It returns false if a stream is open: every message is sent
// on one stream only. The caller must close the stream.
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

// close ends the event stream for good. Calls in flight continue to their responses.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.cancelStream != nil {
		s.cancelStream()
	}
}

// recordVersion records which version of a list the client fetched, and returns the
// previous one.
func (s *session) recordVersion(k kind, version string) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.listVersions[k] = s.listVersions[k], version
	return before
}

const sessionHeader = "Mcp-Session-Id"

// sessionGoneText answers requests for unknown sessions and those of other
// principals. Clients react to it by opening a new session.
const sessionGoneText = "This MCP session is unknown or has expired; initialize again."

// errSessionGone means that a session id is invalid, or not valid for the principal.
var errSessionGone = errors.New("the MCP session is gone")

// loadSession finds the MCP session of a request. It returns false if it answered
// the request.
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
		s.cfg.Log.Error("the state of an MCP session could not be read", "error", err)
		s.sendLookupFailed(x.w)
	}
	return false
}

// stillOpen reports whether a session in memory was not ended on another instance,
// and releases it otherwise. Calls and the cancellations that some clients send
// after each call skip this query; for them the signal of the peer, which takes up
// to a second, is enough.
func (s *Server) stillOpen(x *exchange) bool {
	if x.Method == methodCall || x.Method == methodCancelled {
		return true
	}
	old := x.session
	ended, err := s.sessionEnded(x, old.name)
	if err != nil {
		s.cfg.Log.Warn("the state of an MCP session could not be read; it continues", "error", err)
	}
	if err != nil || !ended {
		return true
	}
	x.session = nil
	old.release(s.cfg.Now())
	s.endSessionHere(old, old.ends.Add(maxClockSkew))
	return false
}

// sendLookupFailed answers a request whose session could not be looked up. Clients
// must not take it for the end of the session.
func (s *Server) sendLookupFailed(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	wire.WriteText(w, http.StatusServiceUnavailable, "The MCP session could not be looked up just now; nothing was executed for this request. Try again.")
}

// resume restores a session that is not in memory from its id.
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

// addSession adds a session to the registry; nil if it ended meanwhile.
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

// closeSession releases what a session holds after its removal from the registry.
func (s *Server) closeSession(old *session) {
	old.close()
	s.removeSubscriptions(old)
	s.views.release(old.view, s.cfg.Now())
}
