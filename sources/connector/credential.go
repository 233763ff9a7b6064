package connector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/redact"
	"sallyport/sources"
)

// credential authorizes one request. The zero value is none.
type credential struct {
	value string // of the header
	*cleaner
	previous []string // earlier secrets of the same request
}

// cleaner redacts a secret, and earlier ones, from what the server sends. It is
// expensive to build, and secrets rarely change.
type cleaner struct {
	secret   string
	replacer *redact.Replacer
}

func newCleaner(secret string, before ...string) *cleaner {
	return &cleaner{secret: secret, replacer: redact.NewReplacer(append(before, secret)...)}
}

// clean returns raw without the secret; it may be raw itself.
func (c *cleaner) clean(raw []byte) []byte {
	if c == nil || len(raw) == 0 {
		return raw
	}
	return c.replacer.Replace(raw)
}

func (c *cleaner) text(s string) string { return string(c.clean([]byte(s))) }

// secrets returns all secrets of the request, to be redacted from its result.
func (c *credential) secrets() []string {
	if c.cleaner == nil {
		return c.previous
	}
	return append(slices.Clone(c.previous), c.secret)
}

// secretOrEmpty returns the secret, if there is one.
func (c *credential) secretOrEmpty() string {
	if c.cleaner == nil {
		return ""
	}
	return c.secret
}

// renew reads the credential again.
func (s *Source) renew(ctx context.Context, cred *credential) error {
	next, err := s.credential(ctx)
	if err != nil {
		return err
	}
	next.previous = cred.secrets()
	if next.cleaner != nil {
		next.cleaner = newCleaner(next.secret, next.secrets()...)
	}
	*cred = next
	return nil
}

// refused reports a refused credential to Config.Refused.
func (s *Source) refused(ctx context.Context, used string, status int, h http.Header) (again bool, err error) {
	if s.cfg.Refused == nil || status != http.StatusUnauthorized && status != http.StatusForbidden {
		return false, nil
	}
	return s.cfg.Refused(ctx, used, status, h.Values("Www-Authenticate"))
}

// credential reads the secret and checks that it was set for this server.
func (s *Source) credential(ctx context.Context) (credential, error) {
	if s.cfg.Secret == nil {
		return credential{}, nil
	}
	value, host, err := s.cfg.Secret(ctx)
	if shown := (*action.Error)(nil); errors.As(err, &shown) && errors.Is(err, action.ErrUnavailable) {
		return credential{}, err // its keeper knows what is to be done
	}
	if err != nil {
		return credential{}, credentialError("The connector's secret cannot be read. Set it again.", err)
	}
	if got, want := s.hostOf(host), guard.Host(s.url); got != want {
		return credential{}, credentialError(fmt.Sprintf("The connector's secret was set for the host %s and is not sent to %s; set it again for that host.", got, want), nil)
	}
	c := credential{value: s.cfg.Prefix + value}
	if value == "" || strings.ContainsFunc(c.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return credential{}, credentialError("The connector's secret is empty or has line breaks or control characters in it; set it again.", nil)
	}
	switch last := s.cleaner.Load(); {
	case last == nil:
		c.cleaner = newCleaner(value)
	case last.secret != value:
		c.cleaner = newCleaner(value, last.secret)
	default:
		c.cleaner = last
		return c, nil
	}
	s.cleaner.Store(c.cleaner)
	return c, nil
}

// hostOf normalizes the host that a secret was set for as [guard.Host] does.
func (s *Source) hostOf(host string) string {
	u, err := url.Parse(s.url.Scheme + "://" + host)
	if err != nil || host == "" {
		return host
	}
	return guard.Host(u)
}

func credentialError(message string, cause error) error {
	e := action.Errorf(action.ErrUnavailable, sources.FaultCredential, "%s", message)
	e.Err = cause
	return e
}

// authorizer is the transport that adds the credential. The client below it
// connects to a single host, also after redirects.
type authorizer struct {
	source    *Source
	sse       *sseSession     // takes the requests; nil: they go to the server
	fixed     *credential     // nil: read for each request
	trace     *handshakeTrace // nil: nobody watches
	unbounded bool            // the response is a stream; its reader bounds each event
}

func (a *authorizer) RoundTrip(r *http.Request) (*http.Response, error) {
	err := a.trace.timedOut()
	cred := a.fixed
	if err == nil && cred == nil {
		var read credential
		if read, err = a.source.credential(r.Context()); err != nil {
			a.trace.observe(nil, err, "")
		}
		cred = &read
	}
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	r = r.WithContext(a.trace.withTrace(r.Context()))
	r.Header = maps.Clone(r.Header) // the caller's stays as it is
	for name, value := range a.source.cfg.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("User-Agent", "sallyport/"+a.source.cfg.Version)
	if cred.value != "" {
		r.Header.Set(a.source.cfg.Header, cred.value)
	}
	next := a.source.http.Transport
	if a.sse != nil {
		next = a.sse
	}
	resp, err := next.RoundTrip(r)
	a.trace.observe(resp, err, cred.secretOrEmpty())
	if err == nil && !a.unbounded {
		resp.Body = a.trace.record(guard.LimitBody(resp.Body, a.source.cfg.MaxAnswer))
	}
	return resp, err
}

// client returns the HTTP client of a session, by HTTP+SSE if sse is not nil. It
// uses the credential, nil: whatever it is at each request.
func (s *Source) client(sse *sseSession, cred *credential, watch *handshakeTrace) *http.Client {
	return &http.Client{
		Transport:     &authorizer{source: s, sse: sse, fixed: cred, trace: watch},
		CheckRedirect: s.http.CheckRedirect,
	}
}
