package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// caller is somebody who waits for the answer of a tool, a resource or a prompt.
// It shares no byte with the body of its request.
type caller struct {
	*exchange
	call     *call
	reply    *reply
	progress *progress // nil when the client wants none, or can get none

	name      string // of the tool or prompt, or the URI
	tool      tool
	arguments json.RawMessage
	key       string // of idempotency
	streams   bool   // takes event streams
	logs      bool   // wants log messages, of this level or worse
	level     string
	can       action.ClientFeatures // what its client can be asked
	retry     *retry                // nil when it is no repeated call with replies

	over func() // ends the call's being in flight; nil before it is
}

// answer sends the answer. Before that the call is no longer in flight, so
// that a client that has its answer may use the id again at once.
func (c *caller) answer(a *reply, m message) error {
	if c.over != nil {
		c.over()
	}
	return c.exchange.answer(a, m)
}

// begin begins to answer a call; the rest does not need the body.
func (s *Server) begin(x *exchange, p *params) (rest func()) {
	c, bad := s.newCaller(x, p)
	if bad != nil {
		x.refuse(*bad)
		return nil
	}
	return func() { s.serve(c) }
}

// newCaller reads a call, or says what is wrong with it.
func (s *Server) newCaller(x *exchange, p *params) (*caller, *message) {
	t, arguments, bad := s.target(x, p)
	if bad != nil {
		return nil, bad
	}
	token, wrong := p.token()
	if wrong != nil {
		return nil, failed(wrong)
	}
	key, ok := idempotencyKey(x, p)
	if !ok {
		return nil, refused("Invalid params at /_meta/sallyport~1idempotencyKey: give one idempotency key, a string, in the header or in _meta; two that differ mean two calls.")
	}
	c := &caller{
		exchange: x, call: &call{}, reply: newReply(x.w),
		name: p.name, tool: t, arguments: bytes.Clone(arguments), key: key,
	}
	if x.method == methodRead {
		c.name = p.uri
	}
	_, c.streams = accepts(x.r)
	if token != nil && c.streams {
		c.progress = &progress{token: bytes.Clone(token), reply: c.reply}
	}
	if wrong := s.hears(c, p); wrong != nil {
		return nil, failed(wrong)
	}
	x.envelope = envelope{id: bytes.Clone(x.id), method: x.method}
	return c, nil
}

// target finds what a call is of, and its arguments.
func (s *Server) target(x *exchange, p *params) (t tool, arguments []byte, bad *message) {
	switch x.method {
	case methodRead:
		return s.findResource(x, p)
	case methodPrompt:
		return s.findPrompt(x, p)
	}
	if t, bad = s.findTool(x, p); bad != nil {
		return t, nil, bad
	}
	arguments, ok := p.object()
	if !ok {
		return t, nil, refused("Invalid params: arguments must be a JSON object.")
	}
	if x.modern {
		if wrong := checkParamHeaders(x.r.Header, t.headers, arguments); wrong != nil {
			return t, nil, failed(wrong)
		}
	}
	return t, arguments, nil
}

// hears reads what the caller can be told and asked meanwhile.
func (s *Server) hears(c *caller, p *params) (bad *problem) {
	level, logs, bad := c.logLevel(p)
	if bad != nil {
		return bad
	}
	c.level, c.logs = level, logs && c.streams
	switch {
	case c.modern:
		c.can = featuresOf(member(p.meta, mcp.MetaKeyClientCapabilities))
	case c.streams:
		c.can = c.mcp.can
	}
	c.retry, bad = s.readRetry(c, p)
	return bad
}

func failed(p *problem) *message {
	m := p.message()
	return &m
}

func refused(text string) *message {
	m := failText("%s", text)
	return &m
}

// findTool finds what a name means: one of our tools, an action that the
// session sees, or one that it does not, which the Gate then denies with a
// row.
func (s *Server) findTool(x *exchange, p *params) (tool, *message) {
	if !p.hasName || p.name == "" {
		return tool{}, failed(invalidParams("The name of the tool is missing."))
	}
	now := s.cfg.Now()
	list, err := s.views.of(&x.who, now).recent(x.r.Context(), s.cfg.Gate, &x.who, now)
	if err != nil {
		s.cfg.Log.Warn("listing tools for a call", "session", x.who.ID, "error", err)
		list = s.bare
	}
	if t, ok := list.tools[p.name]; ok {
		return t, nil
	}
	source, name, err := s.cfg.Resolver.Resolve(x.r.Context(), &x.who, p.name)
	switch {
	case errors.Is(err, action.ErrNotFound):
		return tool{}, failed(unknownTool(p.name, list.nearest(p.name)))
	case err != nil:
		m := s.errorMessage(err, nothingHappened)
		return tool{}, &m
	}
	// Nothing is known of its results, so a notice must not look like one.
	return tool{source: source, action: name, strict: true}, nil
}

func unknownTool(name string, nearest []string) *problem {
	return invalidParams("Unknown tool %q.%s", cut(name, 64), didYouMean(nearest))
}

func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " Did you mean " + strings.Join(names, ", ") + "?"
}

// idempotencyKey reads the key from where the two kinds of client put it.
func idempotencyKey(x *exchange, p *params) (key string, ok bool) {
	header := x.r.Header.Get("Idempotency-Key")
	raw := member(p.meta, "sallyport/idempotencyKey")
	if raw == nil {
		return header, true
	}
	if !isString(raw) {
		return "", false
	}
	key = decodeString(raw)
	return key, header == "" || header == key
}

// serve answers one call, however long it takes.
func (s *Server) serve(c *caller) {
	if c.mcp != nil {
		c.call.linger = cancelWithin
	}
	ctx, stop := c.call.begin(c.r.Context())
	defer stop()
	defer c.reply.close()
	if c.mcp != nil {
		id := idKey(c.id)
		if !c.mcp.register(id, c.call) {
			c.fail(wrongEnvelope("A request with this id is in flight already."))
			return
		}
		c.over = func() { c.mcp.unregister(id, c.call) }
		defer c.over()
	}
	if !s.calls.add(c.call) {
		_ = c.answer(c.reply, c.turnedAway()) // a client that left needs no answer
		return
	}
	defer s.calls.remove(c.call)
	defer s.keepAlive(c)()
	var o action.Outcome
	var err error
	switch {
	case c.retry != nil:
		o, err = s.goOn(ctx, c)
	case c.tool.own != nil:
		c.tool.own(s, ctx, c)
		return
	default:
		o, err = s.cfg.Gate.Call(ctx, action.Call{
			Session: c.who, Source: c.tool.source, Action: c.tool.action,
			Params: c.arguments, IdempotencyKey: c.key,
			Waiting: s.waiting(c, s.patience(c)),
		})
	}
	s.conclude(ctx, c, o, err, c.missing)
}

// missing answers for an action that is gone since it was found.
func (c *caller) missing() message {
	switch {
	case c.retry != nil:
		return noInvocation()
	case c.method == methodRead:
		return unknownResource(c.modern, c.name).message()
	case c.method == methodPrompt:
		return unknownPrompt(c.name).message()
	}
	return unknownTool(c.name, nil).message()
}

// turnedAway answers a call that came too late.
func (c *caller) turnedAway() message {
	if c.tool.own != nil && c.name != toolGrant {
		return failText("%s", askLaterText)
	}
	return failText("%s", drainingText)
}

// patience is how long a caller waits for a person. One that sees progress
// waits to the end; but nobody sits with an unattended one, and its hold lasts
// longer than any connection.
func (s *Server) patience(c *caller) time.Duration {
	switch {
	case c.progress == nil:
		return s.cfg.PendingAfter
	case c.who.Kind == action.Unattended:
		return s.cfg.UnattendedPendingAfter
	}
	return action.Forever
}

// waiting connects a caller to the Gate.
func (s *Server) waiting(c *caller, patience time.Duration) action.Waiting {
	w := action.Waiting{Patience: patience, Can: c.can}
	if c.logs {
		w.LogLevel = c.level
		w.Log = func(params json.RawMessage) { c.logged(params) }
	}
	w.Held = func(inv action.Invocation) {
		c.call.hold()
		if s.calls.draining() { // it came too late to be seen by Drain
			c.call.cancel(errDraining)
			return
		}
		if c.progress != nil {
			c.heard(c.progress.held(&inv, s.cfg.Now()))
		}
	}
	if c.progress != nil {
		w.Progress = func(params json.RawMessage) { c.heard(c.progress.source(params)) }
	}
	return w
}

// heard takes the error of a word on the way: a client that cannot be reached
// is gone.
func (c *caller) heard(err error) {
	if err != nil {
		c.call.gone()
	}
}

// keepAlive says something every now and then for as long as the call lasts.
func (s *Server) keepAlive(c *caller) (stop func()) {
	if !c.streams {
		return func() {}
	}
	var mu sync.Mutex // a beat may come before its timer is known
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(s.cfg.KeepAliveEvery, func() {
		err := c.reply.keepAlive()
		c.heard(err)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			timer.Reset(s.cfg.KeepAliveEvery)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}

// conclude gives the caller what became of the call. It counts as delivered
// when the last byte went out to a client that still wanted it.
func (s *Server) conclude(ctx context.Context, c *caller, o action.Outcome, err error, missing func() message) {
	if o, err = s.settle(ctx, c, o, err); err == nil && o.Round != nil {
		s.ask(c, o.Round)
		return
	}
	known := c.tool.own != nil || c.retry != nil // it was made before this request
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errDraining):
		s.part(c, o, err)
		return
	case cause != nil:
		c.reply.silence(c.streams)
		return
	}
	var m message
	switch {
	case err == nil:
		m = outcomeMessage(o, s.lead(), c.tool.strict, s.cfg.Now())
		if c.method == methodCall && o.Answer.Body != nil && !isTool(&o.Invocation) {
			m = asToolResult(o.Answer.Body)
		}
	case errors.Is(err, action.ErrNotFound) && !known && o.Invocation.ID != "": // it was there
		m = failText("%s%s", unknownOutcome, named(o.Invocation.ID))
	case errors.Is(err, action.ErrNotFound):
		m = missing()
	case known, o.Invocation.ID != "":
		m = s.errorMessage(err, asItStands)
	default:
		m = s.errorMessage(err, nothingHappened)
	}
	s.deliver(ctx, c, o, m, err == nil)
}

// lead is what a notice begins with: a Gate that stops lets held callers go by
// itself, and they are told why like those whom Drain interrupts.
func (s *Server) lead() string {
	if s.calls.draining() {
		return partingText
	}
	return ""
}

// deliver sends the last message of a call.
func (s *Server) deliver(ctx context.Context, c *caller, o action.Outcome, m message, recorded bool) {
	sent := c.answer(c.reply, m)
	wanted := ctx.Err() == nil && c.r.Context().Err() == nil
	if sent == nil && wanted && recorded && o.Invocation.Status.Terminal() {
		s.cfg.Gate.Delivered(o)
	}
}
