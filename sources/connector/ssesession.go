package connector

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// errNoSSE reports a URL that is not an endpoint of HTTP+SSE.
var errNoSSE = errors.New("the server does not use HTTP+SSE")

// sseSession is a session of the HTTP+SSE transport of protocol 2024-11-05: the
// stream of a GET carries all messages of the server, and its first event names
// the URL to post messages to.
//
// It takes requests of streamable HTTP and answers like a server of it, so that
// the rest of the package is the same for both: initialize opens the stream, a
// POST is answered with the messages for its request, a GET with those for none,
// and DELETE ends the session. After the stream ended it answers 404, as for an
// unknown session.
type sseSession struct {
	source  *Source
	agent   bool        // it is an agent's own
	ponging atomic.Bool // a ping is being answered

	mu       sync.Mutex // the fields below
	endpoint string     // to post to; empty: not open
	closed   bool
	failure  error               // why the stream ended; nil: it did not, or we ended it
	cancel   context.CancelFunc  // ends the stream
	waiting  map[string]*sseBody // the responses to POST, by request ID
	calls    []*sseBody          // of them those of a caller, the latest last
	other    *sseBody            // the response to GET, or to the next one
}

func newSSESession(s *Source, agent bool) *sseSession {
	return &sseSession{source: s, agent: agent, cancel: func() {}, waiting: map[string]*sseBody{}, other: newSSEBody()}
}

// sseSessionID is the ID of an sseSession for the rest of the package. Servers
// have theirs in the endpoint.
const sseSessionID = "sse"

// RoundTrip implements [http.RoundTripper]. The request has the credential.
func (t *sseSession) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodDelete:
		t.close(nil)
		return sseResponse(r, http.StatusOK, nil), nil
	case http.MethodGet:
		return t.listen(r), nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body.Close() //nolint:errcheck,gosec // it is in memory
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Mcp-Session-Id") == "" { // initialize
		if refused, err := t.open(r); refused != nil || err != nil {
			return refused, err
		}
	}
	return t.post(r, body)
}

// open opens the stream and waits for its endpoint. It returns a response if the
// server refuses the request, and errNoSSE if it opens no such stream.
func (t *sseSession) open(r *http.Request) (refused *http.Response, err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer context.AfterFunc(r.Context(), cancel)()
	t.mu.Lock()
	t.cancel = cancel
	t.mu.Unlock()
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, t.source.url.String(), nil)
	if err != nil {
		return nil, err
	}
	get.Header = r.Header.Clone()
	get.Header.Del("Content-Type")
	get.Header.Set("Accept", "text/event-stream")
	resp, err := t.do(get)
	if err != nil {
		return nil, err
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode == http.StatusOK && kind == "text/event-stream":
	case refusesCaller(resp.StatusCode) || resp.StatusCode >= 500:
		resp.Body.Close() //nolint:errcheck,gosec // the status says it
		refused := sseResponse(r, resp.StatusCode, nil)
		refused.Header = resp.Header
		return refused, nil
	default:
		resp.Body.Close() //nolint:errcheck,gosec // it is not the stream
		return nil, errNoSSE
	}
	opened := make(chan error, 1)
	t.source.streams.Go(func() { t.read(resp, opened) })
	err = <-opened
	return nil, cmp.Or(context.Cause(r.Context()), err)
}

// refusesCaller reports whether a 4xx status says nothing about the transport.
func refusesCaller(status int) bool {
	return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests}, status)
}

// do sends a request to the server itself. The error does not contain the URL,
// which holds the server's session ID.
func (t *sseSession) do(r *http.Request) (*http.Response, error) {
	resp, err := t.source.http.Do(r)
	var inURL *url.Error
	if errors.As(err, &inURL) {
		return nil, inURL.Err
	}
	return resp, err
}

// read reads the stream to its end, without a time limit: the transport detects
// dead peers. Each event is bounded. opened receives the result for the first.
func (t *sseSession) read(resp *http.Response, opened chan<- error) {
	defer resp.Body.Close()
	body := &eventLimitReader{body: resp.Body, limit: t.source.cfg.MaxAnswer, left: t.source.cfg.MaxAnswer}
	first := true
	err := readEvents(body, func(ev event) bool {
		body.left = body.limit
		if first {
			first = false
			err := t.setEndpoint(resp.Request.URL, ev)
			opened <- err
			return err == nil
		}
		if ev.name == "" || ev.name == "message" {
			t.receive(resp.Request.Context(), ev.data)
		}
		return true
	})
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	if first {
		opened <- errNoSSE
	}
	t.close(err)
}

// maxEndpoint bounds the URL in an endpoint event.
const maxEndpoint = 8 << 10

// setEndpoint takes the URL to post to from the first event. It must have the
// origin of the connector's URL, for which the credential was set.
func (t *sseSession) setEndpoint(base *url.URL, ev event) error {
	if ev.name != "endpoint" {
		return errNoSSE
	}
	u, err := base.Parse(strings.TrimSpace(string(ev.data)))
	switch {
	case err != nil || len(ev.data) > maxEndpoint:
		return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "The server names an endpoint for messages that is not a URL. Report it to the server's developers.")
	case u.Scheme != t.source.url.Scheme || guard.Host(u) != guard.Host(t.source.url) || u.User != nil:
		return action.Errorf(action.ErrUnavailable, sources.FaultRefused, "The server names an endpoint for messages at %.200q, which is another origin than that of the connector's URL, so nothing is sent there. Configure the server to name a path, or set the URL to that origin.",
			sources.Printable(u.Scheme+"://"+u.Host, 200))
	}
	u.Fragment, u.RawFragment = "", ""
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endpoint = u.String()
	return nil
}

// receive answers pings and passes on other messages of the server: a response to
// its request, progress to all requests, of which each knows its own, and the rest
// to GET, or in an agent's session to the latest call, before its response.
func (t *sseSession) receive(ctx context.Context, data []byte) {
	m, ok := parseMessage(data)
	if !ok || m.method == nil && m.id == nil {
		return
	}
	method, _ := unquote(m.method)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch body := t.waiting[string(m.id)]; {
	case m.method == nil && body != nil:
		t.forget(string(m.id), body)
		body.append(data)
		body.end(io.EOF)
	case m.method == nil: // to nobody's request
	case method == "ping" && m.id != nil:
		t.pong(ctx, slices.Clone(m.id))
	case method == "notifications/progress":
		for _, body := range t.waiting {
			body.offer(data)
		}
	case t.agent && len(t.calls) > 0:
		t.calls[len(t.calls)-1].offer(data)
	default:
		t.other.offer(data)
	}
}

// forget removes a request that has its response, or waits no longer.
func (t *sseSession) forget(id string, body *sseBody) {
	if t.waiting[id] == body {
		delete(t.waiting, id)
	}
	t.calls = slices.DeleteFunc(t.calls, func(call *sseBody) bool { return call == body })
}

// pong answers a ping, unless another is being answered. A GET could do so, but the
// shared session has none where nobody listens.
func (t *sseSession) pong(ctx context.Context, id json.RawMessage) {
	if !t.ponging.CompareAndSwap(false, true) {
		return
	}
	t.source.streams.Go(func() {
		defer t.ponging.Store(false)
		x := &exchange{Source: t.source, ses: &session{sse: t, id: sseSessionID, version: lastLegacy}, client: t.source.client(t, nil, nil)}
		x.sendResponse(ctx, id, "result", json.RawMessage(`{}`))
	})
}

// post sends a message, and answers a request with what the stream brings for it.
func (t *sseSession) post(r *http.Request, message []byte) (*http.Response, error) {
	m, _ := parseMessage(message)
	id, request := string(m.id), m.id != nil && m.method != nil
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return sseResponse(r, http.StatusNotFound, nil), nil
	}
	endpoint, body := t.endpoint, newSSEBody()
	if request {
		t.waiting[id] = body
		if member(member(m.params, "_meta"), "progressToken") != nil { // see [request.meta]
			t.calls = append(t.calls, body)
		}
	}
	t.mu.Unlock()
	stop := context.AfterFunc(r.Context(), func() { body.end(context.Cause(r.Context())) })
	body.closed = func() {
		stop()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.forget(id, body)
	}
	resp, err := t.send(r, endpoint, message)
	switch {
	case err != nil:
		body.Close() //nolint:errcheck,gosec // it only forgets the request
		return nil, err
	case resp.StatusCode/100 != 2:
		body.Close() //nolint:errcheck,gosec // likewise
		return resp, nil
	case !request:
		body.Close()      //nolint:errcheck,gosec // likewise
		resp.Body.Close() //nolint:errcheck,gosec // there is nothing in it
		return sseResponse(r, http.StatusAccepted, nil), nil
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // "Accepted"
	resp.Body.Close()                             //nolint:errcheck,gosec // likewise
	return sseResponse(r, http.StatusOK, body), nil
}

// send posts a message to the endpoint.
func (t *sseSession) send(r *http.Request, endpoint string, message []byte) (*http.Response, error) {
	post, err := http.NewRequestWithContext(r.Context(), http.MethodPost, endpoint, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	post.Header = r.Header.Clone()
	post.Header.Del("Mcp-Session-Id")
	return t.do(post)
}

// listen answers a GET with the messages that belong to no request, from where
// the last GET ended.
func (t *sseSession) listen(r *http.Request) *http.Response {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return sseResponse(r, http.StatusNotFound, nil)
	}
	body := t.other
	stop := context.AfterFunc(r.Context(), func() { body.end(context.Cause(r.Context())) })
	body.closed = func() {
		stop()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.other == body && !t.closed {
			t.other = newSSEBody()
		}
	}
	return sseResponse(r, http.StatusOK, body)
}

// close ends the session, and its responses. failure says why its stream ended;
// nil: it did not.
func (t *sseSession) close(failure error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed, t.failure = true, failure
	t.cancel()
	err := cmp.Or(failure, errors.New("the session was ended"))
	for _, body := range t.waiting {
		body.end(err)
	}
	t.other.end(err)
}

// sseResponse returns the response to a request. A nil body is empty.
func sseResponse(r *http.Request, status int, body *sseBody) *http.Response {
	resp := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r,
	}
	if body != nil {
		resp.Body, resp.ContentLength = body, -1
		resp.Header.Set("Content-Type", "text/event-stream")
		resp.Header.Set("Mcp-Session-Id", sseSessionID)
	}
	return resp
}

// sseBody is an event stream that is written without waiting for its reader.
type sseBody struct {
	closed func() // called by Close

	mu      sync.Mutex // the fields below
	changed *sync.Cond
	events  bytes.Buffer
	err     error // after the events; nil: more may come
}

func newSSEBody() *sseBody {
	b := &sseBody{closed: func() {}}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// maxUnread is how far a reader may be behind, in bytes. Further messages that are
// no response are dropped.
const maxUnread = 1 << 20

// offer appends a message unless the reader is too far behind.
func (b *sseBody) offer(message []byte) {
	b.mu.Lock()
	full := b.events.Len() > maxUnread
	b.mu.Unlock()
	if !full {
		b.append(message)
	}
}

func (b *sseBody) append(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return
	}
	for line := range bytes.SplitSeq(message, []byte("\n")) {
		b.events.WriteString("data: ")
		b.events.Write(line)
		b.events.WriteByte('\n')
	}
	b.events.WriteByte('\n')
	b.changed.Broadcast()
}

// end ends the stream after its events.
func (b *sseBody) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		b.changed.Broadcast()
	}
}

// Read implements [io.Reader].
func (b *sseBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.events.Len() == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.changed.Wait()
	}
	return b.events.Read(p)
}

// Close implements [io.Closer].
func (b *sseBody) Close() error {
	b.end(http.ErrBodyReadAfterClose)
	b.closed()
	return nil
}
