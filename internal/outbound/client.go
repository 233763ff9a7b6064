package outbound

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"sallyport/action"
)

// Do sends a request and returns the answer, whatever its status. Errors are
// [*action.Error]s: ErrUnavailable when the service did nothing (code
// "upstream_rate_limited" with RetryAfter where it wants to be left alone),
// ErrOutcomeUnknown when it may have, ErrInvalid when the path is none.
//
// It takes as long as ctx has, or [Config.Timeout] when ctx has no deadline.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	if err := checkPath(r.Path); err != nil {
		return nil, err
	}
	if _, has := ctx.Deadline(); !has {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.pool.Timeout)
		defer stop()
	}
	lane := c.pool.lanes.enter(c.lane)
	defer c.pool.lanes.leave(c.lane, lane)
	if r.Serial {
		if !lane.serial.take(ctx) {
			return nil, c.crowded(ctx)
		}
		defer lane.serial.free()
	}
	return c.tries(ctx, r, lane)
}

// tries sends a request until there is an answer that counts, or no sense or
// safety in another try.
func (c *Client) tries(ctx context.Context, r *Request, l *lane) (*Response, error) {
	waits := waits{left: c.pool.MaxWait}
	reached := false // by an earlier try, which may have been executed
	for try := 1; ; try++ {
		resp, seen, err := c.turn(ctx, r, l, &waits)
		if seen < 0 {
			return nil, after(reached, err)
		}
		if err == nil {
			wait, limited := r.limited(resp, c.pool.Now())
			if limited {
				wait = l.limit(c.pool.Now(), wait, seen)
				if try < c.pool.Attempts && waits.fit(ctx, wait) {
					continue // the next turn waits
				}
				return nil, after(reached, c.rateLimited(wait))
			}
			l.passed()
		}
		err = after(reached, err)
		if try == c.pool.Attempts || !repeatable(r, resp, err) ||
			!waits.sleep(ctx, told(resp, c.pool.Now())) || !sleep(ctx, backoff(try)) {
			return resp, err
		}
		reached = reached || err == nil || errors.Is(err, action.ErrOutcomeUnknown)
		c.pool.Log.InfoContext(ctx, "a request to a service is sent again", "host", c.base.Host, "try", try+1, "err", err)
	}
}

// after is an error of a try that did nothing, where an earlier one may have
// done something: then nobody knows.
func after(reached bool, err error) error {
	var e *action.Error
	if !reached || !errors.As(err, &e) || !errors.Is(e.Kind, action.ErrUnavailable) {
		return err
	}
	unsure := *e
	unsure.Kind = action.ErrOutcomeUnknown
	unsure.Message = "The request was sent, no answer came that counts, and it could not be sent again."
	return &unsure
}

// turn waits until the service may be asked, and for a place among those who
// do, and asks. Seen is what the request had seen of its limits, negative when
// it was not sent.
func (c *Client) turn(ctx context.Context, r *Request, l *lane, w *waits) (resp *Response, seen int, err error) {
	for {
		if wait, _ := l.wait(c.pool.Now()); wait > 0 && !w.sleep(ctx, wait) {
			return nil, -1, c.rateLimited(wait)
		}
		resp, seen, err = c.placed(ctx, r, l)
		if seen >= 0 || err != nil {
			return resp, seen, err
		}
	}
}

// placed sends a request when it has a place, unless the service asked
// meanwhile to be left alone: then seen is negative and there is no error.
func (c *Client) placed(ctx context.Context, r *Request, l *lane) (resp *Response, seen int, err error) {
	if !l.slots.take(ctx) {
		return nil, -1, c.crowded(ctx)
	}
	defer l.slots.free()
	h := c.pool.enter(c.host)
	defer c.pool.leave(c.host, h)
	if !h.slots.take(ctx) {
		return nil, -1, c.crowded(ctx)
	}
	defer h.slots.free()
	wait, seen := l.wait(c.pool.Now())
	if wait > 0 {
		return nil, -1, nil
	}
	resp, err = c.send(ctx, r)
	return resp, seen, err
}

// repeatable reports whether a request may and should be sent again.
func repeatable(r *Request, resp *Response, err error) bool {
	if err == nil {
		switch resp.Status {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return r.Repeatable
		}
		return false
	}
	var e *action.Error
	if !errors.As(err, &e) || e.Lasting() || e.Code == codeTimeout || e.Code == codeInterrupted || e.Code == codeRefused {
		return false
	}
	return r.Repeatable || errors.Is(e.Kind, action.ErrUnavailable)
}

// backoff is how long to wait after the first, second and so on try. Those who
// failed together do not come back together.
func backoff(try int) time.Duration {
	return jitter(250 * time.Millisecond << min(try-1, 4))
}

// jitter returns d and up to a half more.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// waits are what a request may wait for its service in all.
type waits struct{ left time.Duration }

// fit reports whether there is time for the wait.
func (w *waits) fit(ctx context.Context, d time.Duration) bool { return d <= w.left && fits(ctx, d) }

// sleep waits, and reports whether it did.
func (w *waits) sleep(ctx context.Context, d time.Duration) bool {
	if d > w.left {
		return false
	}
	w.left -= d
	return sleep(ctx, d)
}

// fits reports whether ctx lasts longer than d.
func fits(ctx context.Context, d time.Duration) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() == nil && (!has || time.Until(deadline) > d)
}

// sleep waits when there is time for it, and reports whether it did.
func sleep(ctx context.Context, d time.Duration) bool {
	if !fits(ctx, d) {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
