package mcpserver

import (
	"context"
	"errors"
	"time"

	"sallyport/action"
)

const (
	drainingText = "The gateway is shutting down; nothing was executed. Try again in a few seconds."
	partingText  = "The gateway is restarting. "
	// lostText is for a call of which nobody can say whether it began.
	lostText = "The gateway is shutting down and the call has no answer yet: it may or may not have happened. " +
		"Call again with the same arguments in a few seconds: a call that began is joined, not repeated."
	// partWithin is what remains to ask for the last words when the time is
	// over, and partedWithin for sending them.
	partWithin   = 250 * time.Millisecond
	partedWithin = time.Second
)

// errDraining is the cause of a call's context when the gateway stops.
var errDraining = errors.New("the gateway is shutting down")

// Drain refuses new calls and answers everyone who waits: held calls at once,
// with how to come back, those that execute when they end or when ctx does. It
// then closes the event streams and forgets the MCP sessions. It returns ctx's
// error when executing calls had to be left behind.
func (s *Server) Drain(ctx context.Context) error {
	until, _ := ctx.Deadline()
	empty := s.calls.shut(until)
	s.calls.cancel(errDraining, true)
	var err error
	select {
	case <-empty:
	case <-ctx.Done():
		err = ctx.Err()
		s.calls.cancel(errDraining, false)
		select {
		case <-empty:
		case <-time.After(partedWithin):
			s.cfg.Log.Warn("clients did not take their last answer")
		}
	}
	s.close()
	for _, old := range s.sessions.takeAll() {
		s.end(old)
	}
	return err
}

// part answers a call that the shutdown interrupted. The Gate is asked once
// more, as by a caller without patience: so the caller counts as told, and an
// approval that came in this moment is not lost on him.
func (s *Server) part(c *caller, o *action.Outcome, err error) {
	until := time.Now().Add(partWithin)
	if t := s.calls.deadline(); t.After(until) {
		until = t
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(c.r.Context()), until)
	defer cancel()
	recorded := o.Invocation.ID != ""
	if err != nil && recorded {
		if again, e := s.cfg.Gate.Wait(ctx, &c.who, o.Invocation.ID, action.Waiting{}); e == nil || again.Invocation.ID != "" {
			o = again
		}
	}
	m := failText("%s", lostText)
	if recorded {
		m = s.outcomeMessage(o, partingText, c.tool.strict, s.cfg.Now())
	}
	s.deliver(ctx, c, o, m, recorded)
}
