package dashboard

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
)

const (
	outsideTimeout = 10 * time.Second // of one request to those who say who people are
	outsideBody    = 1 << 20
	outsidePause   = 10 * time.Second // in which nothing is fetched a second time
)

// restrictedTransport is the way to those who say who people are: to any host that the
// configured URL names, as providers keep their keys elsewhere, but only by
// https, to no redirect, and to loopback only where the configured URL is so.
type restrictedTransport struct {
	public, loopback *http.Transport // nil: not configured so
}

// newRestrictedClient returns a client for what a configured URL names.
func newRestrictedClient(g guard.Config, configured *url.URL) *http.Client {
	g.AllowLoopback = false
	o := restrictedTransport{public: guard.NewTransport(g)}
	if guard.Loopback(configured) {
		g.AllowLoopback = true
		o.loopback = guard.NewTransport(g)
	}
	return &http.Client{
		Transport: o, Timeout: outsideTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements [http.RoundTripper].
func (o restrictedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t := o.public
	switch {
	case o.loopback != nil && guard.Loopback(r.URL):
		t = o.loopback
	case r.URL.Scheme != "https":
		if r.Body != nil {
			_ = r.Body.Close() // it is not sent
		}
		return nil, action.NewError("upstream_blocked", r.URL.Host)
	}
	res, err := t.RoundTrip(r)
	if err == nil {
		res.Body = guard.LimitBody(res.Body, outsideBody)
	}
	return res, err
}

// cachingTransport fetches one address at most every ten seconds, and hands out meanwhile
// what it had: anybody can send a token that names a key nobody knows.
type cachingTransport struct {
	next http.RoundTripper
	now  func() time.Time

	mu     sync.Mutex
	tried  time.Time
	status int
	header http.Header
	body   []byte
	err    error
}

// RoundTrip implements [http.RoundTripper].
func (s *cachingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.tried.IsZero() || now.Sub(s.tried) >= outsidePause || now.Before(s.tried) {
		s.tried = now
		s.fetch(r)
	}
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{
		Status: http.StatusText(s.status), StatusCode: s.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: s.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(s.body)), ContentLength: int64(len(s.body)), Request: r,
	}, nil
}

func (s *cachingTransport) fetch(r *http.Request) {
	res, err := s.next.RoundTrip(r)
	if s.err = err; err != nil {
		return
	}
	defer res.Body.Close()
	s.status, s.header = res.StatusCode, res.Header
	s.body, s.err = io.ReadAll(res.Body)
}

// checkIssuer refuses a URL of somebody who would say who people are over an
// open line.
func checkIssuer(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !guard.Loopback(u)) {
		return nil, action.Errorf(action.ErrInvalid, "invalid_field", "%s must be an https URL, such as https://id.example.com, or http on this machine.", what)
	}
	return u, nil
}
