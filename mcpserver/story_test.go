package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/internal/hangup"
	"sallyport/internal/hangup/hanguptest"
	"sallyport/mcpserver"
)

func TestNewRequiresConfig(t *testing.T) {
	g := newGate()
	whole := mcpserver.Config{Gate: g, Resolver: g, Authenticate: authenticate, Hints: &hints{}}
	if _, err := mcpserver.New(whole); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*mcpserver.Config){
		"Gate":         func(c *mcpserver.Config) { c.Gate = nil },
		"Resolver":     func(c *mcpserver.Config) { c.Resolver = nil },
		"Authenticate": func(c *mcpserver.Config) { c.Authenticate = nil },
		"Hints":        func(c *mcpserver.Config) { c.Hints = nil },
		"PublicURL":    func(c *mcpserver.Config) { c.PublicURL = "gate.example" },
		"SessionKey":   func(c *mcpserver.Config) { c.SessionKey = make([]byte, 31) },
	} {
		c := whole
		spoil(&c)
		if _, err := mcpserver.New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// rpc is a request as ServeHTTP gets it, without a socket.
func rpc(token, session, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://gate.example/mcp", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	return r
}

// callBody is a call of a tool, with more members of params if any.
func callBody(id any, tool, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q%s}}`, id, tool, more)
}

// serve answers one request.
func serve(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const initializeBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// begin opens an MCP session without a socket.
func begin(t testing.TB, s http.Handler, token string) string {
	t.Helper()
	w := serve(s, rpc(token, "", initializeBody))
	id := w.Header().Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal("no session:", w.Code, w.Body)
	}
	return id
}

// end drains a server that was used without a socket.
func end(t testing.TB, s *mcpserver.Server) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Drain(ctx); err != nil {
			t.Error(err)
		}
	})
}

// brokenWriter fails where it is told to.
type brokenWriter struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.write != nil {
		return 0, w.write
	}
	return w.ResponseRecorder.Write(b)
}

func (w *brokenWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }
func (w *brokenWriter) FlushError() error                 { return w.flush }

// An outcome that did not get out to its last byte is not delivered.
func TestDelivery(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, c := range []struct {
		name  string
		w     *brokenWriter
		gone  bool
		tool  string
		count int
	}{
		{"whole", &brokenWriter{}, false, "read", 1},
		{"write fails", &brokenWriter{write: broken}, false, "read", 0},
		{"flush fails", &brokenWriter{flush: broken}, false, "read", 0},
		{"client gone", &brokenWriter{}, true, "leave", 0},
		{"client gone unnoticed", &brokenWriter{}, true, "read", 0},
		{"no row", &brokenWriter{}, false, "refused", 0},
		{"denied", &brokenWriter{}, false, "denied", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.gone && c.tool == "read" {
				ctx = hangup.ConnContext(ctx, hanguptest.Conn(t))
			}
			leave := &served{Action: action.Action{Tool: "leave"}, run: func(context.Context, json.RawMessage, func(string)) action.Outcome {
				cancel()
				return answer(`{}`)
			}}
			g := newGate(read(), leave,
				&served{Action: action.Action{Tool: "refused"}, err: action.Errorf(action.ErrTooMany, "x", "Too many.")},
				&served{Action: action.Action{Tool: "denied"}, mode: action.ModeDeny})
			s := newServer(t, g, &hints{}, nil)
			end(t, s)
			id := begin(t, s, "token-a")
			c.w.ResponseRecorder = httptest.NewRecorder()
			s.ServeHTTP(c.w, rpc("token-a", id, callBody(1, c.tool, "")).WithContext(ctx))
			if got := len(g.deliveries()); got != c.count {
				t.Errorf("delivered %d times, want %d", got, c.count)
			}
		})
	}
}

// The key of idempotency comes from the header or from _meta.
func TestIdempotencyKey(t *testing.T) {
	g := newGate(read())
	s := newServer(t, g, &hints{}, nil)
	end(t, s)
	id := begin(t, s, "token-a")
	for _, c := range []struct{ header, meta, want string }{
		{"", "", ""},
		{"h", "", "h"},
		{"", `,"_meta":{"sallyport/idempotencyKey":"m\u0061"}`, "ma"},
		{"k", `,"_meta":{"sallyport/idempotencyKey":"k"}`, "k"},
	} {
		r := rpc("token-a", id, callBody(1, "read", c.meta))
		if c.header != "" {
			r.Header.Set("Idempotency-Key", c.header)
		}
		serve(s, r)
		if got := g.keys[len(g.keys)-1]; got != c.want {
			t.Errorf("header %q and params %s give %q", c.header, c.meta, got)
		}
	}
}

// Organizations share nothing: not a server, not a list, not a name.
func TestOrganizationsApart(t *testing.T) {
	g := newGate(read(), &served{Action: action.Action{Tool: "other_read"}}, &served{Action: action.Action{Tool: "auto_read"}})
	s := newServer(t, g, &hints{}, nil)
	end(t, s)
	a, b, o := begin(t, s, "token-a"), begin(t, s, "token-b"), begin(t, s, "token-o")
	if n := s.Servers(); n != 2 {
		t.Error("servers for two organizations:", n)
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if x, y := serve(s, rpc("token-a", a, list)).Body.String(), serve(s, rpc("token-b", b, list)).Body.String(); x != y || !strings.Contains(x, `"read"`) {
		t.Error("two sessions of one organization see", x, y)
	}
	if x := serve(s, rpc("token-o", o, list)).Body.String(); strings.Contains(x, `"read"`) || !strings.Contains(x, `"other_read"`) {
		t.Error("another organization sees", x)
	}
	auto := begin(t, s, "token-auto")
	if x := serve(s, rpc("token-auto", auto, list)).Body.String(); strings.Contains(x, `"read"`) || !strings.Contains(x, `"auto_read"`) {
		t.Error("an automation sees", x)
	}
}

// A list is encoded once for everyone, and again only when it changed; a call
// does not ask for it each time.
func TestListsAreShared(t *testing.T) {
	now := time.Now()
	g := newGate(read())
	s := newServer(t, g, &hints{}, func(c *mcpserver.Config) { c.Now = func() time.Time { return now } })
	end(t, s)
	id := begin(t, s, "token-a")
	for i := range 20 {
		serve(s, rpc("token-a", id, callBody(i, "read", "")))
	}
	if g.lists != 1 {
		t.Error("20 calls asked for the list", g.lists, "times")
	}
	g.add(&served{Action: action.Action{Tool: "new"}})
	if w := serve(s, rpc("token-a", id, callBody(1, "new", ""))); !strings.Contains(w.Body.String(), "done") {
		t.Error("a tool that is too new for the list:", w.Body)
	}
	now = now.Add(2 * time.Second)
	serve(s, rpc("token-a", id, callBody(1, "read", "")))
	if g.lists != 2 {
		t.Error("after two seconds the list was asked for", g.lists, "times")
	}
}

// Without a list, calls and the gateway's own tools still work.
func TestCallsWithoutList(t *testing.T) {
	g := newGate(read())
	s := newServer(t, g, &hints{}, nil)
	end(t, s)
	id := begin(t, s, "token-a")
	g.listErr = action.Errorf(action.ErrUnavailable, "unavailable", "The database is away.")
	if w := serve(s, rpc("token-a", id, callBody(1, "read", ""))); !strings.Contains(w.Body.String(), "done") {
		t.Error("a call:", w.Body)
	}
	if w := serve(s, rpc("token-a", id, callBody(1, "invocation_status", `,"arguments":{"invocation_id":"inv-1"}`))); !strings.Contains(w.Body.String(), `"completed"`) {
		t.Error("our own tool:", w.Body)
	}
	if w := serve(s, rpc("token-a", id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)); !strings.Contains(w.Body.String(), "The database is away.") {
		t.Error("the list:", w.Body)
	}
	g.listErr = errors.New("secret-detail")
	if w := serve(s, rpc("token-a", id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)); strings.Contains(w.Body.String(), "secret-detail") {
		t.Error("the list:", w.Body)
	}
}

// No action can take the place of one of the gateway's own tools.
// TestBuiltinNamesAreReserved: no connector's tools look like the gateway's own.
func TestBuiltinNamesAreReserved(t *testing.T) {
	for _, name := range mcpserver.BuiltinTools() {
		if slug, _, _ := strings.Cut(name, "_"); !action.ReservedSlug(slug) {
			t.Errorf("a connector may have the slug %q, with which the tool %s begins", slug, name)
		}
	}
}

func TestBuiltinToolsWin(t *testing.T) {
	names := mcpserver.BuiltinTools()
	if !slices.Equal(names, []string{"invocation_status", "invocation_wait", "actions_guide", "actions_search", "actions_describe", "actions_call", "grant_request"}) {
		t.Error(names)
	}
	g := newGate(&served{Action: action.Action{Tool: "invocation_wait"}})
	s := newServer(t, g, &hints{}, nil)
	end(t, s)
	id := begin(t, s, "token-a")
	if w := serve(s, rpc("token-a", id, callBody(1, "invocation_wait", `,"arguments":{"invocation_id":"x"}`))); !strings.Contains(w.Body.String(), "Invocation not found") {
		t.Error(w.Body)
	}
	if n := len(g.ids()); n != 0 {
		t.Error("the action was called")
	}
	if w := serve(s, rpc("token-a", id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)); strings.Count(w.Body.String(), `"name":"invocation_wait"`) != 1 {
		t.Error(w.Body)
	}
	// What makes the SDK announce changes is no tool either.
	if w := serve(s, rpc("token-a", id, callBody(1, "sallyport-marker", ""))); !strings.Contains(w.Body.String(), "Unknown tool") {
		t.Error(w.Body)
	}
}

// The result of another session's call is nobody's business.
func TestInvocationsOfOthers(t *testing.T) {
	g := newGate(read())
	s := newServer(t, g, &hints{}, nil)
	end(t, s)
	a, b := begin(t, s, "token-a"), begin(t, s, "token-b")
	serve(s, rpc("token-a", a, callBody(1, "read", "")))
	for _, tool := range []string{"invocation_status", "invocation_wait"} {
		body := callBody(2, tool, `,"arguments":{"invocation_id":"inv-1"}`)
		if w := serve(s, rpc("token-b", b, body)); !strings.Contains(w.Body.String(), "Invocation not found") {
			t.Errorf("%s shows another's call: %s", tool, w.Body)
		}
		if w := serve(s, rpc("token-a", a, body)); strings.Contains(w.Body.String(), "Invocation not found") {
			t.Errorf("%s does not show one's own: %s", tool, w.Body)
		}
	}
}

// Of a principal that opens sessions without end, those that rested longest are
// forgotten, and nobody else's. A forgotten session can be used all the same.
func TestSessionLimit(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	g := newGate(read(), write())
	s := newServer(t, g, &hints{}, func(c *mcpserver.Config) {
		c.MaxSessions = 3
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); now = now.Add(time.Second); return now }
	})
	end(t, s)
	other := begin(t, s, "token-b")
	var ids []string
	for range 5 {
		ids = append(ids, begin(t, s, "token-a"))
	}
	if n := s.Sessions(); n != 4 {
		t.Error("sessions:", n)
	}
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for i, id := range ids {
		if w := serve(s, rpc("token-a", id, ping)); w.Code != 200 {
			t.Errorf("session %d: %d", i, w.Code)
		}
	}
	if n := s.Sessions(); n != 4 {
		t.Error("sessions after all were used again:", n)
	}
	if w := serve(s, rpc("token-b", other, ping)); w.Code != 200 {
		t.Error("the other principal's session:", w.Code)
	}
	// One with a call in flight does not rest.
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(s, rpc("token-a", ids[2], callBody(1, "write", "")))
	}()
	eventually(t, "the call is held", func() bool { return g.status("inv-1") == action.StatusPending })
	for range 5 {
		begin(t, s, "token-a")
	}
	serve(s, rpc("token-a", ids[2], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	<-done
	if got := g.status("inv-1"); got != action.StatusDenied {
		t.Error("the session with a call in flight was forgotten: its call is", got)
	}
}

// Views that nobody uses are dropped, with their servers.
func TestViewsAreDropped(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	s := open(t, func(c *mcpserver.Config) {
		c.IdleSession = 100 * time.Millisecond
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	}, read())
	s.initialize(t, "token-a")
	s.initialize(t, "token-o")
	s.post(t, "token-auto", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":7}}`)
	if s.server.Servers() != 3 || s.server.Sessions() != 2 {
		t.Fatal(s.server.Servers(), s.server.Sessions())
	}
	eventually(t, "all is dropped", func() bool {
		mu.Lock()
		now = now.Add(time.Minute)
		mu.Unlock()
		return s.server.Views() == 0 && s.server.Sessions() == 0
	})
}

// An initialize that fails leaves no session.
func TestFailedInitialize(t *testing.T) {
	s := newServer(t, newGate(), &hints{}, nil)
	end(t, s)
	w := serve(s, rpc("token-a", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":7}}`))
	if w.Header().Get("Mcp-Session-Id") != "" || s.Sessions() != 0 {
		t.Error(w.Code, w.Header(), w.Body, s.Sessions())
	}
}

// The Host header decides over names, whoever they point to.
func TestHosts(t *testing.T) {
	g := newGate()
	s := newServer(t, g, &hints{}, func(c *mcpserver.Config) {
		c.AllowedHosts = []string{"proxy.internal", "exact.internal:8443"}
	})
	for _, c := range []struct {
		local, host string
		ok          bool
	}{
		{"10.0.0.5", "gate.example", true},
		{"10.0.0.5", "GATE.example", true},
		{"10.0.0.5", "proxy.internal:1", true},
		{"10.0.0.5", "exact.internal:8443", true},
		{"10.0.0.5", "exact.internal", false},
		{"127.0.0.1", "localhost:8787", true},
		{"127.0.0.1", "127.0.0.1:8787", true},
		{"127.0.0.1", "[::1]:8787", true},
		{"127.0.0.1", "127.9.9.9", true},
		{"10.0.0.5", "localhost", false},
		{"10.0.0.5", "127.0.0.1", false},
		{"10.0.0.5", "10.0.0.5:8787", true},
		{"10.0.0.5", "10.0.0.6", false},
		{"127.0.0.1", "localhost.evil.example", false},
		{"127.0.0.1", "evil.example", false},
		{"127.0.0.1", "", false},
		{"::1", "[::1]", true},
		{"", "localhost", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
		r.Host = c.host
		if c.local != "" {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(c.local)})))
		}
		if w := serve(s, r); (w.Code != 403) != c.ok {
			t.Errorf("Host %q over %s: %d", c.host, c.local, w.Code)
		}
	}
}

// 200 calls at once, with cancels and vanishing clients among them: everyone
// who stays is answered, and only once.
func TestConcurrentCalls(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		s := open(t, nil, write(), read())
		session := s.connect(t, "token-a", version, nil)
		go func() {
			for t.Context().Err() == nil {
				for _, id := range s.gate.ids() {
					s.gate.approve(id)
				}
				time.Sleep(time.Millisecond)
			}
		}()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%4 == 0 {
					go func() { time.Sleep(time.Duration(i%7) * time.Millisecond); cancel() }()
				}
				params := &mcp.CallToolParams{Name: []string{"read", "write"}[i%2]}
				if i%3 == 0 {
					params.Meta = mcp.Meta{"progressToken": i}
				}
				res, err := session.CallTool(ctx, params)
				if err != nil && i%4 != 0 {
					t.Error(i, err)
				}
				if err == nil && res.IsError {
					t.Error(i, res.Content[0])
				}
			})
		}
		wg.Wait()
		counts := map[string]int{}
		for _, id := range s.gate.deliveries() {
			if counts[id]++; counts[id] > 1 {
				t.Error("delivered twice:", id)
			}
		}
		if len(counts) < 149 { // the last one may be noted a moment after its answer
			t.Error("delivered:", len(counts))
		}
	})
}

// A shutdown under load answers everyone.
func TestDrainUnderLoad(t *testing.T) {
	slow := &served{Action: action.Action{Tool: "slow"}, run: func(context.Context, json.RawMessage, func(string)) action.Outcome {
		time.Sleep(50 * time.Millisecond)
		return answer(`{"content":[{"type":"text","text":"slow"}]}`)
	}}
	s := open(t, nil, write(), slow)
	id := s.initialize(t, "token-a")
	answers := make(chan string, 100)
	for i := range 100 {
		go func() {
			tool := []string{"write", "slow"}[i%2]
			more := []string{"", `,"_meta":{"progressToken":1}`}[i/2%2]
			a := s.post(t, "token-a", id, callBody(i, tool, more))
			answers <- a.text
		}()
	}
	eventually(t, "half of them are held", func() bool {
		n := 0
		for _, id := range s.gate.ids() {
			if s.gate.status(id) == action.StatusPending {
				n++
			}
		}
		return n == 50 && len(s.gate.ids()) == 100
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.server.Drain(ctx); err != nil {
		t.Error(err)
	}
	pending, done := 0, 0
	for range 100 {
		switch text := <-answers; {
		case strings.Contains(text, "PENDING"):
			pending++
		case strings.Contains(text, `"slow"`):
			done++
		default:
			t.Error("answered:", text)
		}
	}
	if pending != 50 || done != 50 {
		t.Error(pending, done)
	}
	if n := s.server.Sessions(); n != 0 {
		t.Error("sessions left:", n)
	}
}

// timedWriter fails what is written without a deadline.
type timedWriter struct {
	*httptest.ResponseRecorder
	t     *testing.T
	until time.Time
	limit int
}

func (w *timedWriter) SetWriteDeadline(t time.Time) error {
	w.until, w.limit = t, 300<<10
	return nil
}

func (w *timedWriter) Write(b []byte) (int, error) {
	if time.Until(w.until) <= 0 || len(b) > w.limit {
		w.t.Errorf("%d bytes are written with %v and %d bytes left", len(b), time.Until(w.until), w.limit)
	}
	w.limit -= len(b)
	return w.ResponseRecorder.Write(b)
}

func (w *timedWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *timedWriter) FlushError() error {
	w.until = time.Time{} // what comes later has to set its own
	return nil
}

// Every write has its time, so that a client that stopped reading is let go.
func TestWriteDeadlines(t *testing.T) {
	big := &served{Action: action.Action{Tool: "big"}, run: func(_ context.Context, _ json.RawMessage, progress func(string)) action.Outcome {
		progress(`{"progress":1}`)
		time.Sleep(10 * time.Millisecond)
		return answer(`{"content":"` + strings.Repeat("x", 1<<20) + `"}`)
	}}
	s := newServer(t, newGate(big), &hints{}, func(c *mcpserver.Config) { c.KeepAliveEvery = time.Millisecond })
	end(t, s)
	id := begin(t, s, "token-a")
	for _, body := range []string{
		callBody(1, "big", ""), callBody(1, "big", `,"_meta":{"progressToken":1}`),
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{`,
	} {
		s.ServeHTTP(&timedWriter{httptest.NewRecorder(), t, time.Time{}, 0}, rpc("token-a", id, body))
	}
}

// A client that hangs up in the middle of its answer holds nobody up.
func TestClientDisconnectsMidResponse(t *testing.T) {
	big := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 8<<20) + `"}]}`
	s := open(t, nil, &served{Action: action.Action{Tool: "big"}, run: func(context.Context, json.RawMessage, func(string)) action.Outcome {
		return answer(big)
	}})
	id := s.initialize(t, "token-a")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	body := callBody(1, "big", "")
	_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer token-a\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
		conn.RemoteAddr(), id, len(body), body)
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatal(line, err)
	}
	_ = conn.Close() // the rest does not fit into the socket's buffers
	if a := s.post(t, "token-a", id, callBody(2, "big", "")); !strings.Contains(a.text, "xxx") {
		t.Error("the next client:", a.StatusCode)
	}
	eventually(t, "the second call counts as delivered", func() bool { return len(s.gate.deliveries()) > 0 })
	if got := s.gate.deliveries(); !slices.Equal(got, []string{"inv-2"}) {
		t.Error("delivered:", got)
	}
}

// What a call keeps is its own: the buffer of its request serves others while
// it is held.
func TestPendingCallKeepsItsBytes(t *testing.T) {
	s := open(t, nil, write(), read())
	id := s.initialize(t, "token-a")
	const held = `{"text":"held held held held held held"}`
	answers := make(chan string)
	go func() {
		answers <- s.post(t, "token-a", id, callBody(`"the-held-one"`, "write", `,"arguments":`+held+`,"_meta":{"progressToken":"token-of-the-held"}`)).text
	}()
	eventually(t, "the call is held", func() bool { return s.gate.status("inv-1") == action.StatusPending })
	for range 20 {
		s.post(t, "token-a", id, callBody(`"XXXXXXXXXXXX"`, "read", `,"arguments":{"other":"XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"}`))
	}
	s.gate.mu.Lock()
	got := string(s.gate.records["inv-1"].call.Params)
	s.gate.mu.Unlock()
	if got != held {
		t.Errorf("the params became %s", got)
	}
	s.gate.approve("inv-1")
	text := <-answers
	if !strings.Contains(text, `"id":"the-held-one"`) || strings.Contains(text, "XXX") || !strings.Contains(text, `"token-of-the-held"`) {
		t.Error("answered:", text)
	}
}

// A request nested without end is refused, not walked.
func TestDepth(t *testing.T) {
	s := newServer(t, newGate(read()), &hints{}, nil)
	end(t, s)
	id := begin(t, s, "token-a")
	deep := strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000)
	if w := serve(s, rpc("token-a", id, callBody(1, "read", `,"arguments":`+deep))); w.Code != 400 {
		t.Error(w.Code, w.Body)
	}
}

// A page cannot hide its origin behind another one, and a token is good only
// for as long as its session.
func TestEdge(t *testing.T) {
	s := newServer(t, newGate(), &hints{}, nil)
	end(t, s)
	r := rpc("token-a", "", "{}")
	r.Header["Origin"] = []string{"https://gate.example", "http://evil.example"}
	if w := serve(s, r); w.Code != 403 {
		t.Error("two origins:", w.Code)
	}
	if w := serve(s, rpc("token-a", "", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"initialize\"}")); w.Code != 400 || !strings.Contains(w.Body.String(), "-32700") {
		t.Error("a body that is no UTF-8:", w.Code, w.Body)
	}
	if w := serve(s, rpc("token-expired", "", "{}")); w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
		t.Error("an expired session:", w.Code)
	}
}

// unreadable is a body that nobody may read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("unreadable")
}

// A body that says that it is too large is not even read.
func TestAnnouncedBody(t *testing.T) {
	s := newServer(t, newGate(), &hints{}, nil)
	r := httptest.NewRequest(http.MethodPost, "http://gate.example/mcp", unreadable{t})
	r.Header = rpc("token-a", "", "").Header
	r.ContentLength = 5 << 20
	if w := serve(s, r); w.Code != 413 {
		t.Error(w.Code)
	}
}

// The kind of a result is added where it is missing, and only there.
func TestResultType(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                       `{"resultType":"complete"}`,
		"{ \n}":                    `{"resultType":"complete"}`,
		` {"a":1.0}`:               `{"resultType":"complete","a":1.0}`,
		`{"a":1,"resultType":"x"}`: `{"a":1,"resultType":"x"}`,
		`[]`:                       `[]`,
	} {
		if got := string(mcpserver.StatelessResult("tools/call", []byte(in))); got != want {
			t.Errorf("%s became %s", in, got)
		}
	}
}

// The event stream of a subscription ends with the gateway, so that a
// shutdown need not wait for its client.
func TestDrainEndsSubscriptions(t *testing.T) {
	s := open(t, nil, read())
	ended := make(chan string)
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+clientMeta+`}}}`))
		r.Header = rpc("token-a", "", "").Header
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "subscriptions/listen")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			ended <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "acknowledged") {
				ended <- "begun"
			}
		}
		ended <- "ended"
	}()
	if got := <-ended; got != "begun" {
		t.Fatal(got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.server.Drain(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the stream goes on")
	}
}

// eager is a client that uses an id again as soon as it has its answer.
type eager struct {
	*httptest.ResponseRecorder
	again func()
}

func (w *eager) Write(b []byte) (int, error) {
	if again := w.again; again != nil {
		w.again = nil
		again()
	}
	return w.ResponseRecorder.Write(b)
}

func TestRequestIDIsFreeAfterResponse(t *testing.T) {
	g := newGate(world()...)
	s := newServer(t, g, &hints{}, nil)
	id := begin(t, s, "token-a")
	var second *httptest.ResponseRecorder
	w := &eager{ResponseRecorder: httptest.NewRecorder(), again: func() {
		second = serve(s, rpc("token-a", id, callBody(7, "read", "")))
	}}
	s.ServeHTTP(w, rpc("token-a", id, callBody(7, "read", "")))
	if second == nil || strings.Contains(second.Body.String(), "-32600") {
		t.Errorf("the second call was answered %v", second.Body)
	}
}

// What is refused before the Gate sees it is counted there.
func TestRefusedBeforeTheGate(t *testing.T) {
	g := newGate(read())
	s := newServer(t, g, &hints{}, nil)
	end(t, s)
	id := begin(t, s, "token-a")
	for i, body := range []string{
		callBody(1, "nothing", ""), callBody(2, "read", `,"arguments":[1]`),
		`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"demo://nothing"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"nothing"}}`,
		callBody(5, "read", ""),
	} {
		serve(s, rpc("token-a", id, body))
		if want := min(i+1, 4); len(g.refusals) != want {
			t.Errorf("%s: counted %q", body, g.refusals)
		}
	}
	want := []string{
		"session-a unknown_action :nothing", "session-a invalid_params demo:read",
		"session-a unknown_action :demo://nothing", "session-a unknown_action :nothing",
	}
	if !slices.Equal(g.refusals, want) {
		t.Errorf("counted %q", g.refusals)
	}
}
