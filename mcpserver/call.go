package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"sallyport/action"
)

// caller is somebody who waits for a tool's answer. It shares no byte with the
// body of its request.
type caller struct {
	*exchange
	call     *call
	reply    *reply
	progress *progress // nil when the client wants none, or can get none

	name      string // of the tool
	tool      tool
	arguments json.RawMessage
	key       string // of idempotency
	streams   bool   // takes event streams

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

// callTool begins to answer tools/call; the rest does not need the body.
func (s *Server) callTool(x *exchange, p *params) (rest func()) {
	c, bad := s.newCaller(x, p)
	if bad != nil {
		_ = x.answer(newReply(x.w), *bad) // a client that left needs no answer
		return nil
	}
	return func() { s.serve(c) }
}

// newCaller reads a call, or says what is wrong with it.
func (s *Server) newCaller(x *exchange, p *params) (*caller, *message) {
	t, bad := s.findTool(x, p)
	if bad != nil {
		return nil, bad
	}
	arguments, ok := p.object()
	if !ok {
		return nil, refused("Invalid params: arguments must be a JSON object.")
	}
	if x.modern {
		if wrong := checkParamHeaders(x.r.Header, t.headers, arguments); wrong != nil {
			return nil, failed(wrong)
		}
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
	_, c.streams = accepts(x.r)
	if token != nil && c.streams {
		c.progress = &progress{token: bytes.Clone(token), reply: c.reply}
	}
	x.envelope = envelope{id: bytes.Clone(x.id), method: x.method}
	return c, nil
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
	if c.tool.own != nil {
		c.tool.own(s, ctx, c)
		return
	}
	o, err := s.cfg.Gate.Call(ctx, action.Call{
		Session: c.who, Source: c.tool.source, Action: c.tool.action,
		Params: c.arguments, IdempotencyKey: c.key,
		Waiting: s.waiting(c, s.patience(c)),
	})
	s.conclude(ctx, c, o, err, func() message { return unknownTool(c.name, nil).message() })
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
	w := action.Waiting{Patience: patience}
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
	case errors.Is(err, action.ErrNotFound) && c.tool.own == nil && o.Invocation.ID != "": // it was there
		m = failText("%s%s", unknownOutcome, named(o.Invocation.ID))
	case errors.Is(err, action.ErrNotFound):
		m = missing()
	case c.tool.own != nil, o.Invocation.ID != "":
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
