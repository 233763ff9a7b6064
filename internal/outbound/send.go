package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"sallyport/action"
	"sallyport/internal/guard"
)

// send sends a request once and reads the whole answer.
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
		return nil, invalidPath("is not escaped as it should be")
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
			return nil, c.encodingError(fmt.Errorf("a header holds a line break"))
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
		return invalidPath("is not escaped as it should be")
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		text, _ := url.PathUnescape(s) // it is a part of what was unescaped above
		if text == "" && i < len(segments)-1 {
			return invalidPath("has an empty part")
		}
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }) {
			if part == "." || part == ".." {
				return invalidPath(fmt.Sprintf("has %q as a part", part))
			}
		}
	}
	return nil
}

func invalidPath(what string) error {
	return action.Errorf(action.ErrInvalid, "invalid_path",
		"The path that the params lead to %s, so the service was not asked; give names and ids as the service writes them.", what)
}

// sendTracker tracks whether any part of a request can have been sent.
type sendTracker struct {
	sent    atomic.Bool
	replays bool // net/http can retry it automatically after it was received
}

// withTrace records it before the first byte is sent. Over HTTP/1 a failed
// connection is closed before its error is returned, so that unwritten bytes
// are never sent; over HTTP/2 they can be, so that having the connection
// counts.
func (w *sendTracker) withTrace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if !w.replays {
				w.sent.Store(false) // of a connection that was given up, nothing was
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
