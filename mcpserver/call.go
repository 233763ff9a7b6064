package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/hangup"
	"sallyport/mcpserver/wire"
)

// serveCall runs one call to its response.
func (s *Server) serveCall(c *caller) {
	if c.session != nil {
		c.call.linger = cancelLinger
	}
	request := c.r.Context()
	if c.trace != "" {
		request = s.cfg.Trace(request, c.trace)
	}
	ctx, stop := c.call.start(request)
	defer stop()
	defer c.reply.Close()
	if !s.registerCall(c) {
		return
	}
	defer func() {
		s.calls.remove(c.call)
		c.ended()
	}()
	if c.acceptsStream {
		defer s.keepAlive(c.reply, c.onWriteError)()
	}
	var o *action.Outcome
	var err error
	switch {
	case c.retry != nil:
		o, err = s.resumeCall(ctx, c)
	case c.tool.builtin != nil:
		c.tool.builtin(s, ctx, c)
		return
	default:
		var asked bool
		if o, asked, err = s.invoke(ctx, c); asked {
			return
		}
	}
	s.finishCall(ctx, c, o, err, c.notFound)
}

// registerCall adds the call to its session and to the calls in flight. It returns
// false if it answered the request.
func (s *Server) registerCall(c *caller) bool {
	if c.session != nil {
		id := wire.IDKey(c.ID)
		if !c.session.register(id, c.call) {
			c.sendError(wire.InvalidRequest("A request with this id is already in flight; send it again with another id: it joins the pending call."))
			return false
		}
		c.unregister = func() { c.session.unregister(id, c.call) }
	}
	if !s.calls.add(c.call) {
		text := drainingText
		if c.tool.builtin != nil && c.name != toolGrant {
			text = restartingStatusText
		}
		_ = c.sendTo(c.reply, wire.ToolError("%s", text)) // a client that left needs no answer
		return false
	}
	return true
}

// invoke calls the Gate. It returns asked if it answered with a request to open the
// approval page; that is sent once per pending call, to the client that created it.
func (s *Server) invoke(ctx context.Context, c *caller) (o *action.Outcome, asked bool, err error) {
	waiting := s.waiting(c, s.patience(c))
	// Unattended sessions have no user who could open a page, and a task contains the link.
	if c.features.Has(action.ClientElicitsURL) && !c.asTask && c.who.Kind != action.Unattended {
		waiting.OnOpened = func(inv *action.Invocation) (leaves bool) {
			if !c.stateless {
				s.askToOpenPage(c, inv)
				return false
			}
			asked, leaves = s.askToOpenPageStateless(c, inv)
			return leaves
		}
	}
	o, err = s.cfg.Gate.Call(ctx, &action.Call{
		Session: c.who, Source: c.tool.source, Action: c.tool.action,
		Params: c.arguments, IdempotencyKey: c.idempotencyKey, Waiting: waiting,
	})
	return o, asked, err
}

// notFound is the response for an action that disappeared after it was resolved.
func (c *caller) notFound() wire.Response {
	switch {
	case c.retry != nil:
		return invocationNotFound()
	case c.Method == methodRead:
		return resourceNotFound(c.stateless, c.name).Response()
	case c.Method == methodPrompt:
		return promptNotFound(c.name).Response()
	}
	return toolNotFound(c.name, "").Response()
}

// patience is how long a caller waits for approval. A client that gets progress
// waits until the end, but not in an unattended session, where approvals stay
// pending longer than a connection lasts.
func (s *Server) patience(c *caller) time.Duration {
	switch {
	case c.progress == nil:
		return s.cfg.PendingAfter
	case c.who.Kind == action.Unattended:
		return s.cfg.UnattendedPendingAfter
	}
	return action.Forever
}

// waiting returns the callbacks through which the Gate reports to the caller.
func (s *Server) waiting(c *caller, patience time.Duration) action.Waiting {
	w := action.Waiting{Patience: patience, Features: c.features, Resumes: c.stateless, Polls: c.asTask}
	if c.wantsLogs {
		w.LogLevel = c.logLevel
		w.OnLog = func(params json.RawMessage) { c.forwardLog(params) }
	}
	w.OnHeld = func(inv *action.Invocation) {
		c.call.held.Store(true)
		c.completeElicitation(inv)
		if s.calls.draining() { // Drain did not see it as held
			c.call.cancel(errDraining)
			return
		}
		if c.progress != nil {
			c.onWriteError(c.progress.reportHeld(inv, s.cfg.Now()))
		}
	}
	if c.progress != nil {
		w.OnProgress = func(params json.RawMessage) { c.onWriteError(c.progress.forward(params)) }
	}
	return w
}

// onWriteError handles the error of an intermediate message: a client that cannot be
// reached is gone.
func (c *caller) onWriteError(err error) {
	if err != nil {
		c.call.clientGone()
	}
}

// keepAlive sends keep-alive comments until stop is called, and reports their errors
// to heard.
func (s *Server) keepAlive(a *wire.Writer, heard func(error)) (stop func()) {
	var mu sync.Mutex // the timer may fire before it is assigned
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(s.cfg.KeepAliveEvery, func() {
		err := a.KeepAlive()
		heard(err)
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

// finishCall sends the outcome of a call. The outcome counts as delivered once its
// last byte was flushed to a client that was still connected.
func (s *Server) finishCall(ctx context.Context, c *caller, o *action.Outcome, err error, missing func() wire.Response) {
	if o, err = s.askClient(ctx, c, o, err); err == nil && o.Round != nil {
		return // the question was the response
	}
	if err == nil {
		c.completeElicitation(&o.Invocation)
	}
	known := c.tool.builtin != nil || c.retry != nil // the call existed before this request
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errDraining):
		s.answerInterrupted(c, o, err)
		return
	case cause != nil:
		c.reply.EndEmpty(c.acceptsStream)
		return
	}
	var m wire.Response
	switch {
	case err == nil && c.asTask && !o.Invocation.Status.Terminal():
		t := s.taskOf(&o.Invocation, c.who.Kind == action.Unattended)
		m = wire.Response{Result: t.encode(`"resultType":"task",`, "_meta", taskNote(&o.Invocation, s.cfg.Now()))}
	case err == nil:
		lead := ""
		if s.calls.draining() { // the Gate releases waiting callers
			lead = restartingText
		}
		m = s.outcomeResponse(o, lead, c.tool.strict, s.cfg.Now())
		if c.Method == methodCall && o.Answer.Body != nil && !isTool(&o.Invocation) {
			body := []byte(o.Answer.Body) // of a resource or prompt
			if !c.stateless {
				body = sessionResult(methodRead, body)
			}
			m = wire.JSONResult(body)
		}
	case errors.Is(err, action.ErrNotFound) && !known && o.Invocation.ID != "": // the call was recorded
		m = wire.ToolError("%s%s", unknownOutcome, invocationSuffix(o.Invocation.ID))
	case errors.Is(err, action.ErrNotFound):
		m = missing()
	case known, o.Invocation.ID != "":
		m = s.gateError(err, existingCallText)
	default:
		m = s.gateError(err, newCallText)
	}
	s.deliver(ctx, c, o, m, err == nil)
}

// deliver sends the response of a call and reports the delivery to the Gate.
func (s *Server) deliver(ctx context.Context, c *caller, o *action.Outcome, m wire.Response, recorded bool) {
	// Checked before the response: clients may close the connection as soon as they
	// have read the last byte. It takes a system call, which an outcome that nobody
	// fetches again, such as that of an allowed read, does without.
	wanted := recorded && o.Joins && o.Invocation.Status.Terminal() && ctx.Err() == nil && !hangup.Gone(c.r)
	if sent := c.sendTo(c.reply, m); sent == nil && wanted {
		s.cfg.Gate.Delivered(o)
	}
}
