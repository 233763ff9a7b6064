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
	"slices"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// Bounds of one stream.
const (
	maxReplies = 200 // requests of the server that are answered
	maxAsking  = 16  // of them questions that are open at once
	maxResumes = 5   // without a new event in between
	maxRetry   = 10 * time.Second
)

// stream reads an event stream to the response, and resumes it if the server
// closed it after an event with an ID, as older servers may do to free the
// connection. Resuming repeats nothing.
func (x *exchange) stream(ctx context.Context, resp *http.Response) (answer, error) {
	var last event
	for resumes := 0; ; resumes++ {
		before := last.id
		a, done, err := x.events(ctx, resp, &last)
		switch {
		case done:
			return a, err
		case err != nil && ctx.Err() != nil, x.ses.stateless || last.id == "":
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return a, x.unanswered(ctx, err)
		}
		if last.id != before {
			resumes = 0
		}
		if resumes == maxResumes {
			return a, protocolError("The server closed its stream repeatedly before it had answered.")
		}
		if resp, err = x.resume(ctx, &last); err != nil { //nolint:bodyclose // events closes it, or drain
			return a, err
		}
	}
}

// unanswered reports a stream that ended before the answer. A timeout can be
// due to an unanswered question of the server.
func (x *exchange) unanswered(ctx context.Context, err error) error {
	err = x.transportError(ctx, action.ErrOutcomeUnknown, err)
	var e *action.Error
	if errors.As(err, &e) && e.Code == sources.FaultTimeout && x.replies.Load() > 0 {
		e.Err = fmt.Errorf("%w: %w", errContact, e.Err)
	}
	return err
}

// events reads one stream. done: nothing more is expected.
func (x *exchange) events(ctx context.Context, resp *http.Response, last *event) (a answer, done bool, err error) {
	ended := readEvents(resp.Body, func(e event) bool {
		if e.id != "" {
			last.id, last.retry = e.id, e.retry
		}
		m, ok := parseMessage(e.data)
		x.size += int64(len(e.data))
		switch {
		case x.size > x.cfg.MaxAnswer:
			err, done = x.tooLarge(action.ErrOutcomeUnknown), true
			return false
		case !ok:
			return true // a priming event, or the piece that a cut left
		case m.answers(x.id):
			a, err = x.answer(&m, int(x.size))
			done = true
			return false
		case m.method != nil:
			x.handleMessage(&m)
		}
		return true
	})
	if done && err == nil {
		x.drain(resp)
		return a, true, nil
	}
	resp.Body.Close() //nolint:errcheck,gosec // it is of no use any more
	if done {
		return a, true, err
	}
	if ended != nil {
		if e := x.transportError(ctx, action.ErrOutcomeUnknown, ended); code(e) == sources.FaultTooLarge {
			return a, true, e
		}
	}
	return a, false, ended
}

func code(err error) string { return action.Public(err).Code }

// drain reads the rest after the response, so that the connection can be
// reused; a server that continues is disconnected.
func (x *exchange) drain(resp *http.Response) {
	x.running.Go(func() {
		defer x.stop(nil)
		cut := time.AfterFunc(time.Second, func() { resp.Body.Close() }) //nolint:errcheck,gosec // it ends the read
		defer cut.Stop()
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
		resp.Body.Close() //nolint:errcheck,gosec // the answer is in hand
	})
}

// resume requests the rest of a stream.
func (x *exchange) resume(ctx context.Context, last *event) (*http.Response, error) {
	if pause(ctx, min(max(last.retry, 100*time.Millisecond), maxRetry)) != nil {
		return nil, interrupted(ctx, action.ErrOutcomeUnknown)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, x.url.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", last.id)
	sessionHeaders(r.Header, x.ses)
	resp, err := x.client.Do(r)
	if err != nil {
		return nil, x.transportError(ctx, action.ErrOutcomeUnknown, err)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		resp.Body.Close() //nolint:errcheck,gosec // it is not the stream
		return nil, protocolError("The server closed its stream before it had answered, and does not give the rest (%d).", resp.StatusCode)
	}
	return resp, nil
}

// handleMessage handles a message other than the response.
func (x *exchange) handleMessage(m *message) {
	method, _ := unquote(m.method)
	switch {
	case m.id != nil:
		x.handleRequest(x.askCtx, m, method)
	case x.handleNotice(m, method), x.request.caller == nil:
	case method == "notifications/progress":
		x.progress(m.params)
	case method == "notifications/message":
		x.log(m.params)
	}
}

// progress passes on a progress notification of this request without the token,
// which is internal.
func (x *exchange) progress(params []byte) {
	members, ok := sources.Members(params)
	if !ok {
		return
	}
	if told, ok := unquote(sources.Lookup(params, members, "progressToken")); !ok || told != progressToken(x.id) {
		return
	}
	x.request.caller.Progress(x.cred.clean(sources.RemoveMember(params, "progressToken")))
}

// unquote decodes a JSON string.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	content := raw[1 : len(raw)-1]
	if bytes.IndexByte(content, '\\') < 0 {
		return string(content), true
	}
	text, ok := jsonlex.Unquote(nil, content)
	return string(text), ok
}

// severity orders log levels, the least severe first; -1: unknown to MCP.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// level returns the minimum level of log messages for the caller; empty: not
// set.
func (r *request) level() string {
	if r.caller == nil {
		return ""
	}
	if level := r.caller.LogLevel(); severity(level) >= 0 {
		return level
	}
	return ""
}

// log passes on a log message, unless the caller wants only more severe ones:
// other callers on the same session can want more.
func (x *exchange) log(params []byte) {
	members, ok := sources.Members(params)
	if !ok || x.request.caller == nil {
		return
	}
	said, _ := unquote(sources.Lookup(params, members, "level"))
	if want := x.request.level(); want != "" && severity(said) >= 0 && severity(said) < severity(want) {
		return
	}
	x.request.caller.Log(slices.Clone(x.cred.clean(params)))
}

// Timeouts of setting the log level.
const (
	levelWait    = time.Second // of the call that needs it
	levelTimeout = 5 * time.Second
)

// setLevel makes the session send log messages at the level of the request's
// caller, and waits briefly for that. It never raises the threshold for other
// callers.
func (x *exchange) setLevel(ctx context.Context) {
	if want := x.request.level(); want == "" || x.ses.stateless || !x.ses.capabilities.Logging || !x.raiseLevel(want) {
		return
	}
	told := make(chan struct{})
	x.running.Go(func() {
		defer close(told)
		x.syncLevel()
	})
	waitFor(ctx, told, levelWait)
}

// raiseLevel records the level of a session, and reports whether the caller
// must send it: it is more verbose than before, and no other caller is sending
// it.
func (x *exchange) raiseLevel(level string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	ses := x.ses
	if ses.levelFailed || ses.level != "" && severity(ses.level) <= severity(level) {
		return false
	}
	ses.level = level
	first := !ses.settingLevel
	ses.settingLevel = true
	return first
}

// syncLevel sends the level until the server has the latest one. After a
// failure it is not sent to this session again.
func (x *exchange) syncLevel() {
	for told := ""; ; {
		x.mu.Lock()
		want := x.ses.level
		if told == want {
			x.ses.settingLevel = false
			x.mu.Unlock()
			return
		}
		x.mu.Unlock()
		if err := x.sendLevel(want); err != nil {
			x.cfg.Log.Debug("could not request log messages from a server", "source", x.cfg.ID, "error", x.redactError(err))
			x.mu.Lock()
			x.ses.levelFailed = true
			x.mu.Unlock()
			return
		}
		told = want
	}
}

func (x *exchange) sendLevel(level string) error {
	ctx, stop := context.WithTimeout(x.ctx, levelTimeout)
	defer stop()
	set := &exchange{
		Source: x.Source, ses: x.ses, cred: x.cred, id: x.ids.Add(1), client: x.client,
		request: &request{method: "logging/setLevel", params: json.RawMessage(`{"level":"` + level + `"}`)},
	}
	a, err := set.run(ctx)
	if err == nil && a.problem != nil {
		err = errors.New(errorText(a.problem))
	}
	return err
}
