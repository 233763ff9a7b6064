package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// sseServer is a server of the SDK over HTTP+SSE.
type sseServer struct {
	*httptest.Server
	mcp    *mcp.Server
	opened atomic.Int64  // streams
	waits  atomic.Int64  // calls of wait
	held   chan struct{} // wait returns when it is closed

	mu   sync.Mutex
	seen []http.Header // of all requests
}

func (s *sseServer) headers() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// newSSEServer starts a server. It does not answer what before does.
func newSSEServer(t *testing.T, before func(w http.ResponseWriter, r *http.Request) (answered bool)) *sseServer {
	t.Helper()
	s := &sseServer{held: make(chan struct{}), mcp: mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)}
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	for name, run := range map[string]mcp.ToolHandler{
		"echo": func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("%s", r.Params.Arguments), nil
		},
		"count": func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for i := range 3 {
				if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)}); err != nil {
					return nil, err
				}
			}
			return text("done"), nil
		},
		"ask": func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			got, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)})
			if err != nil {
				return nil, err
			}
			return text("%s %v", got.Action, got.Content["n"]), nil
		},
		"ping": func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("alive"), r.Session.Ping(ctx, nil)
		},
		"log": func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("logged"), r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "before the answer"}) //nolint:staticcheck // servers still log
		},
		"wait": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.waits.Add(1)
			<-s.held
			return text("waited"), nil
		},
		"large": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("%s", strings.Repeat("x", 64<<10)), nil
		},
	} {
		s.mcp.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, run)
	}
	handler := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s.mcp }, nil)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Header.Clone())
		s.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		if r.Method == http.MethodGet {
			s.opened.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		select {
		case <-s.held:
		default:
			close(s.held)
		}
		s.CloseClientConnections()
	})
	return s
}

// called makes a call that succeeds, and returns its result.
func called(t *testing.T, s *connector.Source, tool, params string, by *caller) string {
	t.Helper()
	res, err := s.Call(t.Context(), tool, json.RawMessage(params), by)
	if err != nil || res.IsError || res.Problem != nil {
		t.Fatalf("%s: %s%s, %v", tool, res.Body, res.Problem, err)
	}
	return string(res.Body)
}

// reconnects calls until a call meets none of the connections that the server closed.
func reconnects(t *testing.T, s *connector.Source) {
	t.Helper()
	for {
		if _, err := s.Call(t.Context(), "echo", nil, nobody()); !errors.Is(err, action.ErrOutcomeUnknown) {
			break
		}
	}
	called(t, s, "echo", `{}`, nobody())
}

// TestHTTPSSE uses a server that speaks only HTTP+SSE.
func TestHTTPSSE(t *testing.T) {
	up := newSSEServer(t, nil)
	s := open(t, up.URL, func(c *connector.Config) {
		c.Secret = func(context.Context) (string, string, error) {
			return "a-secret", strings.TrimPrefix(up.URL, "http://"), nil
		}
		c.Headers = map[string]string{"X-Read-Only": "true"}
	})
	l, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Tools) != 7 || l.Protocol != "2025-11-25" || !slices.ContainsFunc(l.Warnings, func(w string) bool { return strings.Contains(w, "HTTP+SSE transport of protocol 2024-11-05") }) {
		t.Errorf("%d tools, MCP %s, %q", len(l.Tools), l.Protocol, l.Warnings)
	}
	steps := s.Steps()
	if len(steps) != 5 || steps[3].Name != "handshake" || steps[3].Failed || steps[1].Took == 0 {
		t.Errorf("steps %+v", steps)
	}

	if got := called(t, s, "echo", `{"n":9007199254740993}`, nobody()); !strings.Contains(got, "9007199254740993") {
		t.Errorf("echoed %s", got)
	}
	called(t, s, "ping", `{}`, nobody())
	var mu sync.Mutex
	var told []string
	called(t, s, "count", `{}`, &caller{progress: func(p json.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, string(p))
	}})
	if len(told) != 3 || strings.Contains(told[0], "progressToken") {
		t.Errorf("progress %q", told)
	}
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			res, err := s.Call(t.Context(), "echo", fmt.Appendf(nil, `{"n":"call %d"}`, i), nobody())
			if err != nil || !strings.Contains(string(res.Body), fmt.Sprintf("call %d", i)+`\"`) {
				t.Errorf("call %d got %s, %v", i, res.Body, err)
			}
		})
	}
	calls.Wait()
	if n := up.opened.Load(); n != 1 {
		t.Errorf("%d streams were opened", n)
	}
	for i, h := range up.headers() {
		if h.Get("Authorization") != "a-secret" || h.Get("X-Read-Only") != "true" || h.Get("Mcp-Session-Id") != "" {
			t.Errorf("request %d had %v", i, h)
		}
	}
}

// TestHTTPSSENotices hears of a change of the list, also after the stream broke.
func TestHTTPSSENotices(t *testing.T) {
	up := newSSEServer(t, nil)
	s := open(t, up.URL, func(c *connector.Config) { c.Backoff = time.Millisecond })
	heard := make(chan sources.Notice, 100)
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { _ = s.Listen(ctx, func(n sources.Notice) { heard <- n }) })
	defer listening.Wait()
	defer stop()
	hears := func(tool string) {
		t.Helper()
		for deadline := time.After(20 * time.Second); ; {
			up.mcp.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
			select {
			case n := <-heard:
				if n.Kind == sources.NoticeTools {
					return
				}
			case <-time.After(200 * time.Millisecond): // nobody listened yet
			case <-deadline:
				t.Fatal("nothing was heard")
			}
		}
	}
	hears("new")
	up.CloseClientConnections()
	for up.opened.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	for len(heard) > 0 {
		<-heard
	}
	hears("newer")
}

// TestHTTPSSEStreamBreaks breaks the stream of calls under way, and calls again.
func TestHTTPSSEStreamBreaks(t *testing.T) {
	up := newSSEServer(t, nil)
	s := open(t, up.URL, nil)
	called(t, s, "echo", `{}`, nobody())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), "wait", nil, nobody())
		ended <- err
	}()
	for up.waits.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	up.CloseClientConnections()
	if err := <-ended; !errors.Is(err, action.ErrOutcomeUnknown) {
		t.Errorf("the call under way ended with %v", err)
	}
	reconnects(t, s)
	if n, ran := up.opened.Load(), up.waits.Load(); n != 2 || ran != 1 {
		t.Errorf("%d streams, %d calls", n, ran)
	}

	// The server forgot the session, and its stream is open still.
	var forgotten atomic.Bool
	up = newSSEServer(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && forgotten.CompareAndSwap(true, false) {
			http.Error(w, "session not found", http.StatusNotFound)
			return true
		}
		return false
	})
	s = open(t, up.URL, nil)
	called(t, s, "echo", `{}`, nobody())
	forgotten.Store(true)
	called(t, s, "echo", `{}`, nobody())
	if n := up.opened.Load(); n != 2 {
		t.Errorf("%d streams", n)
	}
}

// TestHTTPSSEPerAgent gives agents streams of their own, on which they are asked.
func TestHTTPSSEPerAgent(t *testing.T) {
	up := newSSEServer(t, nil)
	s := open(t, up.URL, func(c *connector.Config) { c.MayAsk = []action.AskKind{action.AskElicitation} })
	for _, session := range []string{"a", "b", "a"} {
		by := &caller{session: session, can: action.AskFeatures([]action.AskKind{action.AskElicitation}), ask: func(_ context.Context, questions []action.Question) (map[string]action.Reply, error) {
			return map[string]action.Reply{questions[0].Key: {Result: fmt.Appendf(nil, `{"action":"accept","content":{"n":%d}}`, len(session)+6)}}, nil
		}}
		if got := called(t, s, "ask", `{}`, by); !strings.Contains(got, "accept 7") {
			t.Errorf("%s was answered %s", session, got)
		}
	}
	if n := up.opened.Load(); n != 3 { // one is shared, for lists
		t.Errorf("%d streams were opened", n)
	}
}

// TestHTTPSSEOrder has a server send log messages right before answers: an agent with
// its own session gets each before its answer, and one with the shared session none,
// since it is not said whose they are.
func TestHTTPSSEOrder(t *testing.T) {
	up := newSSEServer(t, nil)
	for _, own := range []bool{true, false} {
		s := open(t, up.URL, func(c *connector.Config) { c.PerAgent = own })
		var heard atomic.Int64
		by := &caller{session: "a", level: "debug", log: func(json.RawMessage) { heard.Add(1) }}
		for i := range int64(100) {
			called(t, s, "log", `{}`, by)
			if n := heard.Load(); own && n != i+1 || !own && n != 0 {
				t.Fatalf("own session: %v, %d messages after %d calls", own, n, i+1)
			}
		}
	}
}

// TestHTTPSSEBounds has a server answer too much, on an event and on the first.
func TestHTTPSSEBounds(t *testing.T) {
	up := newSSEServer(t, nil)
	s := open(t, up.URL, func(c *connector.Config) { c.MaxAnswer = 32 << 10 })
	called(t, s, "echo", `{}`, nobody())
	if _, err := s.Call(t.Context(), "large", nil, nobody()); action.Public(err).Code != sources.FaultTooLarge || !errors.Is(err, action.ErrOutcomeUnknown) {
		t.Errorf("a large answer: %v", err)
	}
	called(t, s, "echo", `{}`, nobody())

	for name, first := range map[string]string{
		"a large endpoint":    "event: endpoint\ndata: /" + strings.Repeat("x", 100<<10) + "\n\n",
		"no endpoint, ever":   ": wait\n\n",
		"something else":      "event: message\ndata: {}\n\n",
		"nothing but a ping":  ": ping\n\nevent: endpoint\n\n",
		"an endpoint of none": "event: endpoint\ndata: http://[::1\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, serveSSE(t, first, nil), func(c *connector.Config) { c.MaxAnswer, c.ConnectTimeout = 32<<10, 300*time.Millisecond })
			began := time.Now()
			if _, err := s.List(t.Context()); !errors.Is(err, action.ErrUnavailable) || time.Since(began) > 20*time.Second {
				t.Errorf("got %v after %s", err, time.Since(began))
			}
		})
	}
}

// TestHTTPSSEEndlessEvent has a server send an event that does not end.
func TestHTTPSSEEndlessEvent(t *testing.T) {
	ended := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(map[bool]int{true: http.StatusAccepted, false: http.StatusNotFound}[r.URL.Path == "/messages"])
			return
		}
		stream(w)
		sent, err := io.WriteString(w, "event: endpoint\ndata: /messages\n\ndata: ")
		for part := strings.Repeat("x", 32<<10); err == nil && sent < 1<<30; sent += len(part) {
			_, err = io.WriteString(w, part)
		}
		ended <- sent
	}))
	t.Cleanup(server.Close)
	s := open(t, server.URL, func(c *connector.Config) { c.MaxAnswer = 1 << 20 })
	if _, err := s.List(t.Context()); action.Public(err).Code != sources.FaultTooLarge {
		t.Errorf("got %v", err)
	}
	if sent := <-ended; sent > 64<<20 { // with the buffers of two kernels
		t.Errorf("%d bytes were read", sent)
	}
}

// serveSSE refuses streamable HTTP, and begins the stream of a GET with the text.
func serveSSE(t *testing.T, first string, posted func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/sse":
			stream(w)
			_, _ = io.WriteString(w, first)
			w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's is one
			<-r.Context().Done()
		case r.URL.Path == "/sse" || posted == nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			posted(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/sse"
}

// TestHTTPSSEEndpoint has servers name endpoints elsewhere: nothing is sent there.
func TestHTTPSSEEndpoint(t *testing.T) {
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	for _, endpoint := range []string{
		elsewhere.URL + "/messages", strings.Replace(elsewhere.URL, "http:", "", 1) + "/messages", "http://169.254.169.254/latest",
		"https://HOST/messages", "http://agent@HOST/messages", "http://evil.example/messages", "ftp://HOST/messages", "javascript:alert(1)",
	} {
		t.Run(endpoint, func(t *testing.T) {
			var host string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				stream(w)
				fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", strings.ReplaceAll(endpoint, "HOST", host))
				w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's is one
				<-r.Context().Done()
			}))
			defer server.Close()
			host = strings.TrimPrefix(server.URL, "http://")
			s := open(t, server.URL, func(c *connector.Config) {
				c.Secret = func(context.Context) (string, string, error) { return "a-secret", host, nil }
			})
			_, err := s.List(t.Context())
			if e := action.Public(err); e.Code != sources.FaultRefused || !errors.Is(err, action.ErrUnavailable) || !strings.Contains(e.Message, "another origin") {
				t.Errorf("got %v", err)
			}
			if err := s.Close(); err != nil { // before the server, which waits for its streams
				t.Error(err)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}

	// Another endpoint later on is not followed, and neither is a redirect away.
	var posts []string
	var mu sync.Mutex
	url := serveSSE(t, "event: endpoint\ndata: /messages?id=1\n\nevent: endpoint\ndata: /other\n\n", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		posts = append(posts, r.URL.String())
		mu.Unlock()
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	s := open(t, url, nil)
	if _, err := s.List(t.Context()); action.Public(err).Code != sources.FaultRefused || !strings.Contains(err.Error(), "redirects") || strings.Contains(err.Error(), "id=1") {
		t.Errorf("got %v", err)
	}
	if asked.Load() != 0 || len(posts) == 0 || posts[0] != "/messages?id=1" {
		t.Errorf("posted to %q, elsewhere %d", posts, asked.Load())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestHTTPSSECredential has the credential refused, and renewed.
func TestHTTPSSECredential(t *testing.T) {
	var token atomic.Value
	token.Store("old")
	up := newSSEServer(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.RawQuery == "" {
			w.WriteHeader(http.StatusMethodNotAllowed) // before it looks at credentials
			return true
		}
		if r.Header.Get("Authorization") == "new" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	s := open(t, up.URL, func(c *connector.Config) {
		c.Secret = func(context.Context) (string, string, error) {
			return token.Load().(string), strings.TrimPrefix(up.URL, "http://"), nil //nolint:forcetypeassert // it is one
		}
		c.Refused = func(_ context.Context, used string, status int, _ []string) (bool, error) {
			if used == "old" && status == http.StatusUnauthorized {
				token.Store("new")
				return true, nil
			}
			return false, nil
		}
	})
	called(t, s, "echo", `{}`, nobody())
	token.Store("old") // it is refused on a POST by now
	called(t, s, "echo", `{}`, nobody())
	if n := up.opened.Load(); n != 1 {
		t.Errorf("%d streams", n)
	}
}

// TestHTTPSSEReplaced has a server move from HTTP+SSE to streamable HTTP at its URL.
func TestHTTPSSEReplaced(t *testing.T) {
	var streamable http.Handler
	var moved atomic.Bool
	up := newSSEServer(t, func(w http.ResponseWriter, r *http.Request) bool {
		if moved.Load() {
			streamable.ServeHTTP(w, r)
		}
		return moved.Load()
	})
	streamable = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return up.mcp }, nil)
	s := open(t, up.URL, nil)
	called(t, s, "echo", `{}`, nobody())
	moved.Store(true)
	up.CloseClientConnections()
	reconnects(t, s)
	if l, err := s.List(t.Context()); err != nil || len(l.Warnings) != 0 {
		t.Errorf("got %q, %v", l.Warnings, err)
	}
}
