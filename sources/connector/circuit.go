package connector

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// Bounds of leaving a server alone.
const (
	maxBackoff = time.Minute     // between two tries
	maxQuiet   = time.Minute     // that a server may want
	trialTime  = 5 * time.Second // for a sign of life, before another request may try
)

// circuit leaves a server alone that fails again and again. When the pause is
// over, one request may try; at a sign of life all pass, an answer ends it, and
// another failure doubles the pause. A server that says how long it wants to be
// left alone is left alone for as long.
type circuit struct {
	after int
	first time.Duration
	now   func() time.Time

	mu       sync.Mutex // the fields below
	failures int        // in a row
	last     error      // of them; several requests may fail by one
	until    time.Time  // of the pause
	pause    time.Duration
	trials   int64     // so far, which numbers them
	trial    int64     // under way; 0: none
	overdue  time.Time // when it has taken too long
	quiet    time.Time // until then the server wants no requests
}

// enter lets a request pass. Whoever entered leaves, with the number of the
// trial that the request is; 0: none.
func (c *circuit) enter() (trial int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if wait := c.quiet.Sub(now); wait > 0 {
		e := action.Errorf(action.ErrUnavailable, sources.FaultRateLimited,
			"The server wants fewer requests, and is left alone for %s; try again then.", seconds(wait))
		e.RetryAfter = wait
		return 0, e
	}
	if c.failures < c.after {
		return 0, nil
	}
	wait := c.until.Sub(now)
	if wait <= 0 && (c.trial == 0 || !now.Before(c.overdue)) {
		c.trials++
		c.trial, c.overdue = c.trials, now.Add(trialTime)
		return c.trial, nil
	}
	wait = seconds(wait)
	e := action.Errorf(action.ErrUnavailable, sources.FaultOpen,
		"The server failed %d times in a row and is left alone for a moment; it is tried again in %s. The last time: %s",
		c.failures, wait, action.Public(c.last).Message)
	e.RetryAfter = wait
	return 0, e
}

// seconds rounds a time to wait.
func seconds(d time.Duration) time.Duration { return max(d, time.Second).Round(time.Second) }

// pass leaves without a word: the server was not asked.
func (c *circuit) pass(trial int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(trial)
}

// end ends a trial, if it is the one under way.
func (c *circuit) end(trial int64) bool {
	if trial == 0 || c.trial != trial {
		return false
	}
	c.trial = 0
	return true
}

// reached tells that the server gave a sign of life. Nobody waits for the
// trial to end any more, and one failure more is enough.
func (c *circuit) reached() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures >= c.after {
		c.failures, c.trial = c.after-1, 0
	}
}

// alive reports whether a status is a sign of life.
func alive(status int) bool {
	return status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}

// leave tells how the request ended.
func (c *circuit) leave(trial int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tried := c.end(trial)
	c.limit(err)
	switch {
	case answered(err):
		c.failures, c.last, c.pause = 0, nil, 0
	case !failing(err):
	case c.failures >= c.after && !tried, err == c.last: //nolint:errorlint // the same failure, not its like
	default:
		c.last = err
		if c.failures++; c.failures >= c.after {
			c.pause = min(max(2*c.pause, c.first), maxBackoff)
			c.until = c.now().Add(c.pause)
		}
	}
}

// hush tells of a stream that was not opened.
func (c *circuit) hush(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit(err)
}

// limit notes how long the server wants to be left alone.
func (c *circuit) limit(err error) {
	var e *action.Error
	if errors.As(err, &e) && e.Code == sources.FaultRateLimited && e.RetryAfter > 0 {
		c.quiet = c.now().Add(min(e.RetryAfter, maxQuiet))
	}
}

// failing reports whether an error says that the server cannot be reached or
// fails, be it before or after it received the request.
func failing(err error) bool {
	var e *action.Error
	if !errors.As(err, &e) || errors.Is(err, errAlive) {
		return false
	}
	switch e.Code {
	case sources.FaultDNS, sources.FaultUnreachable, sources.FaultTLS, sources.FaultTimeout, sources.FaultFailed:
		return true
	}
	return errors.Is(err, errCut)
}

// answered reports whether the server answered, be it that it refuses.
func answered(err error) bool {
	if err == nil {
		return true
	}
	var e *action.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case sources.FaultAuth, sources.FaultReconnect, sources.FaultTransport, sources.FaultRefused:
		return true
	case sources.FaultProtocol:
		return errors.Is(e.Kind, action.ErrUnavailable)
	}
	return false
}

// Circuit implements [sources.Source].
func (s *Source) Circuit() (open bool, until time.Time) {
	c := &s.circuit
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures < c.after || c.trial == 0 && !c.now().Before(c.until) {
		return false, time.Time{}
	}
	return true, c.until
}
