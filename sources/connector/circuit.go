package connector

import (
	"context"
	"errors"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// maxBackoff bounds the pause between two tries.
const maxBackoff = time.Minute

// circuit leaves a server alone that cannot be reached again and again. When
// the pause is over, one request may try; it closes the circuit or doubles the
// pause.
type circuit struct {
	after int
	first time.Duration
	now   func() time.Time

	mu       sync.Mutex // the fields below
	failures int        // in a row
	last     error      // of them; several requests may fail by one
	until    time.Time  // of the pause
	pause    time.Duration
	trying   bool
}

// enter lets a request pass. Whoever entered leaves.
func (c *circuit) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures < c.after {
		return nil
	}
	wait := c.until.Sub(c.now())
	if wait <= 0 && !c.trying {
		c.trying = true
		return nil
	}
	wait = max(wait, time.Second).Round(time.Second)
	e := action.Errorf(action.ErrUnavailable, sources.FaultOpen,
		"The server could not be reached %d times in a row and is left alone for a moment; it is tried again in %s. The last time: %s",
		c.failures, wait, action.Public(c.last).Message)
	e.RetryAfter = wait
	return e
}

// pass leaves without a word: the server was not asked.
func (c *circuit) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = false
}

// leave tells how the request ended.
func (c *circuit) leave(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tried := c.trying
	c.trying = false
	switch {
	case err != nil && ctx.Err() != nil: // its caller left; that says nothing of the server
	case !away(err):
		c.failures, c.last, c.pause = 0, nil, 0
	case c.failures >= c.after && !tried, err == c.last: //nolint:errorlint // the same failure, not its like
	default:
		c.last = err
		if c.failures++; c.failures >= c.after {
			c.pause = min(max(2*c.pause, c.first), maxBackoff)
			c.until = c.now().Add(c.pause)
		}
	}
}

// away reports whether an error says that the server cannot be reached, or
// fails before it agreed to a session.
func away(err error) bool {
	var e *action.Error
	if !errors.As(err, &e) || !errors.Is(e.Kind, action.ErrUnavailable) {
		return false
	}
	switch e.Code {
	case sources.FaultDNS, sources.FaultUnreachable, sources.FaultTLS, sources.FaultTimeout, sources.FaultFailed:
		return true
	}
	return false
}

// Circuit implements [sources.Circuit].
func (s *Source) Circuit() (open bool, until time.Time) {
	c := &s.circuit
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures < c.after || !c.trying && !c.now().Before(c.until) {
		return false, time.Time{}
	}
	return true, c.until
}
