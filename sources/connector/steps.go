package connector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http/httptrace"
	"slices"
	"time"

	"sallyport/sources"
)

// Steps implements [sources.Source]. What failed is the last of them.
func (s *Source) Steps() []sources.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.shaken, s.listed)
}

// journey are the steps of getting to a server. The first connection counts.
type journey struct {
	began             time.Time
	dns, connect, tls lap
	secured           string
}

// lap is the time of one step.
type lap struct{ from, to time.Time }

func (l *lap) start() {
	if l.from.IsZero() {
		l.from = time.Now()
	}
}

func (l *lap) end() {
	if l.to.IsZero() {
		l.to = time.Now()
	}
}

func (l *lap) took() time.Duration {
	switch {
	case l.from.IsZero():
		return 0
	case l.to.IsZero(): // it never ended
		return time.Since(l.from)
	}
	return l.to.Sub(l.from)
}

// traced has the steps of a request noted.
func (s *sight) traced(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	note := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	j := &s.journey
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
				note(func() { j.secured = tls.VersionName(state.Version) })
			}
		},
	})
}

// steps are those of the handshake, which agreed on the version; without one
// it failed, and the step in which it did is the last.
func (s *sight) steps(version string) []sources.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &s.journey
	list := []sources.Step{
		{Name: "dns", Took: j.dns.took()},
		{Name: "connect", Took: j.connect.took()},
		{Name: "tls", Took: j.tls.took(), Detail: j.secured},
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
	reached := func(l lap) bool { return !l.from.IsZero() && !l.to.IsZero() }
	switch {
	case version != "":
		return list
	case reached(j.tls) && j.secured != "":
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
