package connector_test

import (
	"context"
	"errors"
	"fmt"
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
	if after != 10*time.Second || !strings.Contains(message, "retries in 10s") || !strings.Contains(message, "503") {
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
// left.
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
}

// TestCircuitOfFailingServer has a server that takes part in handshakes, and
// fails at calls.
func TestCircuitOfFailingServer(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request, *post) {
		return func(w http.ResponseWriter, _ *http.Request, _ *post) { w.WriteHeader(code) }
	}
	begin := func(then func(http.ResponseWriter, *http.Request, *post)) func(http.ResponseWriter, *http.Request, *post) {
		return func(w http.ResponseWriter, r *http.Request, p *post) {
			stream(w)
			then(w, r, p)
		}
	}
	abort := func(http.ResponseWriter, *http.Request, *post) { panic(http.ErrAbortHandler) }
	hang := func(_ http.ResponseWriter, r *http.Request, _ *post) { <-r.Context().Done() }
	for _, era := range eras {
		for _, test := range []struct {
			name  string
			tell  func(http.ResponseWriter, *http.Request, *post)
			sent  int // calls, of ten
			clear bool
		}{
			{"503", status(503), 3, false},
			{"500", status(500), 3, false},
			{"408", status(408), 3, false},
			{"lost connection", abort, 3, false},
			{"lost stream", begin(abort), 3, false},
			{"timeout", hang, 3, false},
			{"timeout of a stream", begin(hang), 3, false},
			{"400", status(400), 10, true},
			{"429", status(429), 10, false},
			{"error", func(w http.ResponseWriter, _ *http.Request, p *post) { fail(w, p, `{"code":-32603,"message":"x"}`) }, 10, true},
			{"broken answer", func(w http.ResponseWriter, _ *http.Request, p *post) { fmt.Fprint(w, "{") }, 10, false},
		} {
			t.Run(era.name+"/"+test.name, func(t *testing.T) {
				u := newUpstream(t, era.stateless, func(w http.ResponseWriter, r *http.Request, p *post) {
					switch {
					case p.Method != "tools/call":
						w.WriteHeader(http.StatusAccepted)
					case p.Params.Name == "good":
						respond(w, p, `{"content":[]}`)
					case p.Params.Name == "503":
						w.WriteHeader(http.StatusServiceUnavailable)
					default:
						test.tell(w, r, p)
					}
				})
				s := open(t, u.URL, func(c *connector.Config) { c.TripAfter, c.Backoff = 3, time.Minute })
				call := func(tool string) error {
					ctx, stop := context.WithTimeout(t.Context(), time.Minute)
					defer stop()
					if strings.HasPrefix(test.name, "timeout") {
						ctx, stop = context.WithTimeout(t.Context(), 50*time.Millisecond)
						defer stop()
					}
					_, err := s.Call(ctx, tool, nil, nobody())
					return err
				}
				if err := call("good"); err != nil {
					t.Fatal(err)
				}
				for range 10 {
					_ = call("tool")
				}
				if n := len(u.received("tools/call")) - 1; n != test.sent {
					t.Errorf("%d of 10 calls were sent, want %d", n, test.sent)
				}
				if test.sent != 10 {
					return
				}
				for range 2 {
					_ = call("503")
				}
				_ = call("tool") // which is an answer, or says nothing
				_ = call("503")
				if open, _ := s.Circuit(); open == test.clear {
					t.Errorf("open: %t, so it counted %t as an answer", open, !test.clear)
				}
			})
		}
	}
}

// TestTimeOfPeople is no failure of the server: nobody answered its question.
func TestTimeOfPeople(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		if p.Method != "tools/call" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		stream(w)
		say(w, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		<-r.Context().Done()
	})
	s := open(t, u.URL, func(c *connector.Config) {
		c.TripAfter, c.MayAsk = 1, []action.AskKind{action.AskRoots}
	})
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	_, err := s.Call(ctx, "tool", nil, &caller{can: action.ClientListsRoots, ask: func(ctx context.Context, _ []action.Question) (map[string]action.Reply, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	wantFault(t, err, action.ErrOutcomeUnknown, sources.FaultTimeout)
	if open, _ := s.Circuit(); open {
		t.Error("the circuit is open")
	}
}

// TestTrial has the request that tries take long: a sign of life lets the
// others pass, and without one another may try after a while. Who fails beside
// it changes nothing.
func TestTrial(t *testing.T) {
	var down atomic.Bool
	release := map[string]chan struct{}{"before": make(chan struct{}), "silent": make(chan struct{}), "slow": make(chan struct{})}
	begun := make(chan string, 10)
	u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
		if down.Load() && p.Params.Name != "before" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		begun <- p.Params.Name
		switch p.Params.Name {
		case "before":
			<-release["before"]
			w.WriteHeader(http.StatusServiceUnavailable)
		case "silent":
			<-release["silent"]
			respond(w, p, `{"content":[]}`)
		case "slow":
			stream(w)
			<-release["slow"]
			say(w, `{"jsonrpc":"2.0","id":`+string(p.ID)+`,"result":{"content":[]}}`)
		default:
			respond(w, p, `{"content":[]}`)
		}
	})
	s := open(t, u.URL, func(c *connector.Config) { c.TripAfter = 1 })
	clock := s.Clock()
	var group sync.WaitGroup
	start := func(tool string) (ended chan error) {
		ended = make(chan error, 1)
		group.Go(func() {
			_, err := s.Call(t.Context(), tool, nil, nobody())
			ended <- err
		})
		if got := <-begun; got != tool {
			t.Fatalf("%s began, not %s", got, tool)
		}
		return ended
	}
	call := func() error {
		_, err := s.Call(t.Context(), "tool", nil, nobody())
		return err
	}
	before := start("before")
	down.Store(true)
	wantFault(t, call(), action.ErrOutcomeUnknown, sources.FaultFailed)
	down.Store(false)
	clock(time.Minute)
	silent := start("silent")
	close(release["before"])
	wantFault(t, <-before, action.ErrOutcomeUnknown, sources.FaultFailed)
	wantFault(t, call(), action.ErrUnavailable, sources.FaultOpen)
	clock(connector.TrialTime)
	slow := start("slow")
	wait(t, "others pass", func() bool { return call() == nil })
	for _, name := range []string{"silent", "slow"} {
		close(release[name])
	}
	for _, ended := range []chan error{silent, slow} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	group.Wait()
}

// TestHandshakeIsSignOfLife lets others pass while the trial's call runs.
func TestHandshakeIsSignOfLife(t *testing.T) {
	var down atomic.Bool
	release, begun := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		if p.Params.Name == "slow" {
			close(begun)
			<-release
		}
		respond(w, p, `{"content":[]}`)
	})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		u.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	down.Store(true)
	s := open(t, front.URL, func(c *connector.Config) { c.TripAfter = 1 })
	clock := s.Clock()
	_, err := s.Call(t.Context(), "tool", nil, nobody())
	wantFault(t, err, action.ErrUnavailable, sources.FaultFailed)
	down.Store(false)
	clock(time.Minute)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), "slow", nil, nobody())
		ended <- err
	}()
	<-begun
	if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestRateLimit leaves a server alone for as long as it wants, a minute at
// most.
func TestRateLimit(t *testing.T) {
	for _, test := range []struct {
		after string
		want  time.Duration
	}{{"20", 20 * time.Second}, {"4000", time.Minute}} {
		var limited atomic.Bool
		u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
			if limited.Load() {
				w.Header().Set("Retry-After", test.after)
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			respond(w, p, `{"content":[]}`)
		})
		s := open(t, u.URL, nil)
		clock := s.Clock()
		call := func() error {
			_, err := s.Call(t.Context(), "tool", nil, nobody())
			return err
		}
		limited.Store(true)
		wantFault(t, call(), action.ErrUnavailable, sources.FaultRateLimited)
		limited.Store(false)
		clock(test.want - 5*time.Second)
		err := call()
		wantFault(t, err, action.ErrUnavailable, sources.FaultRateLimited)
		if got := action.Public(err).RetryAfter; got != 5*time.Second {
			t.Errorf("retry after %s", got)
		}
		if n := len(u.received("tools/call")); n != 1 {
			t.Errorf("%d calls were sent", n)
		}
		clock(5 * time.Second)
		if err := call(); err != nil {
			t.Error(err)
		}
	}
}
