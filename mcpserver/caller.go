package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// caller is somebody who waits for the answer of a tool, a resource or a prompt.
// It shares no byte with the body of its request.
type caller struct {
	*exchange
	call     *call
	reply    *wire.Writer
	progress *progress // nil when the client wants none, or can get none

	name           string // of the tool or prompt, or the URI
	tool           tool
	arguments      json.RawMessage
	idempotencyKey string // of idempotency
	trace          string // whose trace the call is part of, as its client says; only where calls are traced
	acceptsStream  bool   // takes event streams
	wantsLogs      bool   // wants log messages, of this level or worse
	logLevel       string
	features       action.ClientFeatures // what its client can be asked
	retry          *retry                // nil when it is no repeated call with replies
	asTask         bool                  // takes a task instead of waiting for a person
	openedPage     string                // the invocation whose page its client was asked to open, of the older era

	unregister func() // ends the call's being in flight; nil before it is
}

// sendTo sends the answer. Before that the call is no longer in flight, so
// that a client that has its answer may use the id again at once.
func (c *caller) sendTo(a *wire.Writer, m wire.Response) error {
	c.ended()
	return c.exchange.sendTo(a, m)
}

// ended has the call be in flight no more. It may be called again.
func (c *caller) ended() {
	if c.unregister != nil {
		c.unregister()
	}
}

// startCall begins to answer a call; the rest does not need the body.
func (s *Server) startCall(x *exchange, p *params) (rest func()) {
	c, bad := s.newCaller(x, p)
	if bad != nil {
		x.send(*bad)
		return nil
	}
	return func() { s.serveCall(c) }
}

// newCaller reads a call, or says what is wrong with it.
func (s *Server) newCaller(x *exchange, p *params) (*caller, *wire.Response) {
	t, arguments, bad := s.target(x, p)
	if bad != nil {
		return nil, bad
	}
	token, wrong := p.token()
	if wrong != nil {
		return nil, errorResponse(wrong)
	}
	key, ok := idempotencyKey(x, p)
	if !ok {
		return nil, toolErrorResponse("Invalid params at /_meta/sallyport~1idempotencyKey: give one idempotency key, a string, in the header, in _meta or as an argument of actions_call; two that differ mean two calls.")
	}
	if key, ok = toolCallID(p, t, key); !ok {
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

// target finds what a call is of, and its arguments.
func (s *Server) target(x *exchange, p *params) (t tool, arguments []byte, bad *wire.Response) {
	switch x.Method {
	case methodRead:
		return s.findResource(x, p)
	case methodPrompt:
		return s.findPrompt(x, p)
	}
	if bad = unwrap(&x.who, p); bad != nil {
		return t, nil, bad
	}
	if t, bad = s.findTool(x, p); bad != nil {
		return t, nil, bad
	}
	arguments, ok := p.object()
	if !ok {
		return t, nil, argumentsNotObject(p.arguments)
	}
	if x.stateless {
		if wrong := wire.CheckParamHeaders(x.r.Header, t.headers, arguments, p.wrapped); wrong != nil {
			return t, nil, errorResponse(wrong)
		}
	}
	return t, arguments, nil
}

// readClientOptions reads what the caller can be told and asked meanwhile.
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

// findTool finds what a name means: one of our tools, an action that the
// session sees, or one that it does not, which the Gate then denies with a
// row.
func (s *Server) findTool(x *exchange, p *params) (tool, *wire.Response) {
	if !p.hasName || p.name == "" {
		return tool{}, errorResponse(wire.InvalidParams("The name of the tool is missing."))
	}
	now := s.cfg.Now()
	list, err := s.views.of(&x.who, now).recent(x.r.Context(), s.cfg.Gate, &x.who, now)
	if err != nil {
		s.cfg.Log.Warn("listing tools for a call", "session", x.who.ID, "error", err)
		list = s.builtinsOnly
	}
	if t, ok := list.tools[p.name]; ok {
		return t, nil
	}
	source, name, err := s.cfg.Resolver.Resolve(x.r.Context(), &x.who, p.name)
	switch {
	case errors.Is(err, action.ErrNotFound):
		return tool{}, errorResponse(toolNotFound(p.name, list.suggestions(p.name)))
	case err != nil:
		m := s.gateError(err, newCallText)
		return tool{}, &m
	}
	// Nothing is known of its results, so a notice must not look like one.
	return tool{source: source, action: name, strict: true}, nil
}

func toolNotFound(name, nearest string) *wire.Error {
	return wire.InvalidParams("Unknown tool %q.%s", wire.Truncate(name, 64), nearest)
}

// idempotencyKey reads the key from where the kinds of client put it: the
// header, _meta, or an argument of actions_call.
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

// toolCallID is what the gateway's own tools know a call by: the id that the
// client's model gave it, or else the key of idempotency.
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

// call is a tools/call in flight.
type call struct {
	cancel context.CancelCauseFunc

	// linger is how long a held call outlasts its client's request.
	linger time.Duration

	mu          sync.Mutex
	held        bool        // a person is waited for
	lingerTimer *time.Timer // nil while the client is there
}

// cancelLinger is how long the word of a cancellation may take, by way of
// another instance above all.
const cancelLinger = 2 * time.Second

// hold notes that the call waits for a person.
func (c *call) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
}

func (c *call) isHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// start returns the context of the call. Its cause tells who ended it; a client
// whose request ended is gone, whatever the era.
func (c *call) start(request context.Context) (ctx context.Context, stop func()) {
	ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(request))
	unhook := context.AfterFunc(request, c.clientGone)
	return ctx, func() {
		unhook()
		c.stopLingering()
		c.cancel(nil)
	}
}

// clientGone ends the call because its client is gone. Some clients close the request
// as they cancel, and the word of that is still on its way; so a held call
// lingers for it, to be withdrawn then and not merely left alone.
func (c *call) clientGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.held || c.linger == 0:
		c.cancel(action.ErrCallerGone)
	case c.lingerTimer == nil:
		c.lingerTimer = time.AfterFunc(c.linger, func() { c.cancel(action.ErrCallerGone) })
	}
}

// stopLingering undoes gone; the call is over.
func (c *call) stopLingering() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lingerTimer != nil {
		c.lingerTimer.Stop()
	}
}

// calls are all of them, so that a shutdown can answer everyone.
type calls struct {
	mu         sync.Mutex
	all        map[*call]bool
	closed     bool
	empty      chan struct{} // made when closed; itself closed with the last call
	deadlineAt time.Time     // when a shutdown gives up waiting; zero: not known
}

// add returns false when no more are taken.
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

// close takes no more calls and returns a channel that is closed when the last
// one has ended.
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

// cancel ends the calls, or only those that wait for a person.
func (c *calls) cancel(cause error, onlyHeld bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.all {
		if !onlyHeld || one.isHeld() {
			one.cancel(cause)
		}
	}
}

// cancelled handles notifications/cancelled. It means something only while the
// call is in flight, here or elsewhere, and only within its own session:
// clients send one after every call that they gave an abort signal, and ids
// repeat from session to session. In the stateless era a client cancels by
// closing its request.
func (s *Server) cancelled(x *exchange) {
	if id := wire.Member(x.Params, "requestId"); x.session != nil && id != nil {
		key, cause := wire.IDKey(id), cancelCause(wire.Member(x.Params, "reason"))
		if c := x.session.inFlight(key); c != nil {
			c.cancel(cause)
		} else if err := s.postCancel(x, key, cause); err != nil {
			s.cfg.Log.Error("telling other instances of a cancelled call", "error", err)
			s.sendLookupFailed(x.w)
			return
		}
	}
	x.w.WriteHeader(http.StatusAccepted)
}

// cancelCause tells a client that gave up waiting from one whose user changed
// his mind: only the latter wants the held call withdrawn.
func cancelCause(reason []byte) error {
	if wire.IsString(reason) {
		text := strings.ToLower(wire.DecodeString(reason))
		for _, sign := range []string{"timed out", "timeout", "-32001"} {
			if strings.Contains(text, sign) {
				return action.ErrCallerGone
			}
		}
	}
	return action.ErrCancelled
}
