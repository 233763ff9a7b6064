package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/hangup"
)

// serve answers one call, however long it takes.
func (s *Server) serve(c *caller) {
	if c.mcp != nil {
		c.call.linger = cancelWithin
	}
	request := c.r.Context()
	if c.trace != "" {
		request = s.cfg.Trace(request, c.trace)
	}
	ctx, stop := c.call.begin(request)
	defer stop()
	defer c.reply.close()
	if !s.enter(c) {
		return
	}
	defer s.leave(c)
	if c.streams {
		defer s.keepAlive(c.reply, c.heard)()
	}
	var o *action.Outcome
	var err error
	switch {
	case c.retry != nil:
		o, err = s.goOn(ctx, c)
	case c.tool.own != nil:
		c.tool.own(s, ctx, c)
		return
	default:
		var asked bool
		if o, asked, err = s.make(ctx, c); asked {
			return
		}
	}
	s.conclude(ctx, c, o, err, c.missing)
}

// enter has the call be in flight, or answers it and returns false.
func (s *Server) enter(c *caller) bool {
	if c.mcp != nil {
		id := idKey(c.id)
		if !c.mcp.register(id, c.call) {
			c.fail(wrongEnvelope("A request with this id is in flight already; send it again with another id, and the same call joins the one that waits."))
			return false
		}
		c.over = func() { c.mcp.unregister(id, c.call) }
	}
	if !s.calls.add(c.call) {
		c.turnAway()
		return false
	}
	return true
}

func (s *Server) leave(c *caller) {
	s.calls.remove(c.call)
	c.ended()
}

// make makes the call. It returns true when it answered with the question to open
// a page: only to whoever begins a held call, for who repeats one was asked.
func (s *Server) make(ctx context.Context, c *caller) (o *action.Outcome, asked bool, err error) {
	waiting := s.waiting(c, s.patience(c))
	if c.shows() {
		waiting.Opened = func(inv *action.Invocation) (leaves bool) {
			if !c.modern {
				s.opens(c, inv)
				return false
			}
			asked, leaves = s.askToOpen(c, inv)
			return leaves
		}
	}
	o, err = s.cfg.Gate.Call(ctx, &action.Call{
		Session: c.who, Source: c.tool.source, Action: c.tool.action,
		Params: c.arguments, IdempotencyKey: c.key, Waiting: waiting,
	})
	return o, asked, err
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
	return unknownTool(c.name, "").message()
}

// turnAway answers a call that came too late.
func (c *caller) turnAway() {
	text := drainingText
	if c.tool.own != nil && c.name != toolGrant {
		text = askLaterText
	}
	_ = c.answer(c.reply, failText("%s", text)) // a client that left needs no answer
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
	w := action.Waiting{Patience: patience, Can: c.can, Again: c.modern, Leaves: c.tasks}
	if c.logs {
		w.LogLevel = c.level
		w.Log = func(params json.RawMessage) { c.logged(params) }
	}
	w.Held = func(inv *action.Invocation) {
		c.call.hold()
		c.decided(inv)
		if s.calls.draining() { // it came too late to be seen by Drain
			c.call.cancel(errDraining)
			return
		}
		if c.progress != nil {
			c.heard(c.progress.held(inv, s.cfg.Now()))
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

// keepAlive says something every now and then until it is stopped, and hands on
// what became of it.
func (s *Server) keepAlive(a *reply, heard func(error)) (stop func()) {
	var mu sync.Mutex // a beat may come before its timer is known
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(s.cfg.KeepAliveEvery, func() {
		err := a.keepAlive()
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

// conclude gives the caller what became of the call. It counts as delivered
// when the last byte went out to a client that still wanted it.
func (s *Server) conclude(ctx context.Context, c *caller, o *action.Outcome, err error, missing func() message) {
	if o, err = s.settle(ctx, c, o, err); err == nil && o.Round != nil {
		return // the question was the answer
	}
	if err == nil {
		c.decided(&o.Invocation)
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
	case err == nil && c.tasks && !o.Invocation.Status.Terminal():
		t := s.taskOf(&o.Invocation, c.who.Kind == action.Unattended)
		m = t.created()
	case err == nil:
		m = s.outcomeMessage(o, s.lead(), c.tool.strict, s.cfg.Now())
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
func (s *Server) deliver(ctx context.Context, c *caller, o *action.Outcome, m message, recorded bool) {
	// Looked at before the answer: clients that are done with their connection
	// close it as soon as they have read the last byte.
	wanted := ctx.Err() == nil && !hangup.Gone(c.r)
	sent := c.answer(c.reply, m)
	if sent == nil && wanted && recorded && o.Invocation.Status.Terminal() {
		s.cfg.Gate.Delivered(o)
	}
}
