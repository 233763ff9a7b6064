package guard

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"sallyport/action"
)

// maxHops bounds how many redirects of one request are followed.
const maxHops = 3

// Config is what the operator says about connections to the outside.
type Config struct {
	// Allow opens addresses that are refused otherwise. A metadata address
	// is opened only by a prefix that is just it. Nil: none.
	Allow []netip.Prefix
	// AllowLoopback opens loopback. [Client] sets it by its URL.
	AllowLoopback bool
	// DialTimeout bounds making a connection. Zero: 10 s.
	DialTimeout time.Duration
	// Resolver looks names up. Nil: the system's.
	Resolver *net.Resolver
	// TLS is for tests that have a certificate authority of their own. Nil:
	// the system's.
	TLS *tls.Config
}

// NewTransport returns a transport that checks each address at the moment it
// connects. Its owner calls CloseIdleConnections when it is done with it.
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

// Client returns a client for the configured URL, for the credential that
// belongs to it: it speaks to the URL's host and port and refuses any other,
// follows at most three redirects there, and may use loopback only when the
// URL names loopback, whatever c says. Its owner calls CloseIdleConnections
// when it is done with it.
func Client(c Config, configured *url.URL) *http.Client {
	c.AllowLoopback = Loopback(configured)
	return Over(NewTransport(c), configured)
}

// Over returns a client as [Client] does, over a transport that others use too.
// Whether loopback may be dialled is the transport's: one that allows it is for
// URLs that name loopback only.
func Over(t *http.Transport, configured *url.URL) *http.Client {
	return &http.Client{
		Transport:     &bound{configured: *configured, host: Host(configured), next: t},
		CheckRedirect: checkRedirect,
	}
}

// bound is a transport for one host.
type bound struct {
	configured url.URL
	host       string
	next       *http.Transport
}

func (b *bound) RoundTrip(r *http.Request) (*http.Response, error) {
	if !b.leadsThere(r.URL) {
		if r.Body != nil {
			r.Body.Close() //nolint:errcheck,gosec // the request is not sent
		}
		return nil, refusedRequest(action.ErrUnavailable, "The request leads away from the host that it is configured for.")
	}
	return b.next.RoundTrip(r)
}

func (b *bound) leadsThere(u *url.URL) bool {
	if u.Scheme != b.configured.Scheme && u.Scheme != "https" {
		return false
	}
	return u.Host == b.configured.Host && u.Scheme == b.configured.Scheme || Host(u) == b.host
}

// CloseIdleConnections closes connections that nobody uses.
func (b *bound) CloseIdleConnections() { b.next.CloseIdleConnections() }

// checkRedirect judges one hop. The credential is bound to the host, and some
// headers that carry one follow a redirect wherever it leads.
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
