package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"

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
	trace     string // whose trace the call is part of, as its client says; only where calls are traced
	streams   bool   // takes event streams
	logs      bool   // wants log messages, of this level or worse
	level     string
	can       action.ClientFeatures // what its client can be asked
	retry     *retry                // nil when it is no repeated call with replies
	tasks     bool                  // takes a task instead of waiting for a person
	shown     string                // the invocation whose page its client was asked to open, of the older era

	over func() // ends the call's being in flight; nil before it is
}

// answer sends the answer. Before that the call is no longer in flight, so
// that a client that has its answer may use the id again at once.
func (c *caller) answer(a *reply, m message) error {
	c.ended()
	return c.exchange.answer(a, m)
}

// ended has the call be in flight no more. It may be called again.
func (c *caller) ended() {
	if c.over != nil {
		c.over()
	}
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
		return nil, refused("Invalid params at /_meta/sallyport~1idempotencyKey: give one idempotency key, a string, in the header, in _meta or as an argument of actions_call; two that differ mean two calls.")
	}
	if key, ok = toolCallID(p, t, key); !ok {
		return nil, refused("Invalid params at /_meta/sallyport~1toolCallId: give the id of the tool call, a string.")
	}
	c := &caller{
		exchange: x, call: &call{}, reply: newReply(x.w),
		name: p.name, tool: t, arguments: bytes.Clone(arguments), key: key,
	}
	if x.method == methodRead {
		c.name = p.uri
	}
	if raw := member(p.meta, "traceparent"); s.cfg.Trace != nil && isString(raw) {
		c.trace = decodeString(raw)
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
	if bad = unwrap(&x.who, p); bad != nil {
		return t, nil, bad
	}
	if t, bad = s.findTool(x, p); bad != nil {
		return t, nil, bad
	}
	arguments, ok := p.object()
	if !ok {
		return t, nil, noObject(p.arguments)
	}
	if x.modern {
		if wrong := checkParamHeaders(x.r.Header, t.headers, arguments, p.wrapped); wrong != nil {
			return t, nil, failed(wrong)
		}
	}
	return t, arguments, nil
}

// hears reads what the caller can be told and asked meanwhile.
func (s *Server) hears(c *caller, p *params) (bad *problem) {
	level, logs, bad := s.logLevel(c.exchange, p)
	if bad != nil {
		return bad
	}
	c.level, c.logs = level, logs && c.streams
	switch {
	case c.modern:
		c.can = featuresOf(capabilitiesIn(p.meta))
		c.tasks = c.method == methodCall && c.tool.own == nil && declaresTasks(p.meta)
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

func unknownTool(name, nearest string) *problem {
	return invalidParams("Unknown tool %q.%s", cut(name, 64), nearest)
}

// idempotencyKey reads the key from where the kinds of client put it: the
// header, _meta, or an argument of actions_call.
func idempotencyKey(x *exchange, p *params) (key string, ok bool) {
	key = x.r.Header.Get("Idempotency-Key")
	for _, raw := range [][]byte{member(p.meta, "sallyport/idempotencyKey"), p.key} {
		if raw == nil {
			continue
		}
		if !isString(raw) {
			return "", false
		}
		given := decodeString(raw)
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
	raw := member(p.meta, "sallyport/toolCallId")
	switch {
	case t.source != action.Platform || raw == nil:
		return key, true
	case !isString(raw):
		return "", false
	}
	return decodeString(raw), true
}
