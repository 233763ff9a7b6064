package connector

import (
	"errors"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// Limits of the circuit breaker.
const (
	maxBackoff   = time.Minute     // between two attempts
	maxLimit     = time.Minute     // that a server can ask for
	probeTimeout = 5 * time.Second // for a first response, before another request can probe
)

// circuit is a circuit breaker for a server that fails repeatedly. After a
// pause, one request probes the server; the first contact lets all requests
// pass, a success closes the circuit, and another failure doubles the pause. It
// also honours the delay that a server asks for.
type circuit struct {
	after int
	first time.Duration
	now   func() time.Time

	mu            sync.Mutex // the fields below
	failures      int        // in a row
	lastError     error      // of them; several requests may fail by one
	until         time.Time  // of the pause
	pause         time.Duration
	probes        int64     // so far, which numbers them
	probe         int64     // under way; 0: none
	probeDeadline time.Time // when it has taken too long
	limitedUntil  time.Time // until then the server wants no requests
}

// allow lets a request pass. The caller calls record or cancel afterwards, with
// the number of the probe; 0: none.
func (c *circuit) allow() (trial int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if wait := c.limitedUntil.Sub(now); wait > 0 {
		e := action.Errorf(action.ErrUnavailable, sources.FaultRateLimited,
			"The server's rate limit was reached. Retry in %s.", seconds(wait))
		e.RetryAfter = wait
		return 0, e
	}
	if c.failures < c.after {
		return 0, nil
	}
	wait := c.until.Sub(now)
	if wait <= 0 && (c.probe == 0 || !now.Before(c.probeDeadline)) {
		c.probes++
		c.probe, c.probeDeadline = c.probes, now.Add(probeTimeout)
		return c.probe, nil
	}
	wait = seconds(wait)
	e := action.Errorf(action.ErrUnavailable, sources.FaultOpen,
		"The server failed %d times in a row. The gateway retries in %s. Last error: %s",
		c.failures, wait, action.Public(c.lastError).Message)
	e.RetryAfter = wait
	return 0, e
}

// seconds rounds a time to wait.
func seconds(d time.Duration) time.Duration { return max(d, time.Second).Round(time.Second) }

// cancel ends a request that was not sent.
func (c *circuit) cancel(trial int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endProbe(trial)
}

// endProbe ends a probe if it is the current one.
func (c *circuit) endProbe(trial int64) bool {
	if trial == 0 || c.probe != trial {
		return false
	}
	c.probe = 0
	return true
}

// recordContact records that the server responded. The probe is over, and one
// more failure opens the circuit.
func (c *circuit) recordContact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures >= c.after {
		c.failures, c.probe = c.after-1, 0
	}
}

// record records how a request ended.
func (c *circuit) record(trial int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tried := c.endProbe(trial)
	c.setLimit(err)
	switch {
	case isAnswer(err):
		c.failures, c.lastError, c.pause = 0, nil, 0
	case !isServerFailure(err):
	case c.failures >= c.after && !tried, err == c.lastError: //nolint:errorlint // the same failure, not its like
	default:
		c.lastError = err
		if c.failures++; c.failures >= c.after {
			c.pause = min(max(2*c.pause, c.first), maxBackoff)
			c.until = c.now().Add(c.pause)
		}
	}
}

// recordLimit records the error of a stream that was not opened.
func (c *circuit) recordLimit(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLimit(err)
}

// setLimit records the delay that the server asks for.
func (c *circuit) setLimit(err error) {
	var e *action.Error
	if errors.As(err, &e) && e.Code == sources.FaultRateLimited && e.RetryAfter > 0 {
		c.limitedUntil = c.now().Add(min(e.RetryAfter, maxLimit))
	}
}

// isServerFailure reports whether an error says that the server is unreachable
// or fails, before or after it received the request.
func isServerFailure(err error) bool {
	var e *action.Error
	if !errors.As(err, &e) || errors.Is(err, errContact) {
		return false
	}
	switch e.Code {
	case sources.FaultDNS, sources.FaultUnreachable, sources.FaultTLS, sources.FaultTimeout, sources.FaultFailed:
		return true
	}
	return errors.Is(err, errConnectionLost)
}

// isAnswer reports whether the server answered, including refusals.
func isAnswer(err error) bool {
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
	if c.failures < c.after || c.probe == 0 && !c.now().Before(c.until) {
		return false, time.Time{}
	}
	return true, c.until
}
