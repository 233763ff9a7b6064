package guard

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"sallyport/action"
)

// maxHops bounds the redirects that one request follows.
const maxHops = 3

// Config restricts outbound connections.
type Config struct {
	// Allow permits addresses that are blocked otherwise. A metadata address is
	// only permitted by a prefix for exactly that address. Nil: none.
	Allow []netip.Prefix
	// AllowLoopback permits loopback. [Client] sets it from its URL.
	AllowLoopback bool
	// DialTimeout bounds connecting. Zero: 10 s.
	DialTimeout time.Duration
	// Resolver resolves names. Nil: the system's.
	Resolver *net.Resolver
	// TLS is for tests with their own certificate authority. Nil: the system's.
	TLS *tls.Config
}

// NewTransport returns a transport that checks each address when it connects.
// The caller must call CloseIdleConnections after use.
func NewTransport(c Config) *http.Transport {
	timeout := c.DialTimeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	dialer := &net.Dialer{
		Timeout: timeout, KeepAlive: 30 * time.Second, Resolver: c.Resolver,
		Control: newChecker(c.Allow, c.AllowLoopback).control,
	}
	return &http.Transport{
		Proxy:               nil,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     c.TLS.Clone(),
		TLSHandshakeTimeout: timeout,
		ForceAttemptHTTP2:   true,
		// A silent stream may be a call that someone is to approve, or a dead
		// peer: ping to tell them apart.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		// One gateway speaks to few hosts, many requests at a time.
		MaxIdleConnsPerHost:    256,
		MaxIdleConns:           1024,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// Client returns a client for the configured URL and its credential: it
// connects only to the URL's host and port, follows at most three redirects
// there, and uses loopback only if the URL names it, whatever c says. The
// caller must call CloseIdleConnections after use.
func Client(c Config, configured *url.URL) *http.Client {
	c.AllowLoopback = Loopback(configured)
	return Over(NewTransport(c), configured)
}

// Over returns a client like [Client] with a shared transport. The transport
// decides whether loopback is permitted: one that permits it is only for URLs
// that name loopback.
func Over(t *http.Transport, configured *url.URL) *http.Client {
	return &http.Client{
		Transport:     &hostTransport{configured: *configured, host: Host(configured), next: t},
		CheckRedirect: checkRedirect,
	}
}

// hostTransport is a transport for one host.
type hostTransport struct {
	configured url.URL
	host       string
	next       *http.Transport
}

func (b *hostTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	u, to := r.URL, &b.configured
	same := u.Host == to.Host && u.Scheme == to.Scheme || Host(u) == b.host
	if !same || u.Scheme != to.Scheme && u.Scheme != "https" {
		if r.Body != nil {
			r.Body.Close() //nolint:errcheck,gosec // the request is not sent
		}
		return nil, refusedRequest(action.ErrUnavailable, "The request leads away from the host that it is configured for.")
	}
	return b.next.RoundTrip(r)
}

// CloseIdleConnections closes unused connections.
func (b *hostTransport) CloseIdleConnections() { b.next.CloseIdleConnections() }

// checkRedirect validates one redirect. The credential is bound to the host,
// and some headers that carry one are forwarded with every redirect.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	switch {
	case next.Method != first.Method:
		// 301, 302 and 303 say "look there" after the work may have been done.
		return refusedRequest(action.ErrOutcomeUnknown, "The service answered with a redirect that would turn the %s into a %s; set the URL to where it leads.", first.Method, next.Method)
	case len(via) > maxHops:
		return refusedRequest(action.ErrUnavailable, "The service redirects more than %d times; set the URL to where it ends.", maxHops)
	case next.URL.Scheme != "http" && next.URL.Scheme != "https":
		return refusedRequest(action.ErrUnavailable, "The service redirects to something that is not http or https.")
	case last.URL.Scheme == "https" && next.URL.Scheme != "https":
		return refusedRequest(action.ErrUnavailable, "The service redirects from https to http, where the credential could be read on the way.")
	case Host(next.URL) != Host(first.URL):
		return refusedRequest(action.ErrUnavailable, "The service redirects to %.200q, another host or port, which may not receive its credential; set the URL to where it leads.", next.URL.Host)
	case next.URL.User != nil:
		return refusedRequest(action.ErrUnavailable, "The service redirects to a URL with a user in it.")
	}
	return nil
}

func refusedRequest(kind error, format string, args ...any) error {
	return action.Errorf(kind, "redirect_refused", format, args...).WithCause(fmt.Errorf("%w: redirect", ErrBlocked))
}

// OperatorClient returns a client for a URL that the operator chose, which may lead to the
// given addresses even if they are private; none: to any. Cloud metadata services are
// reached only by prefixes of exactly their addresses.
func OperatorClient(u *url.URL, allow ...string) *http.Client {
	var c Config
	if len(allow) == 0 {
		allow = []string{"0.0.0.0/0", "::/0"}
	}
	for _, prefix := range allow {
		c.Allow = append(c.Allow, netip.MustParsePrefix(prefix))
	}
	c.AllowLoopback = Loopback(u)
	t := NewTransport(c)
	t.ResponseHeaderTimeout = time.Minute // after the request was sent
	t.DisableCompression = true           // the size of a file is that of the response
	return Over(t, u)
}

// LimitBody returns body with an error instead of anything beyond n bytes: an
// [*action.Error] of kind ErrTooLarge with the code "body_too_large". A
// truncated body must never look complete.
func LimitBody(body io.ReadCloser, n int64) io.ReadCloser {
	return &limitedReader{body: body, left: n, limit: n}
}

type limitedReader struct {
	body        io.ReadCloser
	left, limit int64
	err         error // returned by every later read
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.err != nil || len(p) == 0 {
		return 0, l.err
	}
	// One byte more than is left tells an end from an excess.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.body.Read(p)
	if int64(n) > l.left {
		n = int(l.left)
		err = action.NewError("body_too_large", l.limit)
	}
	l.left -= int64(n)
	l.err = err
	return n, err
}

func (l *limitedReader) Close() error { return l.body.Close() }
