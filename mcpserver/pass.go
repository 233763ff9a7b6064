package mcpserver

import (
	"context"
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
	if !x.modern && !known(x.method) {
		if x.isCall() {
			x.fail(&problem{code: codeMethodNotFound, text: "There is no method " + strconv.Quote(cut(x.method, 64)) + "."})
		} else {
			x.w.WriteHeader(http.StatusAccepted) // what means nothing to us needs no answer
		}
		return
	}
	switch {
	case x.modern && x.method == "subscriptions/listen":
		v := s.views.hold(&x.who, s.cfg.Now())
		defer func() { s.views.release(v, s.cfg.Now()) }()
		s.sdkServer(v)
		// What changes from now on is news to the client.
		if _, err := v.current(x.r.Context(), s.cfg.Gate, &x.who, s.cfg.Now()); err != nil {
			s.cfg.Log.Warn("listing tools for a subscription", "error", err)
		}
		r := forModern(x, s.sdkServer(v), body)
		s.streamThrough(r.Context(), s.modern, x.w, r, nil)
	case x.modern:
		v := s.views.hold(&x.who, s.cfg.Now())
		defer func() { s.views.release(v, s.cfg.Now()) }()
		s.modern.ServeHTTP(prepared(x.w), forModern(x, s.sdkServer(v), body))
	case x.mcp != nil:
		s.converse(x, body)
	default:
		s.initialize(x, body)
	}
}

// known reports whether the SDK knows a method of the older era, which it
// would otherwise refuse in plain text. Responses have none.
func known(method string) bool {
	switch method {
	case "", "initialize", "ping", "server/discover", "completion/complete", "logging/setLevel",
		"prompts/get", "prompts/list",
		"resources/list", "resources/read", "resources/subscribe", "resources/templates/list", "resources/unsubscribe",
		"notifications/initialized", "notifications/progress", "notifications/roots/list_changed":
		return true
	}
	return false
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

// streamThrough hands a request to the SDK that it answers with a long event
// stream, which ends with ctx and when the gateway does. The greeting, if any,
// is its first event.
func (s *Server) streamThrough(ctx context.Context, h http.Handler, w http.ResponseWriter, r *http.Request, greeting []byte) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	st := s.streams.open(prepared(w), greeting)
	defer s.streams.shut(st)
	h.ServeHTTP(st, r.WithContext(ctx))
}
