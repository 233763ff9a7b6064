package mcpserver

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"sallyport/action"
)

// call is a tools/call in flight.
type call struct {
	cancel context.CancelCauseFunc

	// linger is how long a held call outlasts its client's request.
	linger time.Duration

	mu      sync.Mutex
	held    bool        // a person is waited for
	leaving *time.Timer // nil while the client is there
}

// cancelWithin is how long the word of a cancellation may take, by way of
// another instance above all.
const cancelWithin = 2 * time.Second

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

// begin returns the context of the call. Its cause tells who ended it; a client
// whose request ended is gone, whatever the era.
func (c *call) begin(request context.Context) (ctx context.Context, stop func()) {
	ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(request))
	unhook := context.AfterFunc(request, c.gone)
	return ctx, func() {
		unhook()
		c.stay()
		c.cancel(nil)
	}
}

// gone ends the call because its client is gone. Some clients close the request
// as they cancel, and the word of that is still on its way; so a held call
// lingers for it, to be withdrawn then and not merely left alone.
func (c *call) gone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.held || c.linger == 0:
		c.cancel(action.ErrCallerGone)
	case c.leaving == nil:
		c.leaving = time.AfterFunc(c.linger, func() { c.cancel(action.ErrCallerGone) })
	}
}

// stay undoes gone; the call is over.
func (c *call) stay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving != nil {
		c.leaving.Stop()
	}
}

// calls are all of them, so that a shutdown can answer everyone.
type calls struct {
	mu     sync.Mutex
	all    map[*call]bool
	closed bool
	empty  chan struct{} // made when closed; itself closed with the last call
	until  time.Time     // when a shutdown gives up waiting; zero: not known
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

// shut takes no more calls and returns a channel that is closed when the last
// one has ended.
func (c *calls) shut(until time.Time) (empty <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed, c.until = true, until
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
	return c.until
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
	if id := member(x.params, "requestId"); x.mcp != nil && id != nil {
		key, cause := idKey(id), cancelCause(member(x.params, "reason"))
		if c := x.mcp.inFlight(key); c != nil {
			c.cancel(cause)
		} else if err := s.postCancel(x, key, cause); err != nil {
			s.cfg.Log.Error("telling other instances of a cancelled call", "error", err)
			s.unsure(x.w)
			return
		}
	}
	x.w.WriteHeader(http.StatusAccepted)
}

// cancelCause tells a client that gave up waiting from one whose user changed
// his mind: only the latter wants the held call withdrawn.
func cancelCause(reason []byte) error {
	if isString(reason) {
		text := strings.ToLower(decodeString(reason))
		for _, sign := range []string{"timed out", "timeout", "-32001"} {
			if strings.Contains(text, sign) {
				return action.ErrCallerGone
			}
		}
	}
	return action.ErrCancelled
}
