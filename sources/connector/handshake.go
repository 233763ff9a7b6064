package connector

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"slices"
	"time"

	"sallyport/sources"
)

// Steps implements [sources.Source]. What failed is the last of them.
func (s *Source) Steps() []sources.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.handshakeSteps, s.listSteps)
}

// connectTimings are the times of the steps to reach a server. The first
// connection counts.
type connectTimings struct {
	began             time.Time
	dns, connect, tls timing
	tlsVersion        string
}

// timing is the start and end of one step.
type timing struct{ from, to time.Time }

func (l *timing) start() {
	if l.from.IsZero() {
		l.from = time.Now()
	}
}

func (l *timing) end() {
	if l.to.IsZero() {
		l.to = time.Now()
	}
}

func (l *timing) duration() time.Duration {
	switch {
	case l.from.IsZero():
		return 0
	case l.to.IsZero(): // it never ended
		return time.Since(l.from)
	}
	return l.to.Sub(l.from)
}

// withTrace has the steps of a request noted.
func (s *handshakeTrace) withTrace(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	note := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	j := &s.timings
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { note(j.dns.start) },
		DNSDone:      func(httptrace.DNSDoneInfo) { note(j.dns.end) },
		ConnectStart: func(string, string) { note(j.connect.start) },
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				note(j.connect.end)
			}
		},
		TLSHandshakeStart: func() { note(j.tls.start) },
		TLSHandshakeDone: func(state tls.ConnectionState, err error) {
			note(j.tls.end)
			if err == nil {
				note(func() { j.tlsVersion = tls.VersionName(state.Version) })
			}
		},
	})
}

// steps are those of the handshake, which agreed on the version; without one
// it failed, and the step in which it did is the last.
func (s *handshakeTrace) steps(version string) []sources.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &s.timings
	list := []sources.Step{
		{Name: "dns", Took: j.dns.duration()},
		{Name: "connect", Took: j.connect.duration()},
		{Name: "tls", Took: j.tls.duration(), Detail: j.tlsVersion},
	}
	rest := time.Since(j.began)
	for _, step := range list {
		rest -= step.Took
	}
	list = append(list, sources.Step{Name: "handshake", Took: max(rest, 0), Detail: version})
	failed := func(n int) []sources.Step {
		list[n-1].Failed = true
		return list[:n]
	}
	reached := func(l timing) bool { return !l.from.IsZero() && !l.to.IsZero() }
	switch {
	case version != "":
		return list
	case reached(j.tls) && j.tlsVersion != "":
		return failed(4)
	case !j.tls.from.IsZero():
		return failed(3)
	case reached(j.connect):
		return failed(4)
	case !j.connect.from.IsZero():
		return failed(2)
	default:
		return failed(1)
	}
}

// listStep is the step of fetching one list. A list that the server does not know
// is an empty one.
func listStep(name string, from time.Time, n int, err error) sources.Step {
	failed := err != nil && !errors.Is(err, errNoMethod)
	return sources.Step{Name: name, Took: time.Since(from), Detail: fmt.Sprintf("%d listed", n), Failed: failed}
}

// maxRecordedBody is how much of an answer to a handshake is kept beside the SDK's
// reading of it, which has no tasks.
const maxRecordedBody = 256 << 10

// recordedBody records a response body as it is read.
type recordedBody struct {
	io.ReadCloser
	trace *handshakeTrace
	bytes []byte // guarded by the sight's mutex
}

// record keeps what is read of a body while the handshake is under way.
func (s *handshakeTrace) record(body io.ReadCloser) io.ReadCloser {
	if s == nil {
		return body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadlineErr == nil {
		return body
	}
	a := &recordedBody{ReadCloser: body, trace: s}
	s.bodies = append(s.bodies, a)
	return a
}

func (a *recordedBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.trace.mu.Lock()
	defer a.trace.mu.Unlock()
	if a.trace.deadlineErr != nil {
		a.bytes = append(a.bytes, p[:min(n, maxRecordedBody-len(a.bytes))]...)
	}
	return n, err
}

// runsTasks reports whether one of the answers, JSON or events, declares that
// tools are called as tasks where they want it.
func runsTasks(answers [][]byte) bool {
	for _, answer := range answers {
		if declaresTasks(answer) {
			return true
		}
		for line := range bytes.Lines(answer) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && declaresTasks(data) {
				return true
			}
		}
	}
	return false
}

func declaresTasks(message []byte) bool {
	var m struct {
		Result struct {
			Capabilities struct {
				Tasks struct {
					Requests struct {
						Tools struct {
							Call *struct{} `json:"call"`
						} `json:"tools"`
					} `json:"requests"`
				} `json:"tasks"`
			} `json:"capabilities"`
		} `json:"result"`
	}
	return json.Unmarshal(message, &m) == nil && m.Result.Capabilities.Tasks.Requests.Tools.Call != nil
}
