package connector_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// TestCircuit has a server that is away for a while.
func TestCircuit(t *testing.T) {
	var away atomic.Bool
	var knocks atomic.Int64
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, `{"content":[]}`) })
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		knocks.Add(1)
		if away.Load() {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		u.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	s := open(t, front.URL, func(c *connector.Config) { c.TripAfter, c.Backoff = 3, 10*time.Second })
	clock := s.Clock()
	fails := func(code string, asked bool) (message string, after time.Duration) {
		t.Helper()
		before := knocks.Load()
		_, err := s.Call(t.Context(), "tool", nil, nobody())
		wantFault(t, err, action.ErrUnavailable, code)
		if got := knocks.Load() > before; got != asked {
			t.Errorf("the server was asked: %t, want %t", got, asked)
		}
		return action.Public(err).Message, action.Public(err).RetryAfter
	}
	wantOpen := func(want bool) {
		t.Helper()
		if open, until := s.Circuit(); open != want || open == until.IsZero() {
			t.Errorf("the circuit is open: %t, until %s", open, until)
		}
	}
	away.Store(true)
	for range 3 {
		wantOpen(false)
		fails(sources.FaultFailed, true)
	}
	wantOpen(true)
	message, after := fails(sources.FaultOpen, false)
	if after != 10*time.Second || !strings.Contains(message, "again in 10s") || !strings.Contains(message, "503") {
		t.Errorf("it says %q, retry after %s", message, after)
	}
	_, err := s.List(t.Context())
	wantFault(t, err, action.ErrUnavailable, sources.FaultOpen)

	clock(10 * time.Second)
	wantOpen(false)
	fails(sources.FaultFailed, true) // it may try once
	wantOpen(true)
	if _, after := fails(sources.FaultOpen, false); after != 20*time.Second {
		t.Errorf("retry after %s", after)
	}
	for range 5 {
		clock(time.Minute)
		fails(sources.FaultFailed, true)
	}
	if _, after := fails(sources.FaultOpen, false); after != time.Minute {
		t.Errorf("retry after %s", after)
	}

	away.Store(false)
	clock(time.Minute)
	if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil {
		t.Fatal(err)
	}
	wantOpen(false)
}

// TestCircuitLetsOneThrough has many calls at the end of the pause.
func TestCircuitLetsOneThrough(t *testing.T) {
	var knocks atomic.Int64
	var slow atomic.Bool
	gate := make(chan struct{})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			knocks.Add(1)
			if slow.Load() {
				<-gate
			}
			_ = c.Close()
		}
	}()
	s := open(t, "http://"+l.Addr().String(), func(c *connector.Config) { c.TripAfter = 1 })
	clock := s.Clock()
	_, err = s.Call(t.Context(), "tool", nil, nobody())
	wantFault(t, err, action.ErrUnavailable, sources.FaultUnreachable)
	clock(time.Minute)
	slow.Store(true)
	before := knocks.Load()
	var refused atomic.Int64
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := s.Call(t.Context(), "tool", nil, nobody())
			if errors.Is(err, action.ErrUnavailable) && action.Public(err).Code == sources.FaultOpen {
				if refused.Add(1) == 19 {
					close(gate)
				}
			}
		})
	}
	group.Wait()
	if refused.Load() != 19 || knocks.Load() == before {
		t.Errorf("%d were refused, %d connections", refused.Load(), knocks.Load())
	}
}

// TestCircuitCountsFailures, not those who were told of one, nor callers who
// left, nor a server that answers, if badly.
func TestCircuitCountsFailures(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	s := open(t, gone.URL, func(c *connector.Config) { c.TripAfter = 50 })
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 100 {
		_, _ = s.Call(ctx, "tool", nil, nobody())
	}
	if open, _ := s.Circuit(); open {
		t.Error("callers who left opened the circuit")
	}
	// Many wait for one handshake, which fails once.
	together := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-together
		http.Error(w, "x", http.StatusBadGateway)
	}))
	t.Cleanup(slow.Close)
	s = open(t, slow.URL, func(c *connector.Config) { c.TripAfter = 3 })
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { _, _ = s.Call(t.Context(), "tool", nil, nobody()) })
	}
	time.AfterFunc(100*time.Millisecond, func() { close(together) })
	group.Wait()
	if open, _ := s.Circuit(); open {
		t.Error("one failure was counted many times")
	}
	u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, _ *post) { http.Error(w, "x", http.StatusBadGateway) })
	s = open(t, u.URL, nil)
	for range 10 {
		_, err := s.Call(t.Context(), "tool", nil, nobody())
		wantFault(t, err, action.ErrOutcomeUnknown, sources.FaultFailed)
	}
}
