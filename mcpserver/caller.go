package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// caller is a client that waits for the result of a tool, a resource or a prompt. It
// shares no memory with the body of its request.
type caller struct {
	*exchange
	call     *call
	reply    *wire.Writer
	progress *progress // nil if the client wants none or does not accept event streams

	name           string // of the tool or prompt, or the URI
	tool           tool
	arguments      json.RawMessage
	idempotencyKey string
	trace          string // whose trace the call is part of, as its client says; only where calls are traced
	acceptsStream  bool   // takes event streams
	wantsLogs      bool   // wants log messages, of this level or worse
	logLevel       string
	features       action.ClientFeatures // what its client can be asked
	retry          *retry                // nil unless the call is repeated with replies
	asTask         bool                  // gets a task instead of waiting for approval
	openedPage     string                // the invocation whose page its client was asked to open; sessions only

	unregister func() // removes the call from its session; nil before it is registered
}

// sendTo sends the response. The call is unregistered before, so that a client may
// reuse the id as soon as it has the response.
func (c *caller) sendTo(a *wire.Writer, m wire.Response) error {
	c.ended()
	return c.exchange.sendTo(a, m)
}

// ended unregisters the call. It may be called again.
func (c *caller) ended() {
	if c.unregister != nil {
		c.unregister()
	}
}

// startCall parses a call and returns the rest of the work, which does not need the
// body.
func (s *Server) startCall(x *exchange, p *params) (rest func()) {
	c, bad := s.newCaller(x, p)
	if bad != nil {
		x.send(*bad)
		return nil
	}
	return func() { s.serveCall(c) }
}

// newCaller parses a call, or returns the response that rejects it.
func (s *Server) newCaller(x *exchange, p *params) (*caller, *wire.Response) {
	t, arguments, bad := s.target(x, p)
	if bad != nil {
		return nil, bad
	}
	token := wire.Member(p.meta, "progressToken") // raw; nil if the client wants no progress
	if token != nil && !wire.IsString(token) && !wire.IsNumber(token) {
		return nil, errorResponse(wire.InvalidParams("_meta.progressToken must be a string or a number."))
	}
	key, ok := idempotencyKey(x, p)
	if !ok {
		s.cfg.Gate.CountRefusal(&x.who, action.RefusedParams, t.source, t.action)
		return nil, toolErrorResponse("Invalid params at /_meta/sallyport~1idempotencyKey: give one idempotency key, a string, in the header, in _meta or as an argument of actions_call; two that differ mean two calls.")
	}
	if key, ok = toolCallID(p, t, key); !ok {
		s.cfg.Gate.CountRefusal(&x.who, action.RefusedParams, t.source, t.action)
		return nil, toolErrorResponse("Invalid params at /_meta/sallyport~1toolCallId: give the id of the tool call, a string.")
	}
	c := &caller{
		exchange: x, call: &call{}, reply: wire.NewWriter(x.w),
		name: p.name, tool: t, arguments: bytes.Clone(arguments), idempotencyKey: key,
	}
	if x.Method == methodRead {
		c.name = p.uri
	}
	if raw := wire.Member(p.meta, "traceparent"); s.cfg.Trace != nil && wire.IsString(raw) {
		c.trace = wire.DecodeString(raw)
	}
	_, c.acceptsStream = wire.Accepts(x.r)
	if token != nil && c.acceptsStream {
		c.progress = &progress{token: bytes.Clone(token), reply: c.reply}
	}
	if wrong := s.readClientOptions(c, p); wrong != nil {
		return nil, errorResponse(wrong)
	}
	x.Envelope = wire.Envelope{ID: bytes.Clone(x.ID), Method: x.Method}
	return c, nil
}

// target finds what is called, and the arguments.
func (s *Server) target(x *exchange, p *params) (t tool, arguments []byte, bad *wire.Response) {
	switch x.Method {
	case methodRead:
		return s.findResource(x, p)
	case methodPrompt:
		return s.findPrompt(x, p)
	}
	if bad = unwrap(&x.who, p); bad != nil {
		s.cfg.Gate.CountRefusal(&x.who, action.RefusedParams, "", toolCall)
		return t, nil, bad
	}
	if t, bad = s.findTool(x, p); bad != nil {
		return t, nil, bad
	}
	arguments, ok := p.object()
	if !ok {
		s.cfg.Gate.CountRefusal(&x.who, action.RefusedParams, t.source, t.action)
		return t, nil, argumentsNotObject(p.arguments)
	}
	if x.stateless {
		if wrong := wire.CheckParamHeaders(x.r.Header, t.headers, arguments, p.wrapped); wrong != nil {
			s.cfg.Gate.CountRefusal(&x.who, action.RefusedParams, t.source, t.action)
			return t, nil, errorResponse(wrong)
		}
	}
	return t, arguments, nil
}

// readClientOptions reads what the client can be sent and asked for during the call.
func (s *Server) readClientOptions(c *caller, p *params) (bad *wire.Error) {
	level, logs, bad := s.logLevel(c.exchange, p)
	if bad != nil {
		return bad
	}
	c.logLevel, c.wantsLogs = level, logs && c.acceptsStream
	switch {
	case c.stateless:
		c.features = token.Features(token.DeclaredCapabilities(p.meta))
		c.asTask = c.Method == methodCall && c.tool.builtin == nil && declaresTasks(p.meta)
	case c.acceptsStream:
		c.features = c.session.features
	}
	c.retry, bad = s.readRetry(c, p)
	return bad
}

func errorResponse(p *wire.Error) *wire.Response {
	m := p.Response()
	return &m
}

func toolErrorResponse(text string) *wire.Response {
	m := wire.ToolError("%s", text)
	return &m
}

// findTool resolves a name: a built-in tool, an action in the session's list, or one
// that is not listed, which the Gate then denies and records.
func (s *Server) findTool(x *exchange, p *params) (tool, *wire.Response) {
	if !p.hasName || p.name == "" {
		return tool{}, errorResponse(wire.InvalidParams("The name of the tool is missing."))
	}
	now := s.cfg.Now()
	list, err := s.views.of(&x.who, now).recent(x.r.Context(), s.cfg.Gate, &x.who, now)
	if err != nil {
		s.cfg.Log.Warn("tools could not be listed for a call", "session", x.who.ID, "error", err)
		list = s.builtinsOnly
	}
	if t, ok := list.tools[p.name]; ok {
		return t, nil
	}
	source, name, err := s.cfg.Resolver.Resolve(x.r.Context(), &x.who, p.name)
	switch {
	case errors.Is(err, action.ErrNotFound):
		s.cfg.Gate.CountRefusal(&x.who, action.RefusedUnknown, "", p.name)
		return tool{}, errorResponse(toolNotFound(p.name, list.suggestions(p.name)))
	case err != nil:
		m := s.gateError(err, newCallText)
		return tool{}, &m
	}
	// The output schema is unknown, so a pending notice must not look like a result.
	return tool{source: source, action: name, strict: true}, nil
}

func toolNotFound(name, nearest string) *wire.Error {
	return wire.InvalidParams("Unknown tool %q.%s", wire.Truncate(name, 64), nearest)
}

// idempotencyKey reads the key from the header, from _meta, or from the arguments of
// actions_call.
func idempotencyKey(x *exchange, p *params) (key string, ok bool) {
	key = x.r.Header.Get("Idempotency-Key")
	for _, raw := range [][]byte{wire.Member(p.meta, "sallyport/idempotencyKey"), p.idempotencyKey} {
		if raw == nil {
			continue
		}
		if !wire.IsString(raw) {
			return "", false
		}
		given := wire.DecodeString(raw)
		if key != "" && given != key {
			return "", false
		}
		key = given
	}
	return key, true
}

// toolCallID returns the key that platform tools identify a call by: the id that the
// client's model gave the call, or the idempotency key.
func toolCallID(p *params, t tool, key string) (id string, ok bool) {
	raw := wire.Member(p.meta, "sallyport/toolCallId")
	switch {
	case t.source != action.Platform || raw == nil:
		return key, true
	case !wire.IsString(raw):
		return "", false
	}
	return wire.DecodeString(raw), true
}

// call is a call in flight.
type call struct {
	cancel context.CancelCauseFunc

	// linger is how long a pending call outlasts its client's request.
	linger time.Duration

	held atomic.Bool // waits for approval

	mu          sync.Mutex
	lingerTimer *time.Timer // nil while the client is connected
}

// cancelLinger is how long a cancellation may take to arrive, which can come through
// another instance.
const cancelLinger = 2 * time.Second

// start returns the context of the call. Its cause says why it ended; the end of the
// request means that the client is gone, in both protocols.
func (c *call) start(request context.Context) (ctx context.Context, stop func()) {
	ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(request))
	unhook := context.AfterFunc(request, c.clientGone)
	return ctx, func() {
		unhook()
		c.mu.Lock()
		if c.lingerTimer != nil {
			c.lingerTimer.Stop()
		}
		c.mu.Unlock()
		c.cancel(nil)
	}
}

// clientGone ends the call because its client disconnected. Some clients close the
// request when they cancel, before the cancellation arrives; so a pending call
// lingers, to be withdrawn then instead of being left pending.
func (c *call) clientGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.held.Load() || c.linger == 0:
		c.cancel(action.ErrCallerGone)
	case c.lingerTimer == nil:
		c.lingerTimer = time.AfterFunc(c.linger, func() { c.cancel(action.ErrCallerGone) })
	}
}

// calls are all calls in flight, so that a shutdown can answer every client.
type calls struct {
	mu         sync.Mutex
	all        map[*call]bool
	closed     bool
	empty      chan struct{} // created by close, closed after the last call
	deadlineAt time.Time     // of the shutdown; zero: unknown
}

// add returns false after close.
func (c *calls) add(one *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.all[one] = true
	return true
}

func (c *calls) remove(one *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, one)
	if c.closed && len(c.all) == 0 {
		close(c.empty)
	}
}

// close refuses new calls and returns a channel that is closed after the last call.
func (c *calls) close(until time.Time) (empty <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed, c.deadlineAt = true, until
		c.empty = make(chan struct{})
		if len(c.all) == 0 {
			close(c.empty)
		}
	}
	return c.empty
}

func (c *calls) draining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *calls) deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadlineAt
}

// cancel ends all calls, or only those that wait for approval.
func (c *calls) cancel(cause error, onlyHeld bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.all {
		if !onlyHeld || one.held.Load() {
			one.cancel(cause)
		}
	}
}

// cancelled handles notifications/cancelled. It matters only while the call is in
// flight, here or on a peer, and only within its session: some clients send one
// after every call, and ids repeat across sessions. In the stateless protocol a
// client cancels by closing its request.
func (s *Server) cancelled(x *exchange) {
	if id := wire.Member(x.Params, "requestId"); x.session != nil && id != nil {
		key, cause := wire.IDKey(id), action.ErrCancelled
		if reason := strings.ToLower(textMember(x.Params, "reason")); strings.Contains(reason, "timed out") ||
			strings.Contains(reason, "timeout") || strings.Contains(reason, "-32001") {
			cause = action.ErrCallerGone // only a user's cancellation withdraws the pending call
		}
		if c := x.session.inFlight(key); c != nil {
			c.cancel(cause)
		} else if err := s.postCancel(x, key, cause); err != nil {
			s.cfg.Log.Error("a cancellation could not be sent to other instances", "error", err)
			s.sendLookupFailed(x.w)
			return
		}
	}
	x.w.WriteHeader(http.StatusAccepted)
}
