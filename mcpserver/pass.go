package mcpserver

import (
	"net/http"
	"strconv"
	"time"
)

// getOrDelete handles what carries no message: event streams and goodbyes.
func (s *Server) getOrDelete(x *exchange) {
	if x.modern {
		notAllowed(x.w, "POST")
		return
	}
	if !s.enterSession(x) {
		return
	}
	defer func() { x.mcp.leave(s.cfg.Now()) }()
	if x.r.Method == http.MethodGet {
		s.openEvents(x)
		return
	}
	if err := s.finishSession(x); err != nil {
		s.cfg.Log.Error("ending an MCP session", "error", err)
		s.unsure(x.w)
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

// pass hands a message to the SDK.
func (s *Server) pass(x *exchange, body []byte) {
	if s.calls.draining() && x.isCall() {
		s.unavailable(x.w)
		return
	}
	switch {
	case x.modern:
		v := s.views.hold(&x.who, s.cfg.Now())
		defer func() { s.views.release(v, s.cfg.Now()) }()
		s.modern.ServeHTTP(prepared(x.w), forModern(x, s.sdkServer(x, v), body))
	case !x.isCall():
		x.w.WriteHeader(http.StatusAccepted) // what a client tells of itself, and what means nothing to us
	case x.method != "initialize" && x.method != "ping" && x.method != "server/discover":
		x.fail(noMethod(x.method)) // the SDK would refuse it in plain text
	case x.mcp != nil:
		s.converse(x, body)
	default:
		s.initialize(x, body)
	}
}

func noMethod(method string) *problem {
	return &problem{code: codeMethodNotFound, text: "There is no method " + strconv.Quote(cut(method, 64)) + "."}
}

func (s *Server) unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "2")
	plain(w, http.StatusServiceUnavailable, drainingText)
}

// prepared is w for an answer of the SDK, which neither keeps proxies from
// buffering nor bounds its writes.
func prepared(w http.ResponseWriter) http.ResponseWriter {
	w.Header().Set("X-Accel-Buffering", "no")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) // where it knows deadlines
	return w
}
