package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"sallyport/action"
	"sallyport/mcpserver"
)

// instant is a Gate that costs nothing, so that what is measured is ours.
type instant struct {
	*gate
	list []action.Available
}

func (g instant) Available(context.Context, *action.Session) ([]action.Available, string, error) {
	return g.list, "1", nil
}

func (instant) Call(context.Context, *action.Call) (*action.Outcome, error) {
	return &action.Outcome{
		Invocation: action.Invocation{ID: "i", Status: action.StatusCompleted},
		Answer:     action.Answer{Body: json.RawMessage(`{"content":[{"type":"text","text":"done"}],"structuredContent":{"a":1}}`)},
	}, nil
}

func (instant) Delivered(*action.Outcome) {}

// sink is a ResponseWriter that costs nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header             { return s.header }
func (*sink) Write(b []byte) (int, error)       { return len(b), nil }
func (*sink) WriteString(b string) (int, error) { return len(b), nil }
func (*sink) WriteHeader(int)                   {}
func (*sink) FlushError() error                 { return nil }

func benchServer(b testing.TB, tools int) *mcpserver.Server {
	g := instant{gate: newGate()}
	for range tools {
		name := "tool_" + string(rune('a'+len(g.list)%26)) + "_" + string(rune('a'+len(g.list)/26%26)) + string(rune('a'+len(g.list)/676))
		g.list = append(g.list, action.Available{Action: &action.Action{
			Source: "demo", Name: name, Tool: name,
			Definition: json.RawMessage(`{"name":"` + name + `","description":"` + string(bytes.Repeat([]byte("x"), 300)) + `","inputSchema":{"type":"object"}}`),
		}})
	}
	s, err := mcpserver.New(mcpserver.Config{
		Gate: g, Resolver: g, Authenticate: authenticate, Hints: &hints{}, PublicURL: "https://gate.example",
		MaxSessions: 10_000,
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchmark(b *testing.B, s http.Handler, session, body string, modern bool) {
	r := rpc("token-a", session, "")
	if modern {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", "tool_a_aa")
	}
	reader := bytes.NewReader(nil)
	r.Body = io.NopCloser(reader)
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset([]byte(body))
		clear(w.header)
		s.ServeHTTP(w, r)
	}
}

func BenchmarkCall(b *testing.B) {
	arguments := `,"arguments":{"title":"something to do","labels":["a","b"],"priority":3,"body":"` + string(bytes.Repeat([]byte("y"), 400)) + `"}`
	b.Run("legacy", func(b *testing.B) {
		s := benchServer(b, 50)
		end(b, s)
		benchmark(b, s, begin(b, s, "token-a"), callBody(1, "tool_a_aa", arguments), false)
	})
	b.Run("modern", func(b *testing.B) {
		s := benchServer(b, 50)
		benchmark(b, s, "", callBody(1, "tool_a_aa", arguments+`,"_meta":{`+clientMeta+`}`), true)
	})
}

func BenchmarkList(b *testing.B) {
	s := benchServer(b, 1000)
	end(b, s)
	benchmark(b, s, begin(b, s, "token-a"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, false)
}

// A list of a thousand tools is encoded once, not for each who asks.
func TestListIsEncodedOnce(t *testing.T) {
	s := benchServer(t, 1000)
	end(t, s)
	id := begin(t, s, "token-a")
	var before, after runtime.MemStats
	const n = 20
	list := func() {
		s.ServeHTTP(&sink{header: http.Header{}}, rpc("token-a", id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	}
	list()
	runtime.ReadMemStats(&before)
	for range n {
		list()
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / n; per > 64<<10 {
		t.Error("bytes allocated for a list:", per)
	}
}

// use returns what the process uses now.
func use() (bytes uint64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse, runtime.NumGoroutine()
}

// An idle session costs little: the figure to hold is 8 KB, and less is
// possible since the SDK has no part in it.
func TestIdleSessionIsSmall(t *testing.T) {
	s := benchServer(t, 50)
	end(t, s)
	begin(t, s, "token-a")
	const n = 1000
	before, running := use()
	for range n {
		id := begin(t, s, "token-a")
		serve(s, rpc("token-a", id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
		serve(s, rpc("token-a", id, callBody(1, "tool_a_aa", "")))
	}
	after, runningAfter := use()
	per := (after - before) / n
	t.Logf("%d bytes and %.2f goroutines a session", per, float64(runningAfter-running)/n)
	if runningAfter-running > n/2 {
		t.Error("an idle session has a goroutine")
	}
	if per > 2<<10 {
		t.Error("bytes:", per)
	}
}

// One with an event stream costs its connection as well: the figure to hold
// is 38 KB, of which net/http has most.
func TestIdleStreamIsSmall(t *testing.T) {
	s := benchServer(t, 50)
	web := httptest.NewServer(s)
	defer web.Close()
	defer end(t, s)
	const n = 200
	before, running := use()
	for range n {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, "GET /mcp HTTP/1.1\r\nHost: gate.example\r\nAuthorization: Bearer token-a\r\n"+
			"Accept: text/event-stream\r\nMcp-Session-Id: "+begin(t, s, "token-a")+"\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all streams are open", func() bool { return s.Streams() == n })
	after, runningAfter := use()
	per := (after - before) / n
	t.Logf("%d bytes and %.2f goroutines a session", per, float64(runningAfter-running)/n)
	if per > 38<<10 && !raced {
		t.Error("bytes:", per)
	}
}

func BenchmarkInitialize(b *testing.B) {
	s := benchServer(b, 50)
	end(b, s)
	benchmark(b, s, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"opencode","version":"1.18.33"}}}`, false)
}

// A session that is forgotten is begun again from its id.
func BenchmarkResume(b *testing.B) {
	s := benchServer(b, 50)
	end(b, s)
	id := begin(b, s, "token-a")
	r := rpc("token-a", id, "")
	b.ReportAllocs()
	for b.Loop() {
		s.Forget()
		r.Body = io.NopCloser(bytes.NewReader([]byte(callBody(1, "tool_a_aa", ""))))
		s.ServeHTTP(&sink{header: http.Header{}}, r)
	}
}

func BenchmarkPing(b *testing.B) {
	s := benchServer(b, 50)
	end(b, s)
	benchmark(b, s, begin(b, s, "token-a"), pingBody, false)
}
