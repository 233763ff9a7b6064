package connector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// listenTo listens until the test ends.
func listenTo(t *testing.T, s *connector.Source) (heard chan sources.Notice, ended chan error) {
	t.Helper()
	heard, ended = make(chan sources.Notice, 100), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- s.Listen(ctx, func(n sources.Notice) { heard <- n }) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("listening ended with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("listening does not end")
		}
	})
	return heard, ended
}

func wantNotices(t *testing.T, heard chan sources.Notice, want ...sources.Notice) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-heard:
			if got != w {
				t.Fatalf("heard %v, want %v", got, w)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("did not hear %v", w)
		}
	}
}

// wantAmong waits for a word, whatever comes before it.
func wantAmong(t *testing.T, heard chan sources.Notice, want sources.Notice) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case got := <-heard:
			if got == want {
				return
			}
		case <-late:
			t.Fatalf("did not hear %v", want)
		}
	}
}

// TestListenToRealServers has servers of the SDK change their lists and a
// resource.
func TestListenToRealServers(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			empty := func(context.Context, *mcp.SubscribeRequest) error { return nil }
			server := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, &mcp.ServerOptions{
				SubscribeHandler:   empty,
				UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
			})
			read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text"}}}, nil
			}
			server.AddResource(&mcp.Resource{URI: "x:a", Name: "a"}, read)
			server.AddPrompt(&mcp.Prompt{Name: "p"}, nil)
			tool := func(name string) {
				server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, nil)
			}
			tool("one")
			front := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
				Stateless: era.stateless, PropagateRequestCancellation: true,
			}))
			t.Cleanup(front.Close)
			s := open(t, front.URL, nil)
			l, err := s.List(t.Context())
			if err != nil || len(l.Resources) != 1 || len(l.Prompts) != 1 || !l.Capabilities.Subscribe {
				t.Fatalf("listed %+v, %v", l, err)
			}
			heard, _ := listenTo(t, s)
			wait(t, "the stream is open", func() bool {
				tool(fmt.Sprint("t", time.Now().UnixNano()))
				time.Sleep(30 * time.Millisecond)
				return len(heard) > 0
			})
			time.Sleep(50 * time.Millisecond) // for a second word of the same
			for len(heard) > 0 {
				<-heard
			}
			if err := s.Subscribe(t.Context(), "x:a", true); err != nil {
				t.Fatal(err)
			}
			tool("two")
			wantNotices(t, heard, sources.Notice{Kind: sources.NoticeTools})
			server.AddPrompt(&mcp.Prompt{Name: "q"}, nil)
			wantNotices(t, heard, sources.Notice{Kind: sources.NoticePrompts})
			server.AddResource(&mcp.Resource{URI: "x:b", Name: "b"}, read)
			wantNotices(t, heard, sources.Notice{Kind: sources.NoticeResources})
			update := func() {
				if err := server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "x:a"}); err != nil {
					t.Error(err)
				}
			}
			update()
			wantNotices(t, heard, sources.Notice{Kind: sources.NoticeUpdated, URI: "x:a"})

			// As many calls end it as began it.
			for _, on := range []bool{true, false} {
				if err := s.Subscribe(t.Context(), "x:a", on); err != nil {
					t.Fatal(err)
				}
			}
			update()
			wantNotices(t, heard, sources.Notice{Kind: sources.NoticeUpdated, URI: "x:a"})
		})
	}
}

// TestListenAgain has a server with sessions close its streams, forget a
// session, and hear of the subscriptions again.
func TestListenAgain(t *testing.T) {
	var streams atomic.Int64
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case r.Method == http.MethodGet:
			n := streams.Add(1)
			if n == 3 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			stream(w)
			switch n {
			case 1:
				say(w, `{"jsonrpc":"2.0","id":7,"method":"ping"}`)
				say(w, `{"jsonrpc":"2.0","id":8,"method":"roots/list"}`)
				say(w, `{"jsonrpc":"2.0","id":9,"result":{}}`)
				say(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
				say(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			case 2:
				say(w, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:\u00e9"}}`)
				fmt.Fprint(w, `data: {"jsonrpc":"2.0","method":"notifications/prompts/list_ch`)
			default:
				<-r.Context().Done()
			}
		case p.Method == "":
			w.WriteHeader(http.StatusAccepted)
		default:
			respond(w, p, `{}`)
		}
	})
	u.offer(`{"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`)
	s := open(t, u.URL, func(c *connector.Config) { c.Backoff = time.Millisecond })
	for range 2 {
		if err := s.Subscribe(t.Context(), "x:a", true); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(u.received("resources/subscribe")); n != 1 {
		t.Errorf("subscribed %d times", n)
	}
	if err := s.Subscribe(t.Context(), "x:é", true); err != nil {
		t.Fatal(err)
	}
	heard, _ := listenTo(t, s)
	tools, resources, a := sources.Notice{Kind: sources.NoticeTools}, sources.Notice{Kind: sources.NoticeResources}, sources.Notice{Kind: sources.NoticeUpdated, URI: "x:a"}
	wantNotices(t, heard, tools, tools, resources)
	wantAmong(t, heard, sources.Notice{Kind: sources.NoticeUpdated, URI: "x:é"})
	wantAmong(t, heard, tools)
	wantAmong(t, heard, a) // as of the new session
	answers := u.received("")
	if len(answers) != 2 || string(answers[0].Result) != `{}` || !strings.Contains(string(answers[1].Error), "-32601") {
		t.Errorf("the server was told %+v", answers)
	}
	subscribed := u.received("resources/subscribe")
	if first := subscribed[2]; first.header.Get("Mcp-Session-Id") != "session-2" || first.Params.URI != "x:a" {
		t.Errorf("the new session was told %s", first.raw)
	}
	for range 2 {
		if n := len(u.received("resources/unsubscribe")); n != 0 {
			t.Errorf("unsubscribed too early")
		}
		if err := s.Subscribe(t.Context(), "x:a", false); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(u.received("resources/unsubscribe")); n != 1 {
		t.Errorf("unsubscribed %d times", n)
	}
}

// TestNothingToListenTo ends listening at once.
func TestNothingToListenTo(t *testing.T) {
	for _, test := range []struct {
		name      string
		stateless bool
		offers    string
		tell      func(w http.ResponseWriter, p *post)
		knocks    int64
	}{
		{"nothing is offered", false, `{"tools":{}}`, nil, 0},
		{"nothing is offered, stateless", true, `{"tools":{}}`, nil, 0},
		{"405", false, offersAll, func(w http.ResponseWriter, _ *post) { w.WriteHeader(http.StatusMethodNotAllowed) }, 1},
		{"404 for each session", false, offersAll, func(w http.ResponseWriter, _ *post) { w.WriteHeader(http.StatusNotFound) }, 2},
		{"404", true, offersAll, func(w http.ResponseWriter, _ *post) { w.WriteHeader(http.StatusNotFound) }, 1},
		{"-32601", true, offersAll, func(w http.ResponseWriter, p *post) { fail(w, p, `{"code":-32601,"message":"what?"}`) }, 1},
		{"-32601 as an event", true, offersAll, func(w http.ResponseWriter, p *post) {
			stream(w)
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`, p.ID))
		}, 1},
		{"nothing is granted", true, `{"tools":{"listChanged":true}}`, func(w http.ResponseWriter, p *post) {
			stream(w)
			say(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`)
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, p.ID))
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var knocks atomic.Int64
			u := newUpstream(t, test.stateless, func(w http.ResponseWriter, _ *http.Request, p *post) {
				knocks.Add(1)
				test.tell(w, p)
			})
			u.offer(test.offers)
			s := open(t, u.URL, func(c *connector.Config) { c.Backoff = time.Millisecond })
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			err := s.Listen(ctx, func(n sources.Notice) { t.Errorf("heard %v", n) })
			if err != nil || ctx.Err() != nil || knocks.Load() != test.knocks {
				t.Errorf("%v, %v after %d knocks", err, ctx.Err(), knocks.Load())
			}
		})
	}
}

// TestSubscriptionsOfStateless has the stream begun anew with other resources,
// and the words of somebody else's stream left out.
func TestSubscriptionsOfStateless(t *testing.T) {
	u := newUpstream(t, true, func(w http.ResponseWriter, r *http.Request, p *post) {
		stream(w)
		ack := func(id string) string {
			return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
		}
		say(w, ack("-1"))
		say(w, `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"-1"}}}`)
		say(w, ack(string(p.ID)))
		say(w, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:other"}}`)
		say(w, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:a","_meta":{"io.modelcontextprotocol/subscriptionId":`+string(p.ID)+`}}}`)
		<-r.Context().Done()
	})
	u.offer(`{"resources":{"subscribe":true},"tools":{"listChanged":true}}`)
	s := open(t, u.URL, nil)
	heard, _ := listenTo(t, s)
	wait(t, "a stream is there", func() bool { return len(u.received("subscriptions/listen")) == 1 })
	for _, uri := range []string{"x:b", "x:a"} {
		if err := s.Subscribe(t.Context(), uri, true); err != nil {
			t.Fatal(err)
		}
	}
	a := sources.Notice{Kind: sources.NoticeUpdated, URI: "x:a"}
	wantNotices(t, heard, a)
	for len(heard) > 0 {
		wantNotices(t, heard, a)
	}
	var got []string
	for _, p := range u.received("subscriptions/listen") {
		part, _, _ := strings.Cut(p.raw, `,"_meta"`)
		_, part, _ = strings.Cut(part, `"params":`)
		got = append(got, part)
	}
	want := []string{
		`{"notifications":{"toolsListChanged":true}`,
		`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:b"]}`,
		`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:a","x:b"]}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSubscriptionsAlone has a server that tells of single resources only, and
// not of each.
func TestSubscriptionsAlone(t *testing.T) {
	u := newUpstream(t, true, func(w http.ResponseWriter, r *http.Request, p *post) {
		stream(w)
		granted := `{"resourceSubscriptions":["x:b"]}`
		if !strings.Contains(p.raw, "x:b") {
			granted = `{}`
		}
		say(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":`+granted+`}}`)
		if granted == `{}` {
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, p.ID))
			return
		}
		say(w, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:b"}}`)
		<-r.Context().Done()
	})
	u.offer(`{"resources":{"subscribe":true}}`)
	s := open(t, u.URL, nil)
	heard, _ := listenTo(t, s)
	for _, uri := range []string{"x:a", "x:b"} {
		if err := s.Subscribe(t.Context(), uri, true); err != nil {
			t.Fatal(err)
		}
	}
	wantNotices(t, heard, sources.Notice{Kind: sources.NoticeUpdated, URI: "x:b"})
	for _, p := range u.received("subscriptions/listen") {
		if !strings.Contains(p.raw, "x:") {
			t.Errorf("asked for nothing: %s", p.raw)
		}
	}
}

// TestSubscriptionAfterNothing has a server grant nothing until a resource is
// wanted.
func TestSubscriptionAfterNothing(t *testing.T) {
	ended := make(chan struct{}, 10)
	u := newUpstream(t, true, func(w http.ResponseWriter, r *http.Request, p *post) {
		stream(w)
		granted := `{"resourceSubscriptions":["x:b"]}`
		if !strings.Contains(p.raw, "x:b") {
			granted = `{}`
		}
		say(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":`+granted+`}}`)
		if granted == `{}` {
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, p.ID))
			ended <- struct{}{}
			return
		}
		say(w, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:b"}}`)
		<-r.Context().Done()
	})
	u.offer(`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`)
	s := open(t, u.URL, nil)
	heard, _ := listenTo(t, s)
	<-ended
	time.Sleep(100 * time.Millisecond) // until it is noticed
	if err := s.Subscribe(t.Context(), "x:b", true); err != nil {
		t.Fatal(err)
	}
	wantAmong(t, heard, sources.Notice{Kind: sources.NoticeUpdated, URI: "x:b"})
}

// TestStreamsOverlap has the server say something on the old stream before it
// acknowledges the new one.
func TestStreamsOverlap(t *testing.T) {
	asked, go2 := make(chan struct{}), make(chan struct{})
	first, gone := make(chan http.ResponseWriter, 1), make(chan struct{})
	u := newUpstream(t, true, func(w http.ResponseWriter, r *http.Request, p *post) {
		stream(w)
		ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}`
		if !strings.Contains(p.raw, "x:a") {
			say(w, ack)
			first <- w
			<-r.Context().Done()
			close(gone)
			return
		}
		close(asked)
		<-go2
		say(w, ack)
		<-r.Context().Done()
	})
	u.offer(`{"resources":{"subscribe":true},"tools":{"listChanged":true}}`)
	s := open(t, u.URL, nil)
	heard, _ := listenTo(t, s)
	old := <-first
	ended := make(chan error, 1)
	go func() { ended <- s.Subscribe(t.Context(), "x:a", true) }()
	<-asked
	say(old, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	wantNotices(t, heard, sources.Notice{Kind: sources.NoticeTools})
	close(go2)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-gone // it costs a stream no longer
	if n := len(heard); n != 0 {
		t.Errorf("%d words of what was not missed", n)
	}
}

// TestOneStreamOnly has a server refuse a second stream: the first makes room,
// and what may have been missed meanwhile is told.
func TestOneStreamOnly(t *testing.T) {
	var streams atomic.Int64
	u := newUpstream(t, true, func(w http.ResponseWriter, r *http.Request, _ *post) {
		defer streams.Add(-1)
		if streams.Add(1) > 1 {
			w.WriteHeader(http.StatusConflict)
			return
		}
		stream(w)
		say(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}`)
		<-r.Context().Done()
	})
	u.offer(`{"resources":{"subscribe":true},"tools":{"listChanged":true}}`)
	s := open(t, u.URL, func(c *connector.Config) { c.Backoff = 100 * time.Millisecond })
	heard, _ := listenTo(t, s)
	wait(t, "the stream is there", func() bool { return streams.Load() == 1 })
	if err := s.Subscribe(t.Context(), "x:a", true); err != nil {
		t.Fatal(err)
	}
	wantAmong(t, heard, sources.Notice{Kind: sources.NoticeTools})
}

// TestHangingSubscriptions has a server with sessions answer none any more:
// nobody waits for longer than he wants, and its stream is heard meanwhile.
func TestHangingSubscriptions(t *testing.T) {
	var hang atomic.Bool
	hung := make(chan struct{}, 100)
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") == "session-1":
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodGet:
			stream(w)
			<-hung
			say(w, `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
			<-r.Context().Done()
		case p.Method == "resources/subscribe" && hang.Load():
			hung <- struct{}{}
			<-r.Context().Done()
		default:
			respond(w, p, `{}`)
		}
	})
	u.offer(offersAll)
	s := open(t, u.URL, func(c *connector.Config) { c.Backoff = time.Millisecond })
	for _, uri := range []string{"x:a", "x:b"} {
		if err := s.Subscribe(t.Context(), uri, true); err != nil {
			t.Fatal(err)
		}
	}
	hang.Store(true)
	heard, _ := listenTo(t, s)
	wantAmong(t, heard, sources.Notice{Kind: sources.NoticePrompts})
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Subscribe(ctx, "x:c", true) }()
	select {
	case err := <-ended:
		wantFault(t, err, action.ErrUnavailable, sources.FaultTimeout)
	case <-time.After(3 * time.Second):
		t.Error("who has no time waits for the server")
	}
}

// TestSubscriptionsTakeTurns has a server hang at one, which holds up no other.
func TestSubscriptionsTakeTurns(t *testing.T) {
	var hang atomic.Bool
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") == "session-1":
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodGet:
			stream(w)
			<-r.Context().Done()
		case p.Params.URI == "x:a" && hang.Load():
			<-r.Context().Done()
		default:
			respond(w, p, `{}`)
		}
	})
	u.offer(offersAll)
	s := open(t, u.URL, func(c *connector.Config) { c.Backoff = time.Millisecond })
	s.Hurry(50 * time.Millisecond)
	for _, uri := range []string{"x:a", "x:b"} {
		if err := s.Subscribe(t.Context(), uri, true); err != nil {
			t.Fatal(err)
		}
	}
	hang.Store(true)
	listenTo(t, s)
	wait(t, "the new session was told of the other", func() bool {
		for _, p := range u.received("resources/subscribe") {
			if p.Params.URI == "x:b" && p.header.Get("Mcp-Session-Id") == "session-2" {
				return true
			}
		}
		return false
	})
}

// TestSubscribeAgain goes on until the server takes a subscription.
func TestSubscribeAgain(t *testing.T) {
	var tries atomic.Int64
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") == "session-1":
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodGet:
			stream(w)
			<-r.Context().Done()
		case p.Method == "resources/subscribe" && tries.Add(1) == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			respond(w, p, `{}`)
		}
	})
	u.offer(offersAll)
	s := open(t, u.URL, func(c *connector.Config) { c.Backoff = time.Millisecond })
	if err := s.Subscribe(t.Context(), "x:a", true); err != nil {
		t.Fatal(err)
	}
	listenTo(t, s)
	wait(t, "the new session was told", func() bool { return tries.Load() == 3 })
}

// TestHeardAnywhere has a server without a stream of its own say on the
// streams of calls, and of an agent's session, what changed.
func TestHeardAnywhere(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		u := newUpstream(t, stateless, func(w http.ResponseWriter, r *http.Request, p *post) {
			switch {
			case r.Method == http.MethodGet || p.Method == "subscriptions/listen":
				w.WriteHeader(http.StatusMethodNotAllowed)
			case p.Method == "tools/call":
				stream(w)
				for range 2 {
					say(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				say(w, `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"x"}}`)
				for _, uri := range []string{"x:a", "x:other", ""} {
					say(w, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"`+uri+`"}}`)
				}
				say(w, `{"jsonrpc":"2.0","id":`+string(p.ID)+`,"result":{"content":[]}}`)
			default:
				respond(w, p, `{}`)
			}
		})
		u.offer(offersAll)
		s := open(t, u.URL, nil)
		if err := s.Subscribe(t.Context(), "x:a", true); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil {
			t.Fatal(err)
		}
		for _, want := range [][]sources.Notice{{{Kind: sources.NoticeTools}, {Kind: sources.NoticeUpdated, URI: "x:a"}}, nil} {
			var heard []sources.Notice
			if err := s.Listen(t.Context(), func(n sources.Notice) { heard = append(heard, n) }); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, heard); diff != "" {
				t.Error(diff)
			}
		}
	}
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		if r.Method != http.MethodGet {
			respond(w, p, `{"content":[]}`)
			return
		}
		stream(w)
		if r.Header.Get("Mcp-Session-Id") == "session-2" {
			say(w, `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
		}
		<-r.Context().Done()
	})
	u.offer(offersAll)
	s := open(t, u.URL, func(c *connector.Config) { c.PerAgent = true })
	heard, _ := listenTo(t, s)
	wait(t, "somebody listens", func() bool { return len(u.received("initialize")) == 1 })
	if _, err := s.Call(t.Context(), "tool", nil, &caller{session: "a"}); err != nil {
		t.Fatal(err)
	}
	wantNotices(t, heard, sources.Notice{Kind: sources.NoticePrompts})
}

// TestStreamWaitsAsWanted has a server want fewer streams for a while: calls
// wait as well.
func TestStreamWaitsAsWanted(t *testing.T) {
	refused := make(chan struct{}, 10)
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		if r.Method == http.MethodGet {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
			refused <- struct{}{}
			return
		}
		respond(w, p, `{"content":[]}`)
	})
	u.offer(offersAll)
	s := open(t, u.URL, func(c *connector.Config) { c.Backoff = time.Millisecond })
	listenTo(t, s)
	<-refused
	wait(t, "calls are told to wait", func() bool {
		_, err := s.Call(t.Context(), "tool", nil, nobody())
		return err != nil && action.Public(err).Code == sources.FaultRateLimited && action.Public(err).RetryAfter > 20*time.Second
	})
	time.Sleep(100 * time.Millisecond)
	if n := len(refused); n != 0 {
		t.Errorf("%d streams more were asked for", n)
	}
}

// TestRefusedSubscription counts for nothing.
func TestRefusedSubscription(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		fail(w, p, `{"code":-32602,"message":"no such"}`)
	})
	u.offer(offersAll)
	s := open(t, u.URL, nil)
	for range 2 {
		err := s.Subscribe(t.Context(), "x:a", true)
		wantFault(t, err, action.ErrUnavailable, sources.FaultRefused)
	}
	if n := len(u.received("resources/subscribe")); n != 2 {
		t.Errorf("subscribed %d times", n)
	}
	if err := s.Subscribe(t.Context(), "x:a", false); err != nil {
		t.Error(err)
	}
}

// TestLargeEventOnStream costs the stream, while many small ones do not.
func TestLargeEventOnStream(t *testing.T) {
	var streams atomic.Int64
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, _ *post) {
		n := streams.Add(1)
		stream(w)
		if n == 1 {
			for range 40 {
				say(w, `{"jsonrpc":"2.0","method":"notifications/other","params":{"x":"`+strings.Repeat("x", 1<<10)+`"}}`)
			}
			say(w, `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
			say(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"x":"`+strings.Repeat("x", 20<<10)+`"}}`)
		}
		<-r.Context().Done()
	})
	u.offer(`{"tools":{"listChanged":true},"prompts":{}}`)
	s := open(t, u.URL, func(c *connector.Config) { c.MaxAnswer, c.Backoff = 10<<10, time.Millisecond })
	heard, _ := listenTo(t, s)
	wantNotices(t, heard, sources.Notice{Kind: sources.NoticePrompts}, sources.Notice{Kind: sources.NoticeTools})
	if n := streams.Load(); n != 2 {
		t.Errorf("%d streams", n)
	}
}
