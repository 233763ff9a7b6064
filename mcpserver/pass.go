package mcpserver

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

const sessionHeader = "Mcp-Session-Id"

// sessionGone is what an unknown session is answered with, and another
// principal's. It is plain text: clients take it for the end of their session
// and open a new one.
const sessionGone = "This MCP session is unknown or has expired; initialize again."

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
	if x.mcp = s.sessions.enter(id, &x.who); x.mcp == nil {
		plain(x.w, http.StatusNotFound, sessionGone)
		return false
	}
	return true
}

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
	if x.r.Method == http.MethodDelete {
		if s.sessions.remove(x.mcp) {
			s.end(x.mcp)
		}
		x.w.WriteHeader(http.StatusNoContent)
		return
	}
	if _, stream := accepts(x.r); !stream {
		plain(x.w, http.StatusNotAcceptable, "GET opens an event stream; Accept must list text/event-stream.")
		return
	}
	s.streamThrough(s.legacy, x, x.mcp.view, nil)
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
		s.streamThrough(s.modern, x, v, body)
	case x.modern:
		v := s.views.hold(&x.who, s.cfg.Now())
		defer func() { s.views.release(v, s.cfg.Now()) }()
		s.modern.ServeHTTP(prepared(x.w), forSDK(x.r.Context(), x.r, s.sdkServer(v), body))
	case x.mcp != nil:
		s.legacy.ServeHTTP(prepared(x.w), forSDK(x.r.Context(), x.r, s.sdkServer(x.mcp.view), body))
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
// stream, which ends when the gateway does.
func (s *Server) streamThrough(h http.Handler, x *exchange, v *view, body []byte) {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	st := s.streams.open(prepared(x.w))
	defer s.streams.shut(st)
	h.ServeHTTP(st, forSDK(ctx, x.r, s.sdkServer(v), body))
}

// initialize lets the SDK open a session, and registers it before the client
// learns of it. The SDK keeps the context of this request as long as the
// session, so it gets one that holds nothing else.
func (s *Server) initialize(x *exchange, body []byte) {
	now := s.cfg.Now()
	v := s.views.hold(&x.who, now)
	in := &initializing{ResponseWriter: prepared(x.w)}
	in.opened = func(id string) {
		n := &session{id: id, principal: x.who.ID, view: v}
		n.used.Store(now.UnixNano())
		if dropped := s.sessions.add(n, s.cfg.MaxSessions); dropped != nil {
			s.end(dropped)
		}
	}
	s.legacy.ServeHTTP(in, forSDK(context.Background(), x.r, s.sdkServer(v), body))
	if !in.done {
		s.views.release(v, now)
	}
}

// initializing watches the answer to initialize for the new session's id. The
// SDK writes the whole answer at once.
type initializing struct {
	http.ResponseWriter
	opened func(id string)
	done   bool
}

// Write passes the answer on. An answer that is an error opened no session.
func (w *initializing) Write(b []byte) (int, error) {
	id := w.Header().Get(sessionHeader)
	switch {
	case id == "" || w.done:
	case member(b, "result") != nil:
		w.done = true
		w.opened(id)
	default:
		w.Header().Del(sessionHeader)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the real writer.
func (w *initializing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end closes the SDK's side of a session that is out of the registry. The SDK
// has no other way in than the client's own.
func (s *Server) end(old *session) {
	ctx := context.WithValue(context.Background(), serverKey{}, s.sdkServer(old.view))
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, "/", nil)
	if err != nil { // the arguments are constants
		return
	}
	r.Header.Set(sessionHeader, old.id)
	s.legacy.ServeHTTP(nowhere{}, r)
	s.views.release(old.view, s.cfg.Now())
}

// nowhere is where answers to nobody go.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
