package connector

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"sallyport/action"
)

// event is one server-sent event, as far as it matters here.
type event struct {
	name  string        // its type; empty: not given
	data  []byte        // good until the next event
	id    string        // the last one that the stream gave
	retry time.Duration // zero: not given
}

// readEvents calls f for every event that has data, until f returns false or
// the stream ends, cleanly or not. An event that the stream's end cut short
// is given to f too: what it is worth shows from its JSON.
func readEvents(r io.Reader, f func(event) bool) error {
	p := eventParser{lines: bufio.NewReaderSize(r, 32<<10), first: true}
	for {
		line, err := p.line()
		if err == nil || len(line) > 0 {
			if done := p.take(line); done && !p.dispatch(f) {
				return nil
			}
		}
		if err == nil {
			continue
		}
		if p.has && !p.dispatch(f) || errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

type eventParser struct {
	lines *bufio.Reader
	long  []byte // of a line that does not fit the reader
	first bool   // no line was read yet
	skip  bool   // the last line ended in CR: an LF is part of its end

	event
	has bool // the event has data
}

// line returns the next line without its end, which is LF, CR or both.
func (p *eventParser) line() ([]byte, error) {
	p.long = p.long[:0]
	for {
		chunk, err := p.lines.Peek(1)
		if err != nil {
			return p.long, err
		}
		if p.skip && chunk[0] == '\n' {
			p.skip = false
			_, _ = p.lines.Discard(1)
			continue
		}
		p.skip = false
		chunk, _ = p.lines.Peek(p.lines.Buffered())
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			p.long = append(p.long, chunk...)
			_, _ = p.lines.Discard(len(chunk))
			continue
		}
		p.skip = chunk[end] == '\r'
		line := chunk[:end]
		if len(p.long) > 0 {
			p.long = append(p.long, line...)
			line = p.long
		}
		// Good until the reader is asked again, which take does not.
		_, _ = p.lines.Discard(end + 1)
		return line, nil
	}
}

// take reads one line and reports whether it ends an event that has data.
func (p *eventParser) take(line []byte) bool {
	if p.first {
		p.first = false
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if len(line) == 0 {
		if !p.has {
			p.name = ""
		}
		return p.has
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if p.has {
			p.data = append(p.data, '\n')
		}
		p.data, p.has = append(p.data, value...), true
	case "event":
		if p.name = "message"; string(value) != p.name { // most are, and cost no allocation
			p.name = string(value)
		}
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			p.retry = time.Duration(ms) * time.Millisecond
		}
	}
	return false
}

func (p *eventParser) dispatch(f func(event) bool) bool {
	more := f(p.event)
	p.name, p.data, p.has = "", p.data[:0], false
	return more
}

// openSessionStream opens the stream of a session.
func (s *Source) openSessionStream(ctx context.Context, ses *session) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	sessionHeaders(r.Header, ses)
	return s.openStream(ctx, r, ses)
}

// openStream sends a request whose response is an unbounded stream.
func (s *Source) openStream(ctx context.Context, r *http.Request, ses *session) (*http.Response, error) {
	cred, err := s.credential(ctx)
	if err != nil {
		return nil, err
	}
	client := s.client(ses.sse, &cred, nil)
	client.Transport.(*authorizer).unbounded = true //nolint:forcetypeassert // it was made so
	resp, err := client.Do(r)
	if err != nil {
		return nil, s.transportError(ctx, action.ErrUnavailable, err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
	}
	resp.Body.Close() //nolint:errcheck,gosec // it is not the stream
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		if _, err := s.refused(ctx, cred.secretOrEmpty(), status, resp.Header); err != nil {
			return nil, err
		}
		return nil, s.statusFault(status, resp.Header)
	case status == http.StatusNotFound && ses.id != "":
		return nil, errSessionGone
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500 && status != http.StatusNotImplemented:
		e := s.statusFault(status, resp.Header)
		e.RetryAfter = retryAfter(resp.Header)
		s.circuit.recordLimit(e)
		return nil, e
	}
	return nil, errNoStream
}

// readStream reads a stream to its end, without a time limit: the transport
// detects dead peers. Each event is bounded.
func (s *Source) readStream(resp *http.Response, hear func(m *message, method string)) error {
	defer resp.Body.Close()
	body := &eventLimitReader{body: resp.Body, limit: s.cfg.MaxAnswer, left: s.cfg.MaxAnswer}
	err := readEvents(body, func(ev event) bool {
		body.left = body.limit
		m, ok := parseMessage(ev.data)
		if !ok || m.method == nil && m.id == nil {
			return true
		}
		method, _ := unquote(m.method)
		hear(&m, method)
		return true
	})
	if err == nil {
		err = errors.New("the stream ended")
	}
	return err
}

var errEventTooLarge = errors.New("an event is too large")

// eventLimitReader limits the bytes of one event.
type eventLimitReader struct {
	body interface {
		Read([]byte) (int, error)
	}
	left, limit int64
}

func (r *eventLimitReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errEventTooLarge
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}
