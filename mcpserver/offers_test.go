package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/mcpserver"
)

// answering is a client that answers whatever it is asked.
func answering() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"n": 7}, Meta: mcp.Meta{"said": r.Params.Message}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) { //nolint:staticcheck // deprecated, and in use
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "yes"}}, nil //nolint:staticcheck // as above
		},
	}
}

// A real client of either era is asked and answers, without knowing of us.
func TestClientIsAsked(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		s := open(t, nil)
		s.gate.offer()
		session := s.connect(t, "token-a", version, answering())
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "asks"})
		if err != nil || res.IsError {
			t.Fatal(res, err)
		}
		var raw struct{ First, Second map[string]action.Reply }
		if err := json.Unmarshal(s.gate.body("inv-1"), &raw); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"said":"Demo asks: How many?"`, `"n":7`} {
			if got := string(raw.First["a/b"].Result); !strings.Contains(got, want) {
				t.Errorf("the reply %s has no %s", got, want)
			}
		}
		if got := string(raw.Second["s"].Result); !strings.Contains(got, `"yes"`) {
			t.Error("the model said", got)
		}
		if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "asks"}); err != nil {
			t.Error(err)
		}
	})
}

// What is offered beside tools reaches a real client of either era.
func TestClientReads(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		s := open(t, nil)
		s.gate.offer()
		updated, changed := make(chan string, 10), make(chan string, 10)
		session := s.connect(t, "token-a", version, &mcp.ClientOptions{
			ResourceUpdatedHandler:     func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { changed <- "prompts" },
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { changed <- "resources" },
		})
		if list, err := session.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 4 {
			t.Fatal(list, err)
		}
		if list, err := session.ListPrompts(t.Context(), nil); err != nil || len(list.Prompts) != 5 {
			t.Fatal(list, err)
		}
		if res, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "demo://b"}); err != nil || res.Contents[0].Text != "t" {
			t.Fatal(res, err)
		}
		res, err := session.Complete(t.Context(), &mcp.CompleteParams{
			Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "two_greet"}, Argument: mcp.CompleteParamsArgument{Name: "who", Value: "a"},
		})
		if err != nil || res.Completion.Values[0] != "two prompts/get" {
			t.Fatal(res, err)
		}
		if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "two+demo://b"}); err != nil {
			t.Fatal(err)
		}
		// The streams open on their own time.
		heard := func(what string, c chan string, do func()) {
			t.Helper()
			for range 50 {
				do()
				select {
				case got := <-c:
					if got != what {
						t.Errorf("heard of %s, not %s", got, what)
					}
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
			t.Fatal("nothing was heard of", what)
		}
		heard("two+demo://b", updated, func() {
			s.hints.Publish(action.Hint{Kind: action.HintResource, Organization: "acme", Source: "two", Resource: "demo://b"})
		})
		for _, kind := range []string{"prompts", "resources"} {
			heard(kind, changed, func() {
				s.gate.move(kind)
				s.hints.Publish(action.Hint{Kind: action.HintCatalog, Organization: "acme"})
			})
		}
	})
}

// The instance that has the event stream tells of resources whose subscription
// came to another; what was subscribed to ends with the session, wherever that
// ended.
func TestReplicasSubscribe(t *testing.T) {
	c := newCluster(t, 3)
	c.gate.offer()
	a, b, d := c.nodes[0], c.nodes[1], c.nodes[2]
	id := a.initialize(t, "token-a")
	w := d.watch(t, "token-a", id)
	eventually(t, "the stream is open", func() bool { return d.server.Streams() == 1 })
	sub := func(s *site, method, uri string) {
		t.Helper()
		got := s.post(t, "token-a", id, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":%q}}`, method, uri))
		if got.text != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Fatal(method, got.StatusCode, got.text)
		}
	}
	tell := func() {
		c.hints.Publish(action.Hint{Kind: action.HintResource, Organization: "acme", Source: "two", Resource: "demo://b"})
	}
	sub(b, "subscribe", "two+demo://b")
	sub(a, "subscribe", "demo://b")
	eventually(t, "the update is heard", func() bool { tell(); return w.updates.Load() > 0 })
	sub(b, "subscribe", "two+demo://b")
	if got := c.gate.subscribed(); got != "demo demo://b 1\ntwo demo://b 1\n" {
		t.Errorf("subscribed to %q", got)
	}
	c.peers.carried.Wait() // all have been told
	// Nobody forgets a session that listens elsewhere.
	c.later.Store(int64(2 * time.Hour))
	b.server.Expire()
	if n := b.server.Subscribed(id); n != 2 { // its own, and the one that it was told of
		t.Error("after two hours there are", n)
	}
	sub(d, "unsubscribe", "two+demo://b")
	eventually(t, "the subscription ends where it was made", func() bool { return c.gate.subscribed() == "demo demo://b 1\n" })
	before := w.updates.Load()
	tell()
	if got := d.method(t, http.MethodDelete, "token-a", id); got != http.StatusNoContent {
		t.Fatal(got)
	}
	eventually(t, "all ends with the session", func() bool { return c.gate.subscribed() == "" })
	eventually(t, "the stream ends", w.over.Load)
	if n := w.updates.Load(); n != before {
		t.Error("heard of a resource after the subscription ended")
	}
}

// A client asked by one instance replies to another; in the stateless era its
// whole retry goes there.
func TestReplicasQuestions(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			c := newCluster(t, 3)
			c.gate.offer()
			session := c.connect(t, "token-a", version, answering())
			for range 5 {
				if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "asks"}); err != nil || res.IsError {
					t.Fatal(res, err)
				}
			}
		})
	}
}

// Beyond its limit a session subscribes to nothing more; what it has is bounded
// also where peers tell of it.
func TestSubscriptionLimit(t *testing.T) {
	c := newCluster(t, 2)
	c.gate.offer()
	a, b := c.nodes[0], c.nodes[1]
	id := a.initialize(t, "token-a")
	b.post(t, "token-a", id, pingBody)
	refused := 0
	for i := range 103 {
		got := a.post(t, "token-a", id, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"demo://t/%d"}}`, i))
		if strings.Contains(got.text, "100 subscriptions already") {
			refused++
		}
	}
	if n := strings.Count(c.gate.subscribed(), "\n"); refused != 3 || n != 100 {
		t.Errorf("%d were refused, %d stand", refused, n)
	}
	for i := range 5 {
		b.server.Receive(mcpserver.Signal{
			Kind: mcpserver.SignalSubscribe, Organization: "acme", Session: mcpserver.SessionHash(id),
			Data: json.RawMessage(fmt.Sprintf(`{"uri":"more-%d","source":"demo","name":"x"}`, i)),
		})
	}
	c.peers.carried.Wait()
	if n := b.server.Subscribed(id); n > 100 {
		t.Error("peers told of", n)
	}
}

const askBody = `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"asks"}}`

// A reply that cannot be kept is said to be none, so that the source need not
// wait; one that cannot be written down just now may come again.
func TestFailedReplies(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		told   string
	}{
		{action.Errorf(action.ErrTooLarge, "reply_too_large", "The replies have 2000 KiB; 1024 are allowed."), 202, "2000 KiB"},
		{action.Errorf(action.ErrNotReady, "database_unavailable", "Not now."), 503, ""},
		{action.Errorf(action.ErrGone, "round_over", "The source waits no more."), 202, ""},
	} {
		s := open(t, nil)
		s.gate.offer()
		id := s.initializeAs(t, "token-a", `{"elicitation":{}}`)
		done := make(chan string, 1)
		go func() {
			done <- s.post(t, "token-a", id, askBody).text
		}()
		eventually(t, "the client is asked", func() bool { return s.gate.isAsked("inv-1") })
		s.gate.failReplies(test.err, 1)
		reply := `{"jsonrpc":"2.0","id":"sallyport/01920000-0000-7000-8000-000000000001/who","result":{"action":"accept"}}`
		if got := s.post(t, "token-a", id, reply); got.StatusCode != test.status {
			t.Errorf("%v: %d", test.err, got.StatusCode)
		}
		s.post(t, "token-a", id, reply)
		if got := <-done; !strings.Contains(got, test.told) || test.told == "" && !strings.Contains(got, "accept") {
			t.Errorf("%v: %s", test.err, got)
		}
	}
}

// A session that is full, or over, by the time that a source agreed is told so,
// and the source is told again.
func TestLateSubscription(t *testing.T) {
	for _, test := range []struct {
		name   string
		during func(s *site, id string)
		status int
		told   string
	}{
		{"over", func(s *site, id string) { s.method(t, http.MethodDelete, "token-a", id) }, 404, "unknown or has expired"},
		{"full", func(s *site, id string) {
			for i := range 100 {
				s.server.Receive(mcpserver.Signal{
					Kind: mcpserver.SignalSubscribe, Organization: "acme", Session: mcpserver.SessionHash(id),
					Data: json.RawMessage(fmt.Sprintf(`{"uri":"more-%d","source":"demo","name":"x"}`, i)),
				})
			}
		}, 200, "100 subscriptions already"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, nil)
			s.gate.offer()
			id := s.initialize(t, "token-a")
			s.gate.subscribing = func(_ context.Context, _, _ string, on bool) error {
				if on {
					test.during(s, id)
				}
				return nil
			}
			got := s.post(t, "token-a", id, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"demo://b"}}`)
			if got.StatusCode != test.status || !strings.Contains(got.text, test.told) {
				t.Error(got.StatusCode, got.text)
			}
			eventually(t, "nothing is subscribed to", func() bool { return s.gate.subscribed() == "" })
		})
	}
}

// A client of the stateless era that does not get its question comes back for
// it: its source goes on waiting.
func TestUnsentQuestion(t *testing.T) {
	const asks = `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"asks","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	for _, test := range []struct {
		name string
		w    http.ResponseWriter
		left bool
	}{
		{"a write fails", &brokenWriter{ResponseRecorder: httptest.NewRecorder(), write: errDown}, false},
		{"the client left after it", httptest.NewRecorder(), true},
	} {
		g := newGate()
		g.offer()
		s := newServer(t, g, &hints{}, nil)
		end(t, s)
		ctx, leave := context.WithCancel(t.Context())
		r := rpc("token-a", "", asks).WithContext(ctx)
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "prompts/get")
		r.Header.Set("Mcp-Name", "asks")
		w := test.w
		if test.left {
			w = &eagerLeaver{test.w, leave}
		}
		s.ServeHTTP(w, r)
		leave()
		if !g.isAsked("inv-1") || g.repliesHeard() != 0 || g.status("inv-1") != action.StatusExecuting {
			t.Errorf("%s: asked %v, %d replies, %s", test.name, g.isAsked("inv-1"), g.repliesHeard(), g.status("inv-1"))
		}
	}
}

// eagerLeaver is a client that leaves as soon as it has its answer.
type eagerLeaver struct {
	http.ResponseWriter
	leave func()
}

func (w *eagerLeaver) FlushError() error { w.leave(); return nil }

// A question that does not fit into a requestState is not asked, and its source
// hears why.
func TestQuestionTooLong(t *testing.T) {
	s := open(t, nil)
	s.gate.offer()
	ask := func(want string) {
		t.Helper()
		got := s.modernNamed(t, "token-a", "tools/call", "asks_long",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asks_long","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`).all()
		if strings.Contains(got, "input_required") || !strings.Contains(got, want) {
			t.Error(got[:min(len(got), 500)])
		}
	}
	ask("could not be asked")
	s.gate.failReplies(action.Errorf(action.ErrTooLarge, "reply_too_large", "The replies have 2000 KiB; 1024 are allowed."), 1)
	ask(`"replies":{}`) // a reason for each key is too much, so that there is none
}

// What comes as a reply costs the rows nothing when it can be none, and is
// bounded when it can, however many MCP sessions it comes by.
func TestReplyRateLimit(t *testing.T) {
	var later atomic.Int64
	g := newGate()
	s := newServer(t, g, &hints{}, func(c *mcpserver.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	end(t, s)
	reply := func(token, round string) int {
		t.Helper()
		return serve(s, rpc(token, begin(t, s, token), `{"jsonrpc":"2.0","id":"sallyport/`+round+`/k","result":{}}`)).Code
	}
	const round = "01920000-0000-7000-8000-000000000001"
	for _, none := range []string{"", "r", "{" + round[2:] + "}", strings.ReplaceAll(round, "-", "_"), strings.ReplaceAll(round, "-", "")} {
		if got := reply("token-a", none); got != 202 || g.repliesHeard() != 0 {
			t.Errorf("%q: %d, and the gate heard %d", none, got, g.repliesHeard())
		}
	}
	counts := map[int]int{}
	for range 122 {
		counts[reply("token-a", round)]++
	}
	if counts[202] != 120 || counts[429] != 2 || g.repliesHeard() != 120 {
		t.Errorf("of 122 replies %v, and the gate heard %d", counts, g.repliesHeard())
	}
	if got := reply("token-b", round); got != 202 {
		t.Error("another session's:", got)
	}
	later.Store(int64(time.Minute))
	s.Expire()
	if got := reply("token-a", round); got != 202 {
		t.Error("a minute later:", got)
	}
}

// Whoever is asked is gone: the source is told, and need not wait.
func TestQuestionToDisconnectedClient(t *testing.T) {
	s := open(t, nil)
	s.gate.offer()
	id := s.initializeAs(t, "token-a", `{"elicitation":{}}`)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(askBody))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = rpc("token-a", id, "").Header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	eventually(t, "the client is asked", func() bool { return s.gate.isAsked("inv-1") })
	cancel()
	eventually(t, "the source goes on", func() bool { return s.gate.status("inv-1") == action.StatusCompleted })
	if got := string(s.gate.body("inv-1")); !strings.Contains(got, "disconnected") {
		t.Error(got)
	}
}

// What the stateless era wants is added where it is missing. That what was read
// is the session's own is said in any case; nothing else changes.
func TestStatelessResults(t *testing.T) {
	for _, test := range []struct{ method, result, want string }{
		{"tools/call", ` { "content":[] }`, `{"resultType":"complete", "content":[] }`},
		{"tools/call", `{"content":[],"resultType":"odd"}`, `{"content":[],"resultType":"odd"}`},
		{"tools/call", `{ }`, `{"resultType":"complete"}`},
		{"tools/call", `{"cacheScope":"public"}`, `{"resultType":"complete","cacheScope":"public"}`},
		{"tools/call", `7`, `7`},
		{"resources/read", `{"contents":[]}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}`},
		{"resources/read", `{"ttlMs":9.0,"cacheScope": "public" ,"contents":[],"resultType":"complete"}`, `{"ttlMs":9.0,"cacheScope": "private" ,"contents":[],"resultType":"complete"}`},
		{"resources/read", `{"cacheScope":"private","cacheScop\u0065":"public"}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","cacheScop\u0065":"private"}`},
		{"resources/read", `{"resultType":"input_required"}`, `{"resultType":"input_required"}`},
	} {
		if got := string(mcpserver.StatelessResult(test.method, []byte(test.result))); got != test.want {
			t.Errorf("%s %s came to %s, want %s", test.method, test.result, got, test.want)
		}
	}
}

// Clients with sessions get no members of the stateless protocol. A result of an older
// source, which may have members of these names, is not touched.
func TestSessionResults(t *testing.T) {
	const server = `"io.modelcontextprotocol/serverInfo":{"name":"s"}`
	for _, test := range []struct{ method, result, want string }{
		{"tools/call", `{"resultType":"complete","content":[],"big":12345678901234567890,"_meta":{` + server + `,"k":1.10}}`, `{"content":[],"big":12345678901234567890,"_meta":{"k":1.10}}`},
		{"tools/call", `{"content":[{"text": "resultType"}],"_meta":{` + server + `},"resultType":"complete","ttlMs":1}`, `{"content":[{"text": "resultType"}],"ttlMs":1}`},
		{"resources/read", `{"ttlMs":0,"cacheScope":"private","contents":[],"resultType":"complete"}`, `{"contents":[]}`},
		{"tools/call", ` { "content":[] ,"ttlMs":1,"_meta":{` + server + `}}`, ` { "content":[] ,"ttlMs":1,"_meta":{` + server + `}}`},
		{"tools/call", `{"resultType":"odd","content":[]}`, `{"resultType":"odd","content":[]}`},
		{"tools/call", `7`, `7`},
	} {
		if got := string(mcpserver.SessionResult(test.method, []byte(test.result))); got != test.want {
			t.Errorf("%s %s came to %s, want %s", test.method, test.result, got, test.want)
		}
	}
	newer := read()
	newer.run = func(context.Context, json.RawMessage, func(string)) action.Outcome {
		return answer(`{"resultType":"complete","content":[]}`)
	}
	s := newServer(t, newGate(newer), &hints{}, nil)
	end(t, s)
	if got := serve(s, rpc("token-a", begin(t, s, "token-a"), callBody(1, "read", ""))).Body.String(); strings.Contains(got, "resultType") {
		t.Error("in a session:", got)
	}
}

// A list that changes while an event stream opens is told on it.
func TestChangeWhileOpening(t *testing.T) {
	if got := mcpserver.FirstEvents("v1", "v2"); !strings.Contains(got, "tools/list_changed") {
		t.Errorf("told %q", got)
	}
	if got := mcpserver.FirstEvents("v2", "v2"); got != "" {
		t.Errorf("without a change told %q", got)
	}
}

// What there is beside tools is asked for by those who are told of it, once, and
// by nobody else.
func TestOfferingsAreAskedForOnce(t *testing.T) {
	s := open(t, nil, read())
	s.gate.offer()
	asked := func(what string, want int, do func()) {
		t.Helper()
		before := s.gate.askedForOfferings()
		do()
		if n := s.gate.askedForOfferings() - before; n != want {
			t.Errorf("%s asks %d times, want %d", what, n, want)
		}
	}
	var id string
	asked("initialize", 1, func() { id = s.initialize(t, "token-a") })
	asked("ping", 0, func() { s.post(t, "token-a", id, pingBody) })
	asked("an event stream", 1, func() {
		s.watch(t, "token-a", id)
		eventually(t, "it is open", func() bool { return s.server.Streams() == 1 })
	})
	modern := func(method string) *listening {
		return s.modern(t, "token-a", method, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"notifications":{"toolsListChanged":true},"_meta":{`+clientMeta+`}}}`)
	}
	asked("server/discover", 1, func() { modern("server/discover").all() })
	asked("ping of the stateless era", 0, func() { modern("ping").all() })
	asked("subscriptions/listen", 1, func() {
		modern("subscriptions/listen")
		eventually(t, "it is open", func() bool { return s.server.Streams() == 2 })
	})
}
