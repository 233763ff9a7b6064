package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// answer is the server's response to a request: a result or a JSON-RPC error.
type answer struct {
	result, problem json.RawMessage
	raw             json.RawMessage // the result as it came, with the credential
	size            int64
	stateless       bool
}

// exchange is one request and the messages received in response.
type exchange struct {
	*Source
	ses     *session
	cred    *credential
	id      int64
	request *request
	client  *http.Client
	sent    atomic.Bool // the request may have reached the server
	renewed bool        // it was refused, and may be sent again with another credential
	stop    context.CancelCauseFunc
	askCtx  context.Context // ends with the answer; questions end with it
	size    int64           // of the events read
	replies atomic.Int64    // requests of the server that were taken
	asking  atomic.Int64    // questions that the caller has open
}

// do sends a request and returns the server's answer, unless the circuit is
// open.
func (s *Source) do(ctx context.Context, cred *credential, r *request) (answer, error) {
	if s.cfg.Traceparent != nil {
		r.trace = s.cfg.Traceparent(ctx)
	}
	trial, err := s.circuit.allow()
	if err != nil {
		return answer{}, err
	}
	a, err := s.send(ctx, cred, r)
	s.circuit.record(trial, err)
	return a, err
}

// send sends a request. If the server does not know the session, it creates a
// new one; if the server refuses the credential and there is a new one, it uses
// that; each at most once. The request is sent again in these cases, since it
// was not executed.
func (s *Source) send(ctx context.Context, cred *credential, r *request) (answer, error) {
	for missing, renewed := false, false; ; {
		ses, err := s.acquire(ctx, s.sessionKeyFor(r))
		if err != nil {
			return answer{}, err
		}
		own := *cred // what is left in the background keeps it when the next is read
		x := &exchange{Source: s, ses: ses, cred: &own, id: s.ids.Add(1), request: r, client: s.client(ses.sse, &own, nil)}
		x.setLevel(ctx)
		a, err := x.run(ctx)
		gone := errors.Is(err, errSessionGone)
		if gone || x.sessionSuspect(err) {
			s.drop(ses)
		}
		s.release(ses)
		switch {
		case gone && !missing:
			missing = true
		case gone:
			return a, action.Errorf(action.ErrUnavailable, sources.FaultRefused, "The server does not recognize its own new sessions.")
		case x.renewed && !renewed:
			renewed = true
			if err := s.renew(ctx, cred); err != nil {
				return a, err
			}
		default:
			a.stateless = ses.stateless
			return a, err
		}
	}
}

// sessionSuspect reports whether a refusal can be due to the session. Some
// servers send 400 instead of 404; since that is ambiguous the request is not
// sent again, but the next one gets a new session.
func (x *exchange) sessionSuspect(err error) bool {
	var e *action.Error
	return x.ses.id != "" && errors.As(err, &e) && e.Code == sources.FaultRefused && errors.Is(e.Kind, action.ErrUnavailable)
}

// run sends the request once. It ends with its caller, except that the rest of
// a stream is read for a moment longer, so that the connection can be reused.
func (x *exchange) run(caller context.Context) (answer, error) {
	var ctx context.Context
	ctx, x.stop = context.WithCancelCause(context.WithoutCancel(caller))
	release := context.AfterFunc(caller, func() { x.stop(context.Cause(caller)) })
	here, leave := context.WithCancel(ctx)
	x.askCtx = here
	x.registerCall(x)
	a, draining, err := x.roundTrip(ctx)
	x.unregisterCall(x)
	leave()
	release()
	if !draining {
		x.stop(nil)
	}
	if err != nil {
		x.cancelUpstream(caller)
	}
	return a, err
}

// roundTrip sends the request and reads the response. draining: the rest of a
// stream is being read in the background.
func (x *exchange) roundTrip(ctx context.Context) (a answer, draining bool, err error) {
	r, err := x.post(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// Once it has a connection the server can receive the request; net/http
		// only takes another connection if nothing was written.
		GetConn: func(string) { x.sent.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { x.sent.Store(true) },
	}), x.ses, x.request, x.id)
	if err != nil {
		return answer{}, false, x.transportError(ctx, action.ErrUnavailable, err)
	}
	resp, err := x.client.Do(r)
	if err != nil {
		kind := action.ErrUnavailable
		if x.sent.Load() {
			kind = action.ErrOutcomeUnknown
		}
		return answer{}, false, x.transportError(ctx, kind, err)
	}
	if status := resp.StatusCode; status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests { // the server works
		x.circuit.recordContact()
	}
	if resp.StatusCode != http.StatusOK {
		a, err = x.handleStatus(ctx, resp)
		return a, false, err
	}
	kind := resp.Header.Get("Content-Type")
	if kind != "application/json" { // most servers send just this
		kind, _, _ = mime.ParseMediaType(kind)
	}
	switch kind {
	case "application/json":
		a, err = x.readDocument(ctx, resp)
		return a, false, err
	case "text/event-stream":
		a, err = x.stream(ctx, resp)
		return a, err == nil, err
	default:
		resp.Body.Close() //nolint:errcheck,gosec // it is of no use
		return answer{}, false, protocolError("The server answered with content of the type %.60q instead of JSON or an event stream.", sources.Printable(kind, 60))
	}
}

// post makes the HTTP request for a request.
func (s *Source) post(ctx context.Context, ses *session, r *request, id int64) (*http.Request, error) {
	post, err := newPost(ctx, s.url.String(), r.body(id, ses, s.cfg.Version))
	if err == nil {
		r.setHeaders(post.Header, ses)
	}
	return post, err
}

func newPost(ctx context.Context, url string, body []byte) (*http.Request, error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json, text/event-stream")
	return post, nil
}

// handleStatus evaluates an error status. The body can contain the answer:
// newer servers send a matching status with JSON-RPC errors.
func (x *exchange) handleStatus(ctx context.Context, resp *http.Response) (answer, error) {
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	m, ok := parseMessage(raw)
	problem := m.problem
	if err != nil || !ok {
		problem = nil
	}
	if x.renewed, err = x.refused(ctx, x.cred.secretOrEmpty(), resp.StatusCode, resp.Header); err != nil {
		return answer{}, err
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && x.ses.id != "",
		resp.StatusCode == http.StatusBadRequest && errorCode(problem) == unsupportedVersion,

		// Servers based on the TypeScript SDK's examples answer an unknown session
		// with 400 instead of 404, before reading the request.
		resp.StatusCode == http.StatusBadRequest && x.ses.id != "" && !m.answers(x.id) && strings.Contains(strings.ToLower(errorText(problem)), "session"):
		return answer{}, errSessionGone
	case len(problem) > 0 && problem[0] == '{' && m.answers(x.id):
		return answer{problem: x.cred.clean(problem)}, nil
	}
	e := x.statusFault(resp.StatusCode, resp.Header)
	if e == nil {
		return answer{}, protocolError("The server accepted the request but sent no answer (%d).", resp.StatusCode)
	}
	e.RetryAfter = retryAfter(resp.Header)
	if text := errorText(problem); text != "" {
		e.Message += " It says: " + sources.Printable(x.cred.text(text), 200)
	}
	return answer{}, e
}

// unsupportedVersion is the code with which a server rejects the protocol
// version.
const unsupportedVersion = -32022

// readDocument reads a response that is the whole body.
func (x *exchange) readDocument(ctx context.Context, resp *http.Response) (answer, error) {
	defer resp.Body.Close()
	raw, err := readAll(resp)
	if err != nil {
		return answer{}, x.transportError(ctx, action.ErrOutcomeUnknown, err)
	}
	m, ok := parseMessage(raw)
	switch {
	case ok && string(m.id) == "null" && m.problem != nil && m.result == nil:
		// A server that could not even read the id of the request.
	case !ok || !m.answers(x.id):
		return answer{}, protocolError("The server's answer is not the expected JSON-RPC response.")
	}
	return x.answer(&m, len(raw))
}

// readAll reads the body into memory of the declared size, so that it is not copied
// while it grows. A server that declares too much gets no more than maxDeclared.
func readAll(resp *http.Response) ([]byte, error) {
	const maxDeclared = 64 << 10
	var b bytes.Buffer
	b.Grow(int(max(0, min(resp.ContentLength, maxDeclared))) + bytes.MinRead)
	_, err := b.ReadFrom(resp.Body)
	return b.Bytes(), err
}

func (x *exchange) answer(m *message, size int) (answer, error) {
	a := answer{size: int64(size)}
	switch {
	case m.problem != nil && m.result == nil:
		if len(m.problem) == 0 || m.problem[0] != '{' {
			return a, protocolError("The server's answer has an error that is not an object.")
		}
		a.problem = x.cred.clean(m.problem)
	case m.problem == nil && m.result != nil:
		a.raw, a.result = m.result, x.cred.clean(m.result)
	default:
		return a, protocolError("The server's answer has neither a result nor an error, or both.")
	}
	return a, nil
}

// cancelUpstream notifies a server with sessions that the caller no longer
// waits; without sessions, closing the request does.
func (x *exchange) cancelUpstream(caller context.Context) {
	if caller.Err() == nil || !x.sent.Load() || x.ses.stateless {
		return
	}
	x.running.Go(func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(caller), 2*time.Second)
		defer stop()
		x.sendNotification(ctx, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"the gateway stopped waiting"}}`, x.id))
	})
}

// sendNotification sends a message that has no response.
func (x *exchange) sendNotification(ctx context.Context, body []byte) {
	r, err := newPost(ctx, x.url.String(), body)
	if err != nil {
		return
	}
	sessionHeaders(r.Header, x.ses)
	resp, err := x.client.Do(r)
	if err != nil {
		x.cfg.Log.Debug("could not notify a server", "source", x.cfg.ID, "error", x.redactError(err))
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close() //nolint:errcheck,gosec // there is nothing in it for us
}

// errorCode returns the code of an error, or 0. Member names are compared
// exactly, unlike in encoding/json.
func errorCode(problem json.RawMessage) int64 {
	return parseInt(member(problem, "code"))
}

func errorText(problem json.RawMessage) string {
	text, _ := unquote(member(problem, "message"))
	return text
}
