package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/mcpserver"
)

// A real client whose every request meets another instance notices nothing.
func TestReplicasClient(t *testing.T) {
	c := newCluster(t, 3, read(), write())
	var changes atomic.Int64
	session := c.connect(t, "token-a", "2025-11-25", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes.Add(1) },
	})
	for range 7 {
		if list, err := session.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 5 {
			t.Fatal(list, err)
		}
		if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read"}); err != nil || res.IsError {
			t.Fatal(res, err)
		}
		if err := session.Ping(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "write"})
		done <- err
	}()
	eventually(t, "the call is held", func() bool { return c.gate.status("inv-8") == action.StatusPending })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error("the call ended with", err)
	}
	eventually(t, "the caller left", func() bool { return len(c.gate.leavers()) == 1 })
	eventually(t, "the event stream is open", func() bool {
		return c.nodes[0].server.Streams()+c.nodes[1].server.Streams()+c.nodes[2].server.Streams() == 1
	})
	for i := range 3 {
		c.change(fmt.Sprint("late_", i))
		eventually(t, "the change is heard", func() bool { return changes.Load() > int64(i) })
	}
	if n := changes.Load(); n != 3 {
		t.Error("three changes were told", n, "times")
	}
}

// Initialized here, listed there, the stream elsewhere: the stream's instance
// tells of changes, once.
func TestReplicasStream(t *testing.T) {
	c := newCluster(t, 3, read())
	a, b, d := c.nodes[0], c.nodes[1], c.nodes[2]
	id := a.initialize(t, "token-a")
	if got := b.post(t, "token-a", id, listBody); !strings.Contains(got.text, `"read"`) {
		t.Fatal(got.StatusCode, got.text)
	}
	w := d.watch(t, "token-a", id)
	eventually(t, "the stream is open", func() bool { return d.server.Streams() == 1 })
	for i := range 3 {
		c.change(fmt.Sprint("late_", i))
		eventually(t, "the change is heard", func() bool { return w.changes.Load() > int64(i) })
	}
	if n := a.server.Streams() + b.server.Streams(); n != 0 {
		t.Error("the SDK holds sessions without a stream:", n)
	}
	if got := d.method(t, http.MethodGet, "token-a", id); got != http.StatusConflict {
		t.Error("a second stream:", got)
	}
	told := func(what string, w *watch, id string, want int64) {
		t.Helper()
		d.method(t, http.MethodDelete, "token-a", id)
		eventually(t, "the stream ends", w.over.Load)
		if n := w.changes.Load(); n != want {
			t.Errorf("%s: told %d times, want %d", what, n, want)
		}
	}
	told("three changes", w, id, 3)

	id = a.initialize(t, "token-a")
	w = d.watch(t, "token-a", id)
	eventually(t, "the stream is open", func() bool { return d.server.Streams() == 1 })
	w.hangUp()
	eventually(t, "the stream is closed", func() bool { return d.server.Streams() == 0 })
	told("a stream that opens again without a change", d.watch(t, "token-a", id), id, 0)

	// A client that was away for some time may have missed something.
	id = a.initialize(t, "token-a")
	c.later.Store(int64(2 * time.Minute))
	w = d.watch(t, "token-a", id)
	eventually(t, "the stream is open", func() bool { return d.server.Streams() == 1 })
	c.change("late_3")
	eventually(t, "the change is heard", func() bool { return w.changes.Load() > 1 })
	told("a change, and one that may have been missed", w, id, 2)
}

// An event stream of a version that is not spoken is refused.
func TestStreamVersion(t *testing.T) {
	s := newServer(t, newGate(), &hints{}, nil)
	end(t, s)
	r := rpc("token-a", begin(t, s, "token-a"), "")
	r.Method = http.MethodGet
	r.Header.Set("Mcp-Protocol-Version", "1999-01-01")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of a stream that opens
	defer cancel()
	if w := serve(s, r.WithContext(ctx)); w.Code != 400 {
		t.Error(w.Code, w.Body)
	}
}

// A client that took its list before a change and opens its stream after it
// hears of the change all the same.
func TestChangeBeforeStream(t *testing.T) {
	c := newCluster(t, 1, read())
	id := c.initialize(t, "token-a")
	c.post(t, "token-a", id, listBody)
	c.gate.add(&served{Action: action.Action{Tool: "late"}})
	c.nodes[0].post(t, "token-b", c.initialize(t, "token-b"), listBody) // someone else's list announces it to nobody
	time.Sleep(20 * time.Millisecond)
	w := c.watch(t, "token-a", id)
	eventually(t, "the change is heard", func() bool { return w.changes.Load() == 1 })
}

// A cancel finds its call on whatever instance it is in flight.
func TestReplicasCancel(t *testing.T) {
	c := newCluster(t, 2, write(), read())
	a, b := c.nodes[0], c.nodes[1]
	id := a.initialize(t, "token-a")
	answers := make(chan *answered, 1)
	hold := func(request string) {
		n := len(c.gate.ids())
		go func() { answers <- a.post(t, "token-a", id, callBody(request, "write", "")) }()
		eventually(t, "the call is held", func() bool {
			ids := c.gate.ids()
			return len(ids) == n+1 && c.gate.status(ids[n]) == action.StatusPending
		})
	}
	hold(`"x"`)
	// Another principal's id, and another id of the same principal, are others.
	b.post(t, "token-b", b.initialize(t, "token-b"), cancelBody(`"x"`, "stop"))
	b.post(t, "token-a", b.initialize(t, "token-a"), cancelBody(`"x"`, "stop"))
	c.peers.carried.Wait()
	if got := c.gate.status("inv-1"); got != action.StatusPending {
		t.Error("cancelled by another session:", got)
	}
	if got := b.post(t, "token-a", id, cancelBody(`"\u0078"`, "AbortError: stop")); got.StatusCode != 202 {
		t.Error(got.StatusCode, got.text)
	}
	if got := <-answers; strings.Contains(got.text, "result") {
		t.Error("a cancelled call was answered", got.text)
	}
	eventually(t, "the call is withdrawn", func() bool { return c.gate.status("inv-1") == action.StatusDenied })

	hold("2")
	b.post(t, "token-a", id, cancelBody("2", "McpError: MCP error -32001: Request timed out"))
	<-answers
	if got := c.gate.status("inv-2"); got != action.StatusPending {
		t.Error("a timeout made the call", got)
	}
	leavers := c.gate.leavers()
	if len(leavers) != 2 || !errors.Is(leavers[0], action.ErrCancelled) || !errors.Is(leavers[1], action.ErrCallerGone) {
		t.Error("they left because:", leavers)
	}
}

// Late cancels, which some clients send after every call, cost a row only
// where the call was not.
func TestLateCancels(t *testing.T) {
	c := newCluster(t, 2, read())
	a, b := c.nodes[0], c.nodes[1]
	id := a.initialize(t, "token-a")
	for i := range 5 {
		if got := a.post(t, "token-a", id, callBody(i, "read", "")); !strings.Contains(got.text, "done") {
			t.Fatal(got.text)
		}
		a.post(t, "token-a", id, cancelBody(fmt.Sprint(i), "AbortError"))
	}
	if n := c.peers.posted(mcpserver.SignalCancel); n != 0 {
		t.Error("posted by the instance where the calls were:", n)
	}
	b.post(t, "token-a", id, cancelBody("1", "AbortError"))
	if n := c.peers.posted(mcpserver.SignalCancel); n != 1 {
		t.Error("posted by another:", n)
	}
	for i := range 10 { // what is remembered of a session has an end
		a.post(t, "token-a", id, callBody(10+i, "read", ""))
	}
	a.post(t, "token-a", id, cancelBody("10", "AbortError"))
	if n := c.peers.posted(mcpserver.SignalCancel); n != 2 {
		t.Error("posted of a call of long ago:", n)
	}
	b.post(t, "token-a", id, cancelBody(`"`+strings.Repeat("x", 1000)+`"`, "AbortError"))
	if n := c.peers.posted(mcpserver.SignalCancel); n != 2 {
		t.Error("posted with an endless id")
	}
	for i := range 200 {
		b.post(t, "token-a", id, cancelBody(fmt.Sprint(1000+i), "stop"))
	}
	if n := c.peers.posted(mcpserver.SignalCancel); n > 2+120 {
		t.Error("posted without end:", n)
	}
	c.peers.carried.Wait()
	if got := a.post(t, "token-a", id, callBody(1, "read", "")); !strings.Contains(got.text, "done") {
		t.Error("a call after late cancels:", got.text)
	}
}

// A session that its client ended is gone everywhere, also where it was in use.
func TestReplicasDelete(t *testing.T) {
	c := newCluster(t, 3, read())
	a, b, d := c.nodes[0], c.nodes[1], c.nodes[2]
	id, other := a.initialize(t, "token-a"), a.initialize(t, "token-a")
	w := a.watch(t, "token-a", id)
	b.post(t, "token-a", id, pingBody)

	c.peers.fail(errDown)
	if got := d.post(t, "token-a", id, pingBody); got.StatusCode != 503 || strings.Contains(got.text, "secret") {
		t.Error("while nobody can say whether it ended:", got.StatusCode, got.text)
	}
	if got := b.method(t, http.MethodDelete, "token-a", id); got != 503 {
		t.Error("DELETE while the peers are away:", got)
	}
	if got := b.post(t, "token-a", id, pingBody); got.StatusCode != 200 {
		t.Error("after a DELETE that failed:", got.StatusCode)
	}
	if got := b.post(t, "token-a", id, cancelBody("1", "x")); got.StatusCode != 503 {
		t.Error("a cancel that could not be passed on:", got.StatusCode)
	}
	c.peers.fail(nil)

	if got := d.method(t, http.MethodDelete, "token-b", id); got != 404 {
		t.Error("DELETE by another principal:", got)
	}
	if got := d.method(t, http.MethodDelete, "token-a", id); got != 204 {
		t.Error("DELETE:", got)
	}
	if until := c.peers.ended["acme "+mcpserver.SessionHash(id)]; !until.After(time.Now().Add(24 * time.Hour)) {
		t.Error("the end is noted until", until)
	}
	eventually(t, "its event stream ends", w.over.Load)
	for i, node := range c.nodes {
		eventually(t, fmt.Sprint("the session is gone on ", i), func() bool {
			return node.post(t, "token-a", id, pingBody).StatusCode == 404
		})
		if got := node.method(t, http.MethodGet, "token-a", id); got != 404 {
			t.Error("an event stream of an ended session:", got)
		}
		if got := node.post(t, "token-a", other, pingBody); got.StatusCode != 200 {
			t.Error("the other session:", got.StatusCode, got.text)
		}
	}
	if got := c.join(t).post(t, "token-a", id, pingBody); got.StatusCode != 404 {
		t.Error("an instance that came later:", got.StatusCode)
	}
}

// Whoever ended a session finds it gone at once, also where it is in use and
// the signal is still on its way.
func TestReplicasDeleteAtOnce(t *testing.T) {
	c := newCluster(t, 2, read())
	a, b := c.nodes[0], c.nodes[1]
	c.peers.servers = nil // no signal arrives
	for name, use := range map[string]func(id string) int{
		"ping":       func(id string) int { return a.post(t, "token-a", id, pingBody).StatusCode },
		"tools/list": func(id string) int { return a.post(t, "token-a", id, listBody).StatusCode },
		"GET":        func(id string) int { return a.method(t, http.MethodGet, "token-a", id) },
		"DELETE":     func(id string) int { return a.method(t, http.MethodDelete, "token-a", id) },
	} {
		id := a.initialize(t, "token-a")
		if got := b.method(t, http.MethodDelete, "token-a", id); got != 204 {
			t.Fatal("DELETE:", got)
		}
		if got := use(id); got != 404 {
			t.Errorf("%s of a session that just ended: %d", name, got)
		}
	}
	if n, held := a.server.Held(); n != 0 || held != 0 {
		t.Error("left:", n, held)
	}
}

// An instance that hears of the end before it begins the session again does
// not begin it.
func TestEndedSessionStaysEnded(t *testing.T) {
	c := newCluster(t, 2, read())
	a, b := c.nodes[0], c.nodes[1]
	id := a.initialize(t, "token-a")
	sig := mcpserver.Signal{Kind: mcpserver.SignalEnd, Organization: "acme", Session: mcpserver.SessionHash(id)}
	for _, wrong := range []mcpserver.Signal{
		{},
		{Kind: mcpserver.SignalEnd, Organization: "acme", Session: "zz"},
		{Kind: mcpserver.SignalEnd, Organization: "other", Session: sig.Session},
		{Kind: mcpserver.SignalCancel, Organization: "acme", Session: sig.Session, Data: json.RawMessage(`[`)},
		{Kind: "unknown", Organization: "acme", Session: sig.Session},
	} {
		a.server.Receive(wrong)
	}
	if got := a.post(t, "token-a", id, pingBody); got.StatusCode != 200 {
		t.Error("ended by a signal that means nothing:", got.StatusCode)
	}
	b.server.Receive(sig)
	asked := c.peers.asked
	if got := b.post(t, "token-a", id, pingBody); got.StatusCode != 404 || c.peers.asked != asked {
		t.Error("begun again:", got.StatusCode)
	}
	// Also when the word comes while it is asked whether the session ended.
	id = a.initialize(t, "token-a")
	c.peers.asking = func() {
		b.server.Receive(mcpserver.Signal{Kind: mcpserver.SignalEnd, Organization: "acme", Session: mcpserver.SessionHash(id)})
	}
	if got := b.post(t, "token-a", id, pingBody); got.StatusCode != 404 {
		t.Error("begun again after all:", got.StatusCode)
	}
	if n, held := b.server.Held(); n != 0 || held != 0 || b.server.Ended() != 2 {
		t.Error("left:", n, held, b.server.Ended())
	}
	c.later.Store(int64(48 * time.Hour))
	b.server.Expire()
	if n := b.server.Ended(); n != 0 {
		t.Error("remembered for ever:", n)
	}
}

// Without peers an instance remembers for itself.
func TestDeleteAlone(t *testing.T) {
	s := open(t, nil, read())
	id := s.initialize(t, "token-a")
	if got := s.method(t, http.MethodDelete, "token-a", id); got != 204 {
		t.Error(got)
	}
	if got := s.post(t, "token-a", id, pingBody); got.StatusCode != 404 {
		t.Error(got.StatusCode)
	}
}

// An id is good for the principal that opened the session, on the instances
// that share the key, as it is, for a day.
func TestForeignSessions(t *testing.T) {
	c := newCluster(t, 2, read())
	id := c.nodes[0].initialize(t, "token-a")
	gone := func(s *site, token, id string) {
		t.Helper()
		got := s.post(t, token, id, callBody(1, "read", ""))
		if got.StatusCode != 404 || !strings.Contains(got.text, "initialize again") {
			t.Errorf("%s: %d %s", id, got.StatusCode, got.text)
		}
	}
	for _, node := range c.nodes {
		gone(node, "token-b", id)
		gone(node, "token-o", id)
	}
	gone(open(t, nil, read()), "token-a", id)
	gone(open(t, func(cfg *mcpserver.Config) { cfg.SessionKey = bytes.Repeat([]byte("other"), 8) }, read()), "token-a", id)
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		gone(c.nodes[1], "token-a", base64.RawURLEncoding.EncodeToString(changed))
	}
	for _, wrong := range []string{"x", id + "A", id[:len(id)-2], strings.Repeat("A", 100_000), base64.StdEncoding.EncodeToString(raw), strings.Repeat("A", 400)} {
		gone(c.nodes[1], "token-a", wrong)
	}
	if n := len(c.gate.ids()); n != 0 {
		t.Error("calls that ran:", n)
	}
	c.later.Store(int64(24*time.Hour - time.Minute))
	for _, node := range c.nodes {
		if got := node.post(t, "token-a", id, pingBody); got.StatusCode != 200 {
			t.Error("within the day:", got.StatusCode)
		}
	}
	w := c.nodes[1].watch(t, "token-a", id)
	c.later.Store(int64(24 * time.Hour))
	for _, node := range c.nodes {
		gone(node, "token-a", id)
	}
	_ = w
}

// The event stream of a session ends with the life of its id, or a client that
// only listens would never learn of it.
func TestStreamEndsWithItsSession(t *testing.T) {
	var later atomic.Int64
	s := open(t, func(cfg *mcpserver.Config) {
		cfg.IdleSession = 100 * time.Millisecond
		cfg.SessionLife = time.Hour
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	}, read())
	w := s.watch(t, "token-a", s.initialize(t, "token-a"))
	later.Store(int64(50 * time.Minute))
	time.Sleep(50 * time.Millisecond) // some sweeps
	if w.over.Load() {
		t.Error("the stream ended before its time")
	}
	later.Store(int64(time.Hour))
	eventually(t, "the stream ends", w.over.Load)
	eventually(t, "nothing is left", func() bool { return s.server.Streams() == 0 && s.server.SDKSessions() == 0 && s.server.Sessions() == 0 })
	if mcpserver.StreamAfterEnd() == nil {
		t.Error("a stream that opens as its session ends goes on")
	}
}

// A restarted instance goes on with the sessions that it had.
func TestRestart(t *testing.T) {
	keyed := func(cfg *mcpserver.Config) { cfg.SessionKey = clusterKey }
	id := open(t, keyed, read()).initialize(t, "token-a")
	s := open(t, keyed, read())
	if got := s.post(t, "token-a", id, callBody(1, "read", "")); !strings.Contains(got.text, "done") {
		t.Error(got.StatusCode, got.text)
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":5,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
	} {
		if got := s.post(t, "token-a", id, body); got.StatusCode != 202 || got.text != "" {
			t.Error(body, got.StatusCode, got.text)
		}
	}
	for _, body := range []string{pingBody, `{"jsonrpc":"2.0","id":90,"method":"logging/setLevel","params":{"level":"info"}}`} {
		if got := s.post(t, "token-a", id, body); got.text != `{"jsonrpc":"2.0","id":90,"result":{}}` || got.Header.Get("Content-Type") != "application/json" {
			t.Error(body, got.StatusCode, got.text, got.Header)
		}
	}
	if got := s.post(t, "token-a", id, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); !strings.Contains(got.text, "duplicate") || got.Header.Get("Mcp-Session-Id") != "" {
		t.Error("a second initialize:", got.text)
	}
	w := s.watch(t, "token-a", id)
	eventually(t, "the stream is open", func() bool { return s.server.Streams() == 1 })
	s.gate.add(&served{Action: action.Action{Tool: "late"}})
	s.hints.Publish(action.Hint{Kind: action.HintCatalog, Organization: "acme"})
	eventually(t, "the change is heard", func() bool { return w.changes.Load() == 1 })
	if n := s.server.Sessions(); n != 1 {
		t.Error("sessions:", n)
	}
}

// Many requests that begin the same session again at once make one.
func TestResumedOnce(t *testing.T) {
	c := newCluster(t, 2, read())
	id := c.nodes[0].initialize(t, "token-a")
	b := c.nodes[1]
	const many = 16
	var wg, asking sync.WaitGroup
	asking.Add(many)
	c.peers.asking = func() { asking.Done(); asking.Wait() } // all of them, before one goes on
	for i := range many {
		wg.Go(func() {
			body := []string{pingBody, callBody(i, "read", ""), listBody}[i%3]
			if got := b.post(t, "token-a", id, body); got.StatusCode != 200 || !strings.Contains(got.text, `"result"`) {
				t.Error(body, got.StatusCode, got.text)
			}
		})
	}
	wg.Wait()
	if n, held := b.server.Held(); n != 1 || held != 1 || b.server.Sessions() != 1 {
		t.Error("sessions:", b.server.Sessions(), n, held)
	}
	eventually(t, "nothing is left", func() bool { return b.server.Streams() == 0 })
	eventually(t, "it is forgotten", func() bool {
		if c.later.Load() < int64(20*time.Hour) { // the last request may have ended this moment
			c.later.Add(int64(2 * time.Hour))
		}
		b.server.Expire()
		n, held := b.server.Held()
		return n == 0 && held == 0
	})
}

// Clients that take plain JSON only get it, from every instance.
func TestPlainJSON(t *testing.T) {
	s := newServer(t, newGate(read()), &hints{}, nil)
	end(t, s)
	r := rpc("token-a", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	r.Header.Set("Accept", "application/json")
	w := serve(s, r)
	if w.Header().Get("Content-Type") != "application/json" || !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), `"protocolVersion":"2025-11-25"`) {
		t.Fatal(w.Header(), w.Body)
	}
	r = rpc("token-a", w.Header().Get("Mcp-Session-Id"), pingBody)
	r.Header.Set("Accept", "application/json")
	if w := serve(s, r); w.Header().Get("Content-Type") != "application/json" || w.Body.String() != `{"jsonrpc":"2.0","id":90,"result":{}}` {
		t.Error(w.Header(), w.Body)
	}
}
