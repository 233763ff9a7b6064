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
	outsideTimeout = 10 * time.Second // of one request to an identity provider
	outsideBody    = 1 << 20
	outsidePause   = 10 * time.Second // between two fetches of an address
)

// restrictedTransport reaches identity providers. Providers keep their keys on
// other hosts, so any host is allowed, but only over https, without redirects,
// and loopback only if the configured URL is a loopback address.
type restrictedTransport struct {
	public, loopback *http.Transport // nil: not allowed
}

// newRestrictedClient returns a client for the provider at a configured URL.
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

// cachingTransport fetches an address at most every ten seconds and repeats its
// last response meanwhile: anyone can send a token with an unknown key ID, and
// each would trigger a fetch.
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

// checkIssuer refuses a provider URL without TLS, unless it is on this machine.
func checkIssuer(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !guard.Loopback(u)) {
		return nil, action.Errorf(action.ErrInvalid, "invalid_field", "%s must be an https URL, such as https://id.example.com, or http on this machine.", what)
	}
	return u, nil
}
