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

// serveCall answers one call, however long it takes.
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
	defer s.removeCall(c)
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

// registerCall has the call be in flight, or answers it and returns false.
func (s *Server) registerCall(c *caller) bool {
	if c.session != nil {
		id := wire.IDKey(c.ID)
		if !c.session.register(id, c.call) {
			c.sendError(wire.InvalidRequest("A request with this id is in flight already; send it again with another id, and the same call joins the one that waits."))
			return false
		}
		c.unregister = func() { c.session.unregister(id, c.call) }
	}
	if !s.calls.add(c.call) {
		c.refuseDraining()
		return false
	}
	return true
}

func (s *Server) removeCall(c *caller) {
	s.calls.remove(c.call)
	c.ended()
}

// invoke makes the call. It returns true when it answered with the question to open
// a page: only to whoever begins a held call, for who repeats one was asked.
func (s *Server) invoke(ctx context.Context, c *caller) (o *action.Outcome, asked bool, err error) {
	waiting := s.waiting(c, s.patience(c))
	if c.opensPages() {
		waiting.Opened = func(inv *action.Invocation) (leaves bool) {
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

// notFound answers for an action that is gone since it was found.
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

// refuseDraining answers a call that came too late.
func (c *caller) refuseDraining() {
	text := drainingText
	if c.tool.builtin != nil && c.name != toolGrant {
		text = restartingStatusText
	}
	_ = c.sendTo(c.reply, wire.ToolError("%s", text)) // a client that left needs no answer
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
	w := action.Waiting{Patience: patience, Can: c.features, Again: c.stateless, Leaves: c.asTask}
	if c.wantsLogs {
		w.LogLevel = c.logLevel
		w.Log = func(params json.RawMessage) { c.forwardLog(params) }
	}
	w.Held = func(inv *action.Invocation) {
		c.call.hold()
		c.completeElicitation(inv)
		if s.calls.draining() { // it came too late to be seen by Drain
			c.call.cancel(errDraining)
			return
		}
		if c.progress != nil {
			c.onWriteError(c.progress.reportHeld(inv, s.cfg.Now()))
		}
	}
	if c.progress != nil {
		w.Progress = func(params json.RawMessage) { c.onWriteError(c.progress.forward(params)) }
	}
	return w
}

// onWriteError takes the error of a word on the way: a client that cannot be reached
// is gone.
func (c *caller) onWriteError(err error) {
	if err != nil {
		c.call.clientGone()
	}
}

// keepAlive says something every now and then until it is stopped, and hands on
// what became of it.
func (s *Server) keepAlive(a *wire.Writer, heard func(error)) (stop func()) {
	var mu sync.Mutex // a beat may come before its timer is known
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

// finishCall gives the caller what became of the call. It counts as delivered
// when the last byte went out to a client that still wanted it.
func (s *Server) finishCall(ctx context.Context, c *caller, o *action.Outcome, err error, missing func() wire.Response) {
	if o, err = s.askClient(ctx, c, o, err); err == nil && o.Round != nil {
		return // the question was the answer
	}
	if err == nil {
		c.completeElicitation(&o.Invocation)
	}
	known := c.tool.builtin != nil || c.retry != nil // it was made before this request
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
		m = t.created()
	case err == nil:
		m = s.outcomeResponse(o, s.noticePrefix(), c.tool.strict, s.cfg.Now())
		if c.Method == methodCall && o.Answer.Body != nil && !isTool(&o.Invocation) {
			m = asToolResult(o.Answer.Body)
		}
	case errors.Is(err, action.ErrNotFound) && !known && o.Invocation.ID != "": // it was there
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

// noticePrefix is what a notice begins with: a Gate that stops lets held callers go by
// itself, and they are told why like those whom Drain interrupts.
func (s *Server) noticePrefix() string {
	if s.calls.draining() {
		return restartingText
	}
	return ""
}

// deliver sends the last message of a call.
func (s *Server) deliver(ctx context.Context, c *caller, o *action.Outcome, m wire.Response, recorded bool) {
	// Looked at before the answer: clients that are done with their connection
	// close it as soon as they have read the last byte.
	wanted := ctx.Err() == nil && !hangup.Gone(c.r)
	sent := c.sendTo(c.reply, m)
	if sent == nil && wanted && recorded && o.Invocation.Status.Terminal() {
		s.cfg.Gate.Delivered(o)
	}
}
