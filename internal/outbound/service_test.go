package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
)

// served starts a server and returns a client for it and its pool.
func served(t *testing.T, c outbound.Config, h http.HandlerFunc) (*outbound.Client, *outbound.Pool) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	p := outbound.New(c)
	t.Cleanup(p.Close)
	return p.Client("one", parse(t, s.URL)), p
}

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// piped is a real server whose connections live in memory, so that it has its
// place in a bubble of package synctest.
type piped struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *piped) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *piped) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *piped) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l *piped) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, errors.New("nobody listens")
	}
}

// bubble starts a server in a bubble and returns a pool that dials it,
// whatever the address.
func bubble(t *testing.T, c outbound.Config, h http.HandlerFunc) *outbound.Pool {
	t.Helper()
	l := &piped{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: h}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	p := outbound.New(c)
	p.DialWith(l.dial)
	t.Cleanup(func() { p.Close(); _ = s.Close(); wg.Wait() })
	return p
}

func get(path string) *outbound.Request {
	return &outbound.Request{Method: "GET", Path: path, Repeatable: true}
}

func post(path string) *outbound.Request {
	return &outbound.Request{Method: "POST", Path: path, Body: []byte("{}")}
}

// fails checks an error's kind and code, that its message has says in it, and
// that no secret is in any error of its chain.
func fails(t *testing.T, err, kind error, code, says string) {
	t.Helper()
	var e *action.Error
	if !errors.As(err, &e) || !errors.Is(err, kind) || e.Code != code || !strings.Contains(e.Message, says) {
		t.Fatalf("got %v; want %v, %q and %q in it", err, kind, code, says)
	}
	for _, other := range []error{action.ErrUnavailable, action.ErrOutcomeUnknown} {
		if !errors.Is(kind, other) && errors.Is(err, other) {
			t.Errorf("%v also is %v", err, other)
		}
	}
	walk(err, func(err error) {
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "canary") || strings.Contains(text, "Y2FuYXJ5") {
			t.Errorf("a secret is in %s", text)
		}
	})
}

// retryAfter reads the Retry-After header, seconds or a date; zero: there is
// none.
func retryAfter(err error) time.Duration { return action.Public(err).RetryAfter }

func walk(err error, visit func(error)) {
	if err == nil {
		return
	}
	visit(err)
	switch u := err.(type) { //nolint:errorlint // the chain itself is looked at
	case interface{ Unwrap() error }:
		walk(u.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, e := range u.Unwrap() {
			walk(e, visit)
		}
	}
}
