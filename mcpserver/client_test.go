package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/mcpserver"
)

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// site is a server on a real socket.
type site struct {
	gate   *gate
	hints  *hints
	server *mcpserver.Server
	url    string
}

// open serves actions on a socket, with its upkeep running.
func open(t testing.TB, change func(*mcpserver.Config), actions ...*served) *site {
	t.Helper()
	s := &site{gate: newGate(actions...), hints: &hints{}}
	s.gate.holdEvery = 10 * time.Millisecond
	s.server = newServer(t, s.gate, s.hints, change)
	web := httptest.NewServer(s.server)
	s.url = web.URL + "/mcp"
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.server.Run(ctx) })
	t.Cleanup(func() {
		within, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := s.server.Drain(within); err != nil {
			t.Error("draining:", err)
		}
		cancel()
		running.Wait()
		web.Close()
	})
	return s
}

// connect connects the SDK's client; an empty version lets it choose, which
// is the stateless era.
func (s *site) connect(t testing.TB, token, version string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.url, HTTPClient: &http.Client{Transport: bearer(token)},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// eras runs a test with a client of each era.
func eras(t *testing.T, f func(t *testing.T, version string)) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) { f(t, version) })
	}
}

// eventually waits for something that another goroutine does.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}

func write() *served {
	return &served{Action: action.Action{Tool: "write"}, mode: action.ModeRequireApproval}
}

func read() *served { return &served{Action: action.Action{Tool: "read"}} }

func TestClientCalls(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		s := open(t, nil, write(), read())
		var mu sync.Mutex
		var told []float64
		session := s.connect(t, "token-a", version, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, r.Params.Progress)
			},
		})
		if got := session.InitializeResult().ProtocolVersion; got != version {
			t.Fatal("the client speaks", got)
		}
		list, err := session.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 5 {
			t.Fatal(list, err)
		}
		if version == "2026-07-28" && list.CacheScope != "private" {
			t.Error("the list may be cached by anyone:", list.CacheScope)
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read"})
		if err != nil || res.Content[0].(*mcp.TextContent).Text != "done" {
			t.Fatal(res, err)
		}
		go func() {
			for {
				mu.Lock()
				n := len(told)
				mu.Unlock()
				if n >= 3 {
					s.gate.approve("inv-2")
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		params := &mcp.CallToolParams{Name: "write", Meta: mcp.Meta{"progressToken": "w"}}
		res, err = session.CallTool(t.Context(), params)
		if err != nil || res.IsError {
			t.Fatal(res, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, v := range told {
			if i > 0 && v <= told[i-1] {
				t.Error("progress does not grow:", told)
			}
		}
	})
}

// A result of several lines comes through an event stream as one.
func TestClientReadsLines(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		lines := &served{Action: action.Action{Tool: "lines"}, run: func(_ context.Context, _ json.RawMessage, progress func(string)) action.Outcome {
			progress(`{"progress":1}`)
			return answer("{\n  \"content\": [],\r\n  \"structuredContent\": {\"a\":\n1}\n}")
		}}
		s := open(t, nil, lines)
		session := s.connect(t, "token-a", version, nil)
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "lines", Meta: mcp.Meta{"progressToken": "x"}})
		if err != nil || fmt.Sprint(res.StructuredContent) != "map[a:1]" {
			t.Error(res, err)
		}
	})
}

// A call that is cancelled leaves the session usable.
func TestClientCancels(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		s := open(t, nil, write(), read())
		session := s.connect(t, "token-a", version, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "write"})
			done <- err
		}()
		eventually(t, "the call is held", func() bool { return s.gate.status("inv-1") == action.StatusPending })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error("the call ended with", err)
		}
		eventually(t, "the caller left", func() bool { return len(s.gate.leavers()) == 1 })
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read"}); err != nil {
			t.Error("the next call failed:", err)
		}
		eventually(t, "the second call counts as delivered", func() bool { return len(s.gate.deliveries()) == 1 })
		if got := s.gate.deliveries(); got[0] != "inv-2" {
			t.Error("delivered:", got)
		}
	})
}

func TestClientIsNotifiedOfChanges(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		s := open(t, nil, read())
		changed := make(chan struct{}, 10)
		session := s.connect(t, "token-a", version, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		})
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		// The stream opens on its own time; a change before it is nobody's
		// loss, so changes go on until one is heard.
		for i := 0; ; i++ {
			s.gate.add(&served{Action: action.Action{Tool: fmt.Sprint("late_", i)}})
			s.hints.Publish(action.Hint{Kind: action.HintCatalog, Organization: "acme"})
			select {
			case <-changed:
			case <-time.After(200 * time.Millisecond):
				if i < 50 {
					continue
				}
				t.Fatal("no change was heard")
			}
			break
		}
		list, err := session.ListTools(t.Context(), nil)
		if err != nil || list.Tools[3].Name != "late_0" {
			t.Error(list, err)
		}
	})
}

// A client that has been told that its stream is open is notified of every later
// change, also if the list takes a while to read.
func TestOpenStreamMissesNoChange(t *testing.T) {
	change := func(t *testing.T, s *site, notified func() bool) {
		t.Helper()
		s.gate.add(&served{Action: action.Action{Tool: "late"}})
		s.hints.Publish(action.Hint{Kind: action.HintCatalog, Organization: "acme"})
		eventually(t, "the client is notified", notified)
	}
	slow := func(t *testing.T) *site {
		t.Helper()
		s := open(t, nil, read())
		s.gate.listDelay = 200 * time.Millisecond // longer than hints are collected
		return s
	}
	t.Run("session", func(t *testing.T) {
		s := slow(t)
		w := s.watch(t, "token-a", s.initialize(t, "token-a"))
		change(t, s, func() bool { return w.changes.Load() == 1 })
	})
	t.Run("stateless", func(t *testing.T) {
		s := slow(t)
		l := s.modern(t, "token-a", "subscriptions/listen", listenBody())
		eventually(t, "it is acknowledged", func() bool { return strings.Contains(l.said(), "acknowledged") })
		change(t, s, func() bool { return strings.Contains(l.said(), "tools/list_changed") })
	})
}

// A client whose session expired is told so in the way that makes it open
// another.
func TestClientSessionGone(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	s := open(t, func(c *mcpserver.Config) {
		c.IdleSession = 100 * time.Millisecond
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	}, read())
	session := s.connect(t, "token-a", "2025-11-25", &mcp.ClientOptions{})
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	// Its event stream keeps it alive; a second one without does not.
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read"}); err != nil {
		t.Error("a session with an event stream expired:", err)
	}
	raw := s.initialize(t, "token-a")
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	eventually(t, "the session expires", func() bool {
		return s.post(t, "token-a", raw, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).StatusCode == http.StatusNotFound ||
			func() bool { mu.Lock(); defer mu.Unlock(); now = now.Add(time.Hour); return false }()
	})
}

// post sends one message and returns the answer, its body read.
func (s *site) post(t testing.TB, token, session, body string) *answered {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := &answered{Response: resp}
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	a.text = b.String()
	return a
}

type answered struct {
	*http.Response
	text string
}

func (s *site) initialize(t testing.TB, token string) (session string) {
	t.Helper()
	return s.initializeAs(t, token, "{}")
}

// initializeAs opens a session of a client with those capabilities.
func (s *site) initializeAs(t testing.TB, token, capabilities string) (session string) {
	t.Helper()
	a := s.post(t, token, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"x","version":"1"}}}`)
	session = a.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatal("no session:", a.StatusCode, a.text)
	}
	s.post(t, token, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return session
}

func TestOversizedBody(t *testing.T) {
	s := open(t, func(c *mcpserver.Config) { c.MaxBody = 1000 }, read())
	session := s.initialize(t, "token-a")
	body := func(n int) string {
		head, tail := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"x":"`, `"}}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	if a := s.post(t, "token-a", session, body(1000)); a.StatusCode != 200 {
		t.Error("a body at the limit:", a.StatusCode, a.text)
	}
	if a := s.post(t, "token-a", session, body(1001)); a.StatusCode != 413 {
		t.Error("a body over the limit:", a.StatusCode, a.text)
	}
	// One that does not say how long it is.
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, struct{ *strings.Reader }{strings.NewReader(body(5000))})
	r.Header.Set("Authorization", "Bearer token-a")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 413 {
		t.Error("a chunked body over the limit:", resp.StatusCode)
	}
	if n := len(s.gate.ids()); n != 1 {
		t.Error("calls:", n)
	}
}

func TestPages(t *testing.T) {
	actions := make([]*served, 2500)
	for i := range actions {
		actions[i] = &served{Action: action.Action{Tool: fmt.Sprintf("t%04d", i)}}
	}
	s := open(t, nil, actions...)
	session := s.initialize(t, "token-a")
	type page struct {
		Result struct {
			Tools []struct{ Name string }
			Next  string `json:"nextCursor"`
		}
	}
	list := func(cursor string) page {
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		a := s.post(t, "token-a", session, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`)
		var p page
		if err := json.Unmarshal([]byte(a.text), &p); err != nil {
			t.Fatal(err, a.text)
		}
		return p
	}
	var names []string
	cursor := ""
	for n := 0; ; n++ {
		p := list(cursor)
		if len(p.Result.Tools) > 1000 {
			t.Error("a page of", len(p.Result.Tools))
		}
		for _, tool := range p.Result.Tools {
			names = append(names, tool.Name)
		}
		// What comes and goes between two pages moves nothing else.
		if n == 0 {
			s.gate.remove(names[len(names)-1])
			s.gate.add(&served{Action: action.Action{Tool: "a_first"}})
			s.gate.add(&served{Action: action.Action{Tool: "t1500b"}})
		}
		if cursor = p.Result.Next; cursor == "" {
			break
		}
	}
	if len(names) != 2504 { // 2,500, three of our own, the one added further down
		t.Error("tools:", len(names))
	}
	for i := 1; i < len(names); i++ {
		if names[i] <= names[i-1] {
			t.Fatal("not sorted, or twice:", names[i-1], names[i])
		}
	}
}
