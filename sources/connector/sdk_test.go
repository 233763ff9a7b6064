package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/sources"
	"sallyport/sources/connector"
)

// eras are the two ways in which the SDK's server speaks.
var eras = []struct {
	name      string
	stateless bool
	protocol  string
}{
	{"sessions", false, "2025-11-25"},
	{"stateless", true, "2026-07-28"},
}

// serve runs an MCP server of the SDK with a few tools.
func serve(t *testing.T, stateless bool, calls *atomic.Int64) *httptest.Server {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, &mcp.ServerOptions{Instructions: "Ask me first."})
	object := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"region":{"type":"string","x-mcp-header":"Region"}}}`)
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: object, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			calls.Add(1)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
		})
	s.AddTool(&mcp.Tool{Name: "fail", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "it broke"}}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "count", InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ N int }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Message: fmt.Sprintf("of %d", in.N),
			}); err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{StructuredContent: map[string]any{"n": in.N}, Content: []mcp.Content{}}, nil
	})
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(server.Close)
	return server
}

func open(t *testing.T, url string, change func(*connector.Config)) *connector.Source {
	t.Helper()
	c := connector.Config{ID: "connector:1", URL: url}
	if change != nil {
		change(&c)
	}
	s, err := connector.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Logf("closing: %v", err)
		}
	})
	return s
}

func TestRealServers(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			var calls atomic.Int64
			s := open(t, serve(t, era.stateless, &calls).URL, nil)
			l, err := s.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if l.Protocol != era.protocol {
				t.Errorf("protocol %q, want %q", l.Protocol, era.protocol)
			}
			if l.Instructions != "Ask me first." {
				t.Errorf("it says %q of itself", l.Instructions)
			}
			var names []string
			for _, raw := range l.Tools {
				var tool struct{ Name string }
				if err := json.Unmarshal(raw, &tool); err != nil {
					t.Fatal(err)
				}
				names = append(names, tool.Name)
			}
			if diff := cmp.Diff([]string{"count", "echo", "fail"}, names); diff != "" {
				t.Error(diff)
			}

			params := `{"n":9007199254740993,"region":"Zürich"}`
			res, err := s.Call(t.Context(), "echo", json.RawMessage(params), nobody())
			if err != nil {
				t.Fatal(err)
			}
			quoted, _ := json.Marshal(params)
			if !strings.Contains(string(res.Body), string(quoted)) || res.IsError || res.Problem != nil {
				t.Errorf("got %s, error %v, problem %s", res.Body, res.IsError, res.Problem)
			}
			if res, err = s.Call(t.Context(), "fail", nil, nobody()); err != nil || !res.IsError {
				t.Errorf("got %s, %v; want an error of the tool", res.Body, err)
			}
			if res, err = s.Call(t.Context(), "nothing", nil, nobody()); err != nil || !strings.Contains(string(res.Problem), "-32602") {
				t.Errorf("got problem %s, %v; want -32602", res.Problem, err)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}

// TestProgressGoesToItsCaller has many calls at once on one session.
func TestProgressGoesToItsCaller(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			s := open(t, serve(t, era.stateless, new(atomic.Int64)).URL, nil)
			var group sync.WaitGroup
			for i := range 40 {
				group.Go(func() {
					var heard []string
					res, err := s.Call(t.Context(), "count", fmt.Appendf(nil, `{"n":%d}`, i), &caller{progress: func(p json.RawMessage) {
						heard = append(heard, string(p))
					}})
					if err != nil || !strings.Contains(string(res.Body), fmt.Sprintf(`"n":%d`, i)) {
						t.Errorf("call %d: %s, %v", i, res.Body, err)
					}
					if len(heard) != 3 {
						t.Errorf("call %d heard %q", i, heard)
					}
					for _, p := range heard {
						if !strings.Contains(p, fmt.Sprintf(`"of %d"`, i)) || strings.Contains(p, "Token") {
							t.Errorf("call %d heard %s", i, p)
						}
					}
				})
			}
			group.Wait()
		})
	}
}

// TestOneSessionForAll has the first calls come at once: one handshake.
func TestOneSessionForAll(t *testing.T) {
	var calls, initialized atomic.Int64
	upstream := serve(t, false, &calls)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, r2 := read(t, r)
		if strings.Contains(body, `"initialize"`) {
			initialized.Add(1)
		}
		upstream.Config.Handler.ServeHTTP(w, r2)
	}))
	t.Cleanup(front.Close)
	s := open(t, front.URL, nil)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := s.Call(t.Context(), "echo", nil, nobody()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := initialized.Load(); n != 1 {
		t.Errorf("%d handshakes", n)
	}
}

// TestRestartedServer has the server forget its sessions: the call is sent
// once more, and runs once.
func TestRestartedServer(t *testing.T) {
	var calls atomic.Int64
	var handler atomic.Pointer[http.Handler]
	fresh := func() {
		h := serve(t, false, &calls).Config.Handler
		handler.Store(&h)
	}
	fresh()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	s := open(t, front.URL, nil)
	for i := range 3 {
		if _, err := s.Call(t.Context(), "echo", nil, nobody()); err != nil {
			t.Fatal(err)
		}
		if n := calls.Load(); n != int64(i+1) {
			t.Fatalf("after call %d the tool ran %d times", i+1, n)
		}
		fresh()
	}
}

// TestOtherEraAfterRestart has the server come back as one of the other era.
func TestOtherEraAfterRestart(t *testing.T) {
	var calls atomic.Int64
	handlers := []http.Handler{serve(t, false, &calls).Config.Handler, serve(t, true, &calls).Config.Handler}
	var now atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handlers[now.Load()].ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	s := open(t, front.URL, nil)
	for i := range 4 {
		now.Store(int64(i % 2))
		if _, err := s.Call(t.Context(), "echo", nil, nobody()); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if n := calls.Load(); n != int64(i+1) {
			t.Fatalf("after call %d the tool ran %d times", i+1, n)
		}
	}
}

// TestConnectionsAreReused counts connections, which streams must not use up.
func TestConnectionsAreReused(t *testing.T) {
	var calls, connections atomic.Int64
	h := serve(t, true, &calls).Config.Handler
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = countNew(&connections)
	server.Start()
	t.Cleanup(server.Close)
	s := open(t, server.URL, nil)
	for range 100 {
		if _, err := s.Call(t.Context(), "echo", nil, nobody()); err != nil {
			t.Fatal(err)
		}
	}
	// The rest of a stream is read beside the next call, which may need a
	// second connection for it.
	if n := connections.Load(); n > 10 {
		t.Errorf("%d connections for 100 calls", n)
	}
}

var _ sources.Source = (*connector.Source)(nil)
