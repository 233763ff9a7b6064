package mcpserver

import (
	"errors"
	"net/http"
)

const sessionHeader = "Mcp-Session-Id"

// sessionGone is what an unknown session is answered with, and another
// principal's. It is plain text: clients take it for the end of their session
// and open a new one.
const sessionGone = "This MCP session is unknown or has expired; initialize again."

// errSessionGone tells that an id is no good, or not for this principal.
var errSessionGone = errors.New("the MCP session is gone")

// enterSession finds the MCP session of a request of the older era. It returns
// false when it answered the request.
func (s *Server) enterSession(x *exchange) bool {
	if x.modern {
		return true
	}
	id := x.r.Header.Get(sessionHeader)
	if id == "" {
		if x.r.Method == http.MethodPost && (x.method == "initialize" || x.method == "server/discover") {
			return true
		}
		x.fail(wrongEnvelope("The header " + sessionHeader + " is missing; initialize first."))
		return false
	}
	name := nameOfSession(id)
	if x.mcp = s.sessions.enter(name, &x.who, s.cfg.Now()); x.mcp != nil {
		if s.goesOn(x) {
			return true
		}
		plain(x.w, http.StatusNotFound, sessionGone)
		return false
	}
	var err error
	x.mcp, err = s.resume(x, id, name)
	switch {
	case err == nil:
		return true
	case errors.Is(err, errSessionGone):
		plain(x.w, http.StatusNotFound, sessionGone)
	default:
		s.cfg.Log.Error("asking whether an MCP session ended", "error", err)
		s.unsure(x.w)
	}
	return false
}

// goesOn reports whether a session that is known here was not ended elsewhere
// this moment, and leaves it if it was. Whoever ended it is told at once that
// it is gone, on whichever instance he looks. Only calls, and what some
// clients send after each of them, wait for the signal: the rows are not asked
// once more for those.
func (s *Server) goesOn(x *exchange) bool {
	if x.method == methodCall || x.method == methodCancelled {
		return true
	}
	old := x.mcp
	ended, err := s.hasEnded(x, old.name)
	if err != nil {
		s.cfg.Log.Warn("asking whether an MCP session ended; it goes on", "error", err)
	}
	if err != nil || !ended {
		return true
	}
	x.mcp = nil
	old.leave(s.cfg.Now())
	s.dropSession(old, old.ends.Add(skew))
	return false
}

// unsure answers a request that could not be looked at. It must not look like
// the end of the session.
func (s *Server) unsure(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	plain(w, http.StatusServiceUnavailable, "The MCP session could not be looked up just now; nothing was executed for this request. Try again.")
}

// resume enters a session that this instance does not know: it was opened
// elsewhere, or was forgotten here.
func (s *Server) resume(x *exchange, id string, name sessionName) (*session, error) {
	who, ok := s.ids.read(id, s.cfg.Now())
	if !ok || who.principal != principalOf(&x.who) {
		return nil, errSessionGone
	}
	ended, err := s.hasEnded(x, name)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return nil, errSessionGone
	}
	if kept := s.remember(x, name, &who); kept != nil {
		return kept, nil
	}
	return nil, errSessionGone
}

// remember enters a session that is not known here; nil when it ended
// meanwhile.
func (s *Server) remember(x *exchange, name sessionName, who *identity) *session {
	now := s.cfg.Now()
	n := &session{
		name: name, principal: x.who.ID, issued: who.issued, ends: s.ids.end(who.issued),
		can: who.can.features(), view: s.views.hold(&x.who, now),
	}
	n.used.Store(now.UnixNano())
	kept, dropped := s.sessions.add(n, s.cfg.MaxSessions)
	if kept != n {
		s.views.release(n.view, now)
	}
	if dropped != nil {
		s.end(dropped)
	}
	return kept
}

// end closes a session that is out of the registry.
func (s *Server) end(old *session) {
	old.close()
	s.unwatchAll(old)
	s.views.release(old.view, s.cfg.Now())
}
