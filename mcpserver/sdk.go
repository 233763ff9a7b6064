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

// serverKey carries the view's server to the SDK's handler, which asks for it
// with nothing but the request in hand.
type serverKey struct{}

func sdkServerFromContext(r *http.Request) *mcp.Server {
	s, _ := r.Context().Value(serverKey{}).(*mcp.Server)
	return s
}

// newStatelessHandler returns the SDK's handler of the stateless era. JSONResponse costs
// nothing here, because no tool runs inside it, and lets clients in that take
// no event streams.
func newStatelessHandler(maxBody int64) http.Handler {
	return mcp.NewStreamableHTTPHandler(sdkServerFromContext, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		JSONResponse:                 true,
		DisableLocalhostProtection:   true, // edge checks the Host header
		MaxRequestBodyBytes:          maxBody,
		PropagateRequestCancellation: true,
	})
}

// sdkSession is the SDK's side of a session of the older era. Nothing of it has to
// last: one is made for each request that needs the SDK, from what the
// session's id says, and an idle session has none.
type sdkSession struct {
	transport *mcp.StreamableServerTransport
	session   *mcp.ServerSession
}

// connectSDK makes a link for an exchange; state is nil for a client that has not
// said anything yet. The caller must close it.
func (s *Server) connectSDK(x *exchange, v *view, state *mcp.ServerSessionState) (*sdkSession, error) {
	t := &mcp.StreamableServerTransport{} // the id is not for the SDK, which would log it
	session, err := s.sdkServer(x, v).Connect(context.Background(), t, &mcp.ServerSessionOptions{State: state})
	if err != nil {
		return nil, err
	}
	return &sdkSession{transport: t, session: session}, nil
}

func (l *sdkSession) close() { _ = l.session.Close() } // nothing was left in it

// roundTrip gives the SDK one message, and returns its answer.
func (l *sdkSession) roundTrip(r *http.Request, body []byte) *sdkResponse {
	h := &sdkResponse{header: http.Header{}}
	l.transport.ServeHTTP(h, withBody(r, body))
	return h
}

// sdkServer returns the view's server, which says what there is now to those who
// ask for that. It has none of it itself: lists, calls and event streams are
// ours.
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

// instructionsOf are those of the sessions of a view, by its list as it is now.
func (s *Server) instructionsOf(x *exchange, w *view) string {
	ctx, cancel := context.WithTimeout(x.r.Context(), listTimeout)
	defer cancel()
	list, err := w.current(ctx, s.cfg.Gate, &x.who, s.cfg.Now())
	if err != nil {
		s.cfg.Log.Warn("looking at the tools for the instructions", "session", x.who.ID, "error", err)
	}
	return s.instructions(w.key.search, list)
}

const serverName = "sallyport"

// statelessRequest returns the exchange's request as the SDK's handler shall see it:
// with the body that was read already, the server of its view, and an Accept
// header that it takes.
func statelessRequest(x *exchange, server *mcp.Server, body []byte) *http.Request {
	ctx := context.WithValue(x.r.Context(), serverKey{}, server)
	out := withBody(x.r.Clone(ctx), body)
	out.Header.Set("Accept", "application/json, text/event-stream")
	return out
}

// withBody returns the request with the body that was read from it.
func withBody(r *http.Request, body []byte) *http.Request {
	out := r.WithContext(r.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.ContentLength = int64(len(body))
	return out
}

// handleGetOrDelete handles what carries no message: event streams and goodbyes.
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
		s.cfg.Log.Error("ending an MCP session", "error", err)
		s.sendLookupFailed(x.w)
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

// forward hands a message to the SDK.
func (s *Server) forward(x *exchange, body []byte) {
	if s.calls.draining() && x.IsRequest() {
		s.sendDraining(x.w)
		return
	}
	switch {
	case x.stateless:
		v := s.views.hold(&x.who, s.cfg.Now())
		defer func() { s.views.release(v, s.cfg.Now()) }()
		s.statelessSDK.ServeHTTP(prepareSDKWriter(x.w), statelessRequest(x, s.sdkServer(x, v), body))
	case !x.IsRequest():
		x.w.WriteHeader(http.StatusAccepted) // what a client tells of itself, and what means nothing to us
	case x.Method != "initialize" && x.Method != "ping" && x.Method != "server/discover":
		x.sendError(wire.MethodNotFound(x.Method)) // the SDK would refuse it in plain text
	case x.session != nil:
		s.forwardSessionMessage(x, body)
	default:
		s.initialize(x, body)
	}
}

func (s *Server) sendDraining(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "2")
	wire.WriteText(w, http.StatusServiceUnavailable, drainingText)
}

// prepareSDKWriter is w for an answer of the SDK, which neither keeps proxies from
// buffering nor bounds its writes.
func prepareSDKWriter(w http.ResponseWriter) http.ResponseWriter {
	w.Header().Set("X-Accel-Buffering", "no")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wire.WriteTimeout)) // where it knows deadlines
	return w
}

// This file is the front of the older era: what the SDK answers.

// forwardSessionMessage has the SDK answer a message of a session.
func (s *Server) forwardSessionMessage(x *exchange, body []byte) {
	l, ok := s.resumeSDK(x)
	if !ok {
		return
	}
	defer l.close()
	l.roundTrip(x.r, body).writeTo(x.w)
}

// resumeSDK makes a link for a session from its id, which was checked
// already. It returns false when it answered the request.
func (s *Server) resumeSDK(x *exchange) (*sdkSession, bool) {
	who, ok := s.ids.Parse(x.r.Header.Get(sessionHeader), s.cfg.Now())
	if !ok { // it expired this moment
		wire.WriteText(x.w, http.StatusNotFound, sessionGoneText)
		return nil, false
	}
	l, err := s.connectSDK(x, x.session.view, who.SDKState())
	if err != nil {
		s.cfg.Log.Error("connecting the MCP SDK", "error", err)
		x.sendError(wire.InternalError())
		return nil, false
	}
	return l, true
}

// initialize lets the SDK agree on a session, and gives it its id.
func (s *Server) initialize(x *exchange, body []byte) {
	v := s.views.hold(&x.who, s.cfg.Now())
	defer func() { s.views.release(v, s.cfg.Now()) }()
	l, err := s.connectSDK(x, v, nil)
	if err != nil {
		s.cfg.Log.Error("connecting the MCP SDK", "error", err)
		x.sendError(wire.InternalError())
		return
	}
	defer l.close()
	h := l.roundTrip(x.r, body)
	if version := negotiatedVersion(h.message()); version != "" {
		h.header.Set(sessionHeader, s.createSession(x, l.session.InitializeParams(), version))
	}
	h.writeTo(x.w)
}

// negotiatedVersion is the protocol version of an answer to initialize; empty for any
// other answer.
func negotiatedVersion(message []byte) string {
	if version := wire.Member(wire.Member(message, "result"), "protocolVersion"); wire.IsString(version) {
		return wire.DecodeString(version)
	}
	return ""
}

// createSession enters a new session and returns its id.
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

// sdkResponse is the SDK's answer to one message of the older era, as it was heard.
// The SDK sends an event stream of one event, because the option that makes it
// send plain JSON is not there for those who serve its transport themselves.
// Clients get plain JSON all the same: some take nothing else, and none needs
// a stream for one message.
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

// Response returns the message of the answer, or nil when it has none.
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

// writeTo passes the answer on.
func (h *sdkResponse) writeTo(w http.ResponseWriter) {
	to := prepareSDKWriter(w).Header()
	for key, values := range h.header {
		to[key] = values
	}
	body := h.body
	if h.header.Get("Content-Type") == "text/event-stream" {
		if body = h.message(); body == nil {
			return // the client left before the SDK could answer
		}
		to.Set("Content-Type", "application/json")
		to.Del("Connection")
	}
	w.WriteHeader(h.status)
	_, _ = w.Write(body) // a client that left needs no answer
}

// instructions go into the model's prompt, so they say only what changes what
// it does. They fit what the session lists; list is nil when that is not known.
func (s *Server) instructions(search bool, list *toolset) string {
	text := `These tools act on real services through Sallyport, a gateway that checks every call.
Reads usually run at once. Writes may wait for a person's approval: the call then stays open for some minutes while the person decides. This is normal.
- Do not repeat a call that waits, timed out or was answered PENDING. Call invocation_wait with its invocation_id to get the result; a repeated call joins the one that waits.
- A denial is final for ` + durationText(s.cfg.DenialHolds) + `. Do not repeat the call or look for a way around it; tell the user.
- An outcome that is unknown may have happened. Check at the service before you try again.
- When a call is answered PENDING, show the user its approval link.`
	if s.cfg.RequestGrant != nil {
		text += "\n- When many similar writes lie ahead, ask once for a standing approval with grant_request, and go on calling meanwhile."
	}
	if s.cfg.Snapshot != nil {
		text += "\n- The resource " + capabilitiesURI + " tells what this session may do at each service, and why not."
	}
	switch {
	case search:
		text += "\n- The list does not show the services' tools. Find them with actions_search, read one with actions_describe, call it with actions_call. Search before you say that something cannot be done."
	case list != nil && list.long():
		text += fmt.Sprintf("\n- The list has %d tools. Where that is too much to read, actions_search {\"query\": \"…\"} finds tools by words though it is not listed; a session can be minted with the setting tools: search to list no more than that.", len(list.names))
	}
	text += "\n- Your client may show a tool with its own name for this server in front, such as sallyport_invocation_wait for invocation_wait. Call it as it is shown to you; tools that take the name of another tool take it without."
	return text + "\n- actions_guide explains the tools of a service, with arguments and examples."
}

// durationText says how long something does, in words.
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
