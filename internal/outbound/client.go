package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
)

// Do sends a request and returns the response, whatever its status. Errors are
// [*action.Error]s: ErrUnavailable if the request had no effect (code
// "upstream_rate_limited", with RetryAfter, for a rate limit),
// ErrOutcomeUnknown if it may have had one, ErrInvalid if the path is not valid.
//
// Its time is limited by the deadline of ctx, or by [Config.Timeout] if there is
// none.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	if err := checkPath(r.Path); err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.pool.Timeout)
		defer stop()
	}
	lane := c.pool.limiters.acquire(c.limiterKey)
	defer c.pool.limiters.release(c.limiterKey, lane)
	if r.Serial {
		if !lane.serial.acquire(ctx) {
			return nil, c.overloaded(ctx)
		}
		defer lane.serial.release()
	}
	return c.doWithRetries(ctx, r, lane)
}

// doWithRetries sends a request until it gets a final response, or a retry would be
// useless or unsafe.
func (c *Client) doWithRetries(ctx context.Context, r *Request, l *limiter) (*Response, error) {
	waits := waitBudget{left: c.pool.MaxWait}
	reached := false // an earlier attempt may have been executed
	for try := 1; ; try++ {
		resp, seen, err := c.waitAndSend(ctx, r, l, &waits)
		if seen < 0 {
			return nil, afterAttempt(reached, err)
		}
		if err == nil {
			wait, limited := retryAfter(resp, c.pool.Now()), resp.Status == http.StatusTooManyRequests
			if r.Limited != nil {
				wait, limited = r.Limited(resp)
			}
			if limited {
				wait = l.pause(c.pool.Now(), wait, seen)
				if try < c.pool.Attempts && wait <= waits.left && hasTime(ctx, wait) {
					continue // the next attempt waits
				}
				return nil, afterAttempt(reached, c.rateLimited(wait))
			}
			l.reset()
		}
		err = afterAttempt(reached, err)
		if try == c.pool.Attempts || !repeatable(r, resp, err) ||
			!waits.sleep(ctx, retryAfter(resp, c.pool.Now())) || !sleep(ctx, jitter(250*time.Millisecond<<min(try-1, 4))) {
			return resp, err
		}
		reached = reached || err == nil || errors.Is(err, action.ErrOutcomeUnknown)
		c.pool.Log.InfoContext(ctx, "retrying a request to a service", "host", c.base.Host, "try", try+1, "err", err)
	}
}

// afterAttempt converts the error of an attempt without effect. If an earlier attempt
// may have had an effect, the outcome is unknown.
func afterAttempt(reached bool, err error) error {
	var e *action.Error
	if !reached || !errors.As(err, &e) || !errors.Is(e.Kind, action.ErrUnavailable) {
		return err
	}
	unsure := *e
	unsure.Kind = action.ErrOutcomeUnknown
	unsure.Message = "The service did not answer the request, and a retry failed."
	return &unsure
}

// waitAndSend waits for the end of a pause and for a slot, and sends. seen is
// the limiter's generation, negative if the request was not sent.
func (c *Client) waitAndSend(ctx context.Context, r *Request, l *limiter, w *waitBudget) (resp *Response, seen int, err error) {
	for {
		if wait, _ := l.wait(c.pool.Now()); wait > 0 && !w.sleep(ctx, wait) {
			return nil, -1, c.rateLimited(wait)
		}
		resp, seen, err = c.sendInSlot(ctx, r, l)
		if seen >= 0 || err != nil {
			return resp, seen, err
		}
	}
}

// sendInSlot sends a request once it has a slot, unless the service was paused
// meanwhile: then seen is negative and there is no error.
func (c *Client) sendInSlot(ctx context.Context, r *Request, l *limiter) (resp *Response, seen int, err error) {
	if !l.slots.acquire(ctx) {
		return nil, -1, c.overloaded(ctx)
	}
	defer l.slots.release()
	h := c.pool.acquireHost(c.hostKey)
	defer c.pool.releaseHost(c.hostKey, h)
	if !h.slots.acquire(ctx) {
		return nil, -1, c.overloaded(ctx)
	}
	defer h.slots.release()
	wait, seen := l.wait(c.pool.Now())
	if wait > 0 {
		return nil, -1, nil
	}
	resp, err = c.send(ctx, r)
	return resp, seen, err
}

// repeatable reports whether a request can and should be retried.
func repeatable(r *Request, resp *Response, err error) bool {
	if err == nil {
		switch resp.Status {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return r.Repeatable
		}
		return false
	}
	var e *action.Error
	if !errors.As(err, &e) || e.Persistent() || e.Code == codeTimeout || e.Code == codeInterrupted || e.Code == codeRefused {
		return false
	}
	return r.Repeatable || errors.Is(e.Kind, action.ErrUnavailable)
}

// jitter returns d plus up to half of it, so that requests that failed at the same time
// are not retried at the same time.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// waitBudget is the remaining time that a request can wait for its service.
type waitBudget struct{ left time.Duration }

// sleep waits, and reports whether there was time for it.
func (w *waitBudget) sleep(ctx context.Context, d time.Duration) bool {
	if d > w.left {
		return false
	}
	w.left -= d
	return sleep(ctx, d)
}

// hasTime reports whether ctx lasts longer than d.
func hasTime(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() == nil && (!ok || time.Until(deadline) > d)
}

// sleep waits if there is time, and reports whether it did.
func sleep(ctx context.Context, d time.Duration) bool {
	if !hasTime(ctx, d) {
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

// send sends a request once and reads the whole response.
func (c *Client) send(ctx context.Context, r *Request) (*Response, error) {
	w := &sendTracker{replays: r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""}
	req, err := c.request(w.withTrace(ctx), r)
	if err != nil {
		return nil, err
	}
	client := *c.http
	if r.NoRedirect {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, err, w.sent.Load())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(guard.LimitBody(resp.Body, c.pool.MaxBody))
	if err != nil {
		return nil, c.transportError(ctx, err, true)
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

func (c *Client) request(ctx context.Context, r *Request) (*http.Request, error) {
	u := *c.base
	raw := strings.TrimSuffix(c.base.EscapedPath(), "/") + r.Path
	path, err := url.PathUnescape(raw)
	if err != nil {
		return nil, invalidPath("is not escaped correctly")
	}
	u.Path, u.RawPath = path, raw
	u.RawQuery = strings.Trim(c.base.RawQuery+"&"+r.Query.Encode(), "&")
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), body)
	if err != nil {
		return nil, c.encodingError(err)
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	for _, values := range req.Header {
		if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			return nil, c.encodingError(errors.New("a header contains a line break"))
		}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.pool.UserAgent)
	}
	if c.pool.Traceparent != nil {
		if trace := c.pool.Traceparent(ctx); trace != "" {
			req.Header.Set("Traceparent", trace)
		}
	}
	return req, nil
}

// checkPath rejects a path that leaves the base URL's path, as parsed here or
// by a server that unescapes first.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	text, err := url.PathUnescape(path)
	if err != nil || path[0] != '/' || (&url.URL{Path: text, RawPath: path}).EscapedPath() != path {
		return invalidPath("is not escaped correctly")
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		text, _ := url.PathUnescape(s) // unescaped above without an error
		if text == "" && i < len(segments)-1 {
			return invalidPath("has an empty segment")
		}
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }) {
			if part == "." || part == ".." {
				return invalidPath(fmt.Sprintf("has a segment %q", part))
			}
		}
	}
	return nil
}

func invalidPath(what string) error {
	return action.Errorf(action.ErrInvalid, "invalid_path",
		"The path that the params form %s, so no request was sent. Write names and IDs as the service does.", what)
}

// sendTracker tracks whether any part of a request may have been sent.
type sendTracker struct {
	sent    atomic.Bool
	replays bool // net/http may retry it automatically after it was received
}

// withTrace sets sent before the first byte is sent. Over HTTP/1, a failed
// connection is closed before its error is returned, so unwritten bytes are never
// sent. Over HTTP/2 they may be, so the request counts as sent once it has a
// connection.
func (w *sendTracker) withTrace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if !w.replays {
				w.sent.Store(false) // nothing was sent over an abandoned connection
			}
		},
		GotConn: func(info httptrace.GotConnInfo) {
			if t, ok := info.Conn.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol == "h2" {
				w.sent.Store(true)
			}
		},
		WroteHeaderField: func(string, []string) { w.sent.Store(true) },
	})
}
