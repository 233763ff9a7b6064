package mcpserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// serverKey is the context key of the view's SDK server: the SDK's handler asks for
// the server with nothing but the request.
type serverKey struct{}

func sdkServerFromContext(r *http.Request) *mcp.Server {
	s, _ := r.Context().Value(serverKey{}).(*mcp.Server)
	return s
}

// newStatelessHandler returns the SDK's handler of the stateless protocol.
// JSONResponse costs nothing, because no tool runs inside it, and admits clients
// that do not accept event streams.
func newStatelessHandler(maxBody int64) http.Handler {
	return mcp.NewStreamableHTTPHandler(sdkServerFromContext, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		JSONResponse:                 true,
		DisableLocalhostProtection:   true, // allowlist checks the Host header
		MaxRequestBodyBytes:          maxBody,
		PropagateRequestCancellation: true,
	})
}

// sdkSession is the SDK's side of an MCP session. It holds nothing that must
// survive: each request that needs the SDK creates one from the session's id, so
// idle sessions have none.
type sdkSession struct {
	transport *mcp.StreamableServerTransport
	session   *mcp.ServerSession
}

// connectSDK creates an SDK session for an exchange; state is nil before initialize.
// The caller must close it.
func (s *Server) connectSDK(x *exchange, v *view, state *mcp.ServerSessionState) (*sdkSession, error) {
	t := &mcp.StreamableServerTransport{} // without the id: the SDK would log it
	session, err := s.sdkServer(x, v).Connect(context.Background(), t, &mcp.ServerSessionOptions{State: state})
	if err != nil {
		return nil, err
	}
	return &sdkSession{transport: t, session: session}, nil
}

func (l *sdkSession) close() { _ = l.session.Close() } // nothing to flush

// roundTrip gives the SDK one message and returns its response.
func (l *sdkSession) roundTrip(r *http.Request, body []byte) *sdkResponse {
	h := &sdkResponse{header: http.Header{}}
	l.transport.ServeHTTP(h, withBody(r, body))
	return h
}

// sdkServer returns the SDK server of a view, which reports the current capabilities
// and instructions to initialize and server/discover. Lists, calls and event streams
// do not go through it.
func (s *Server) sdkServer(x *exchange, w *view) *mcp.Server {
	asked := x.Method == "initialize" || x.Method == "server/discover"
	var now serverFeatures
	var says string
	if asked {
		now = s.currentOfferings(x.r.Context(), w, &x.who).features
		now.tasks = x.stateless
		says = s.instructionsOf(x, w)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server == nil || asked && (w.sdkFeatures != now || w.sdkInstructions != says) {
		w.sdkFeatures, w.sdkInstructions = now, says
		w.server = mcp.NewServer(
			&mcp.Implementation{Name: serverName, Title: "Sallyport", Version: s.cfg.Version},
			&mcp.ServerOptions{
				Instructions: says,
				Capabilities: now.forSDK(),
				SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
			})
	}
	return w.server
}

// instructionsOf returns the instructions for the sessions of a view, from its
// current list.
func (s *Server) instructionsOf(x *exchange, w *view) string {
	ctx, cancel := context.WithTimeout(x.r.Context(), listTimeout)
	defer cancel()
	list, err := w.current(ctx, s.cfg.Gate, &x.who, s.cfg.Now())
	if err != nil {
		s.cfg.Log.Warn("tools could not be listed for the instructions", "session", x.who.ID, "error", err)
	}
	return s.instructions(w.key.search, list)
}

const serverName = "sallyport"

// withBody returns r with the body that was read from it.
func withBody(r *http.Request, body []byte) *http.Request {
	out := r.WithContext(r.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.ContentLength = int64(len(body))
	return out
}

// handleGetOrDelete opens the event stream of a session, or ends the session.
func (s *Server) handleGetOrDelete(x *exchange) {
	if x.stateless {
		wire.MethodNotAllowed(x.w, "POST")
		return
	}
	if !s.loadSession(x) {
		return
	}
	defer func() { x.session.release(s.cfg.Now()) }()
	if x.r.Method == http.MethodGet {
		s.handleEventStream(x)
		return
	}
	if err := s.endSession(x); err != nil {
		s.cfg.Log.Error("an MCP session could not be ended", "error", err)
		s.sendLookupFailed(x.w)
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

// forward passes a message to the SDK.
func (s *Server) forward(x *exchange, body []byte) {
	if s.calls.draining() && x.IsRequest() {
		s.sendDraining(x.w)
		return
	}
	switch {
	case x.stateless:
		v := s.views.hold(&x.who, s.cfg.Now())
		defer func() { s.views.release(v, s.cfg.Now()) }()
		ctx := context.WithValue(x.r.Context(), serverKey{}, s.sdkServer(x, v))
		out := withBody(x.r.Clone(ctx), body)
		out.Header.Set("Accept", "application/json, text/event-stream") // the SDK requires both
		s.statelessSDK.ServeHTTP(prepareSDKWriter(x.w), out)
	case !x.IsRequest():
		x.w.WriteHeader(http.StatusAccepted) // notifications that need no action
	case x.Method != "initialize" && x.Method != "ping" && x.Method != "server/discover":
		x.sendError(wire.MethodNotFound(x.Method)) // the SDK would answer in plain text
	case x.session != nil:
		s.forwardSessionMessage(x, body)
	default:
		s.initialize(x, body)
	}
}

// sendDraining answers a request during a shutdown.
func (s *Server) sendDraining(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "2")
	wire.WriteText(w, http.StatusServiceUnavailable, drainingText)
}

// prepareSDKWriter sets what the SDK does not: a header against proxy buffering, and
// a write deadline.
func prepareSDKWriter(w http.ResponseWriter) http.ResponseWriter {
	w.Header().Set("X-Accel-Buffering", "no")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wire.WriteTimeout)) // not every writer supports deadlines
	return w
}

// forwardSessionMessage has the SDK answer a message of a session, whose state is in
// its id. The id was verified already.
func (s *Server) forwardSessionMessage(x *exchange, body []byte) {
	who, ok := s.ids.Parse(x.r.Header.Get(sessionHeader), s.cfg.Now())
	if !ok { // it has just expired
		wire.WriteText(x.w, http.StatusNotFound, sessionGoneText)
		return
	}
	l, err := s.connectSDK(x, x.session.view, who.SDKState())
	if err != nil {
		s.cfg.Log.Error("the MCP SDK could not be connected", "error", err)
		x.sendError(wire.InternalError())
		return
	}
	defer l.close()
	l.roundTrip(x.r, body).writeTo(x.w)
}

// initialize has the SDK negotiate a session and assigns its id.
func (s *Server) initialize(x *exchange, body []byte) {
	v := s.views.hold(&x.who, s.cfg.Now())
	defer func() { s.views.release(v, s.cfg.Now()) }()
	l, err := s.connectSDK(x, v, nil)
	if err != nil {
		s.cfg.Log.Error("the MCP SDK could not be connected", "error", err)
		x.sendError(wire.InternalError())
		return
	}
	defer l.close()
	h := l.roundTrip(x.r, body)
	if version := textMember(wire.Member(h.message(), "result"), "protocolVersion"); version != "" {
		h.header.Set(sessionHeader, s.createSession(x, l.session.InitializeParams(), version))
	}
	h.writeTo(x.w)
}

// createSession adds a new session and returns its id.
func (s *Server) createSession(x *exchange, p *mcp.InitializeParams, version string) (id string) {
	who := token.Session{IssuedAt: s.cfg.Now().Truncate(time.Second), Principal: token.PrincipalOf(&x.who), Protocol: version}
	if p != nil {
		who.Capabilities = token.CapabilitiesOf(p.Capabilities)
		if c := p.ClientInfo; c != nil {
			who.ClientName, who.ClientVersion = c.Name, c.Version
		}
	}
	id = s.ids.Issue(&who)
	x.session = s.addSession(x, token.HashSessionID(id), &who)
	return id
}

// sdkResponse records the SDK's response to one message of a session. The SDK sends
// an event stream of one event, because its option for plain JSON is not available
// to those who serve its transport themselves. Clients get plain JSON: some accept
// nothing else.
type sdkResponse struct {
	header http.Header
	status int
	body   []byte
}

func (h *sdkResponse) Header() http.Header { return h.header }

// WriteHeader takes the first status, as net/http does.
func (h *sdkResponse) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *sdkResponse) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	h.body = append(h.body, b...)
	return len(b), nil
}

// message returns the message of the response; nil if it has none.
func (h *sdkResponse) message() []byte {
	if h.header.Get("Content-Type") != "text/event-stream" {
		return nil
	}
	var last []byte
	for line := range bytes.Lines(h.body) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			last = bytes.TrimSuffix(data, []byte("\n"))
		}
	}
	return last
}

// writeTo sends the response to the client.
func (h *sdkResponse) writeTo(w http.ResponseWriter) {
	to := prepareSDKWriter(w).Header()
	for key, values := range h.header {
		to[key] = values
	}
	body := h.body
	if h.header.Get("Content-Type") == "text/event-stream" {
		if body = h.message(); body == nil {
			return // the client disconnected before the SDK answered
		}
		to.Set("Content-Type", "application/json")
		to.Del("Connection")
	}
	w.WriteHeader(h.status)
	_, _ = w.Write(body) // a client that left needs no answer
}

// instructions are part of the model's prompt, so they contain only what changes its
// behavior. They match the list of the session; list is nil if it is unknown.
func (s *Server) instructions(search bool, list *toolset) string {
	text := `These tools act on real services through Sallyport, a gateway that checks every call.
Reads usually run at once. Writes may need a person's approval: the call then stays open for some minutes while the person decides. This is normal.
- Do not repeat a call that waits, timed out or returned PENDING. Call invocation_wait with its invocation_id to get the result; a repeated call joins the pending one.
- A denial is final for ` + durationText(s.cfg.DenialHolds) + `. Do not repeat the call or look for a way around it; tell the user.
- A call with an unknown outcome may have happened. Check at the service before you try again.
- When a call returns PENDING, show the user its approval link.`
	if s.cfg.RequestGrant != nil {
		text += "\n- Before many similar writes, request a standing approval once with grant_request, and keep calling meanwhile."
	}
	if s.cfg.Snapshot != nil {
		text += "\n- The resource " + capabilitiesURI + " has what this session may do at each service, and why not."
	}
	switch {
	case search:
		text += "\n- The list does not show the services' tools. Find them with actions_search, read one with actions_describe, call it with actions_call. Search before you say that something cannot be done."
	case list != nil && list.long():
		text += fmt.Sprintf("\n- The list has %d tools. If that is too many, actions_search {\"query\": \"…\"} finds tools by words, although it is not listed; a session can be created with the setting tools: search to list only the gateway's own tools.", len(list.names))
	}
	text += "\n- Your client may show a tool with its own name for this server in front, such as sallyport_invocation_wait for invocation_wait. Call it by the name shown to you; pass tool names to other tools without the prefix."
	return text + "\n- actions_guide explains the tools of a service, with arguments and examples."
}

// durationText returns a duration in words.
func durationText(d time.Duration) string {
	for _, unit := range []struct {
		span time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / unit.span; n == 1 && d%unit.span == 0 {
			return "1 " + unit.name
		} else if n > 0 && d%unit.span == 0 {
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return d.String()
}
