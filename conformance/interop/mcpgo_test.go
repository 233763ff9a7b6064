package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"sallyport/action"
	"sallyport/sources/connector"
)

// agent answers every question of a server.
type agent struct {
	action.Caller // nil: the methods that these calls do not use

	mu    sync.Mutex
	asked []action.Question
}

func (*agent) Session() string          { return "s1" }
func (*agent) LogLevel() string         { return "" }
func (*agent) Progress(json.RawMessage) {}
func (*agent) Log(json.RawMessage)      {}
func (*agent) Features() action.ClientFeatures {
	return action.AskFeatures(action.AskKinds())
}

func (a *agent) Ask(_ context.Context, questions []action.Question) (map[string]action.Reply, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, questions...)
	replies := map[string]action.Reply{}
	for _, q := range questions {
		reply := `{"action":"accept","content":{"name":"Ada"}}`
		if q.Method == "sampling/createMessage" {
			reply = `{"role":"assistant","content":{"type":"text","text":"Bonjour"},"model":"m"}`
		}
		replies[q.Key] = action.Reply{Result: json.RawMessage(reply)}
	}
	return replies, nil
}

// TestQuestionsOfMCPGo has the server of mcp-go ask. It speaks both eras, and can
// ask only in the one with sessions.
func TestQuestionsOfMCPGo(t *testing.T) {
	s := server.NewMCPServer("dual", "1", server.WithElicitation(), server.WithToolCapabilities(true))
	s.EnableSampling()
	s.AddTool(mcp.NewTool("greet"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: "Who are you?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultText(fmt.Sprint("Hello ", answer.Content)), nil
	})
	s.AddTool(mcp.NewTool("translate"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, err := s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{ //nolint:staticcheck // deprecated, and still used by servers
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.TextContent{Type: "text", Text: "Hello, in French"}}}, MaxTokens: 10,
		}})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultText(fmt.Sprint(answer.Content)), nil
	})
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	for _, test := range []struct {
		name    string
		change  func(*connector.Config)
		version string
		asks    bool
	}{
		{"may not ask", func(*connector.Config) {}, "2026-07-28", false},
		{"may ask", func(c *connector.Config) { c.MayAsk = action.AskKinds() }, "2025-11-25", true},
		{"may ask, pinned", func(c *connector.Config) { c.MayAsk, c.Protocol = action.AskKinds(), "2025-11-25" }, "2025-11-25", true},
		{"may ask, pinned to the era in which it cannot", func(c *connector.Config) { c.MayAsk, c.Protocol = action.AskKinds(), "2026-07-28" }, "2026-07-28", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := connector.Config{ID: "connector:1", URL: web.URL + "/mcp"}
			test.change(&config)
			source, err := connector.New(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = source.Close() })
			list, err := source.List(t.Context())
			if err != nil || list.Protocol != test.version || len(list.Tools) != 2 {
				t.Fatalf("it lists %d tools with version %s: %v", len(list.Tools), list.Protocol, err)
			}
			for tool, want := range map[string]string{"greet": "Ada", "translate": "Bonjour"} {
				a := &agent{}
				res, err := source.Call(t.Context(), tool, nil, a)
				if err != nil {
					t.Fatal(tool, err)
				}
				if answered := strings.Contains(string(res.Body), want) && !res.IsError; answered != test.asks || (len(a.asked) == 1) != test.asks {
					t.Errorf("%s: asked %v, answered %s", tool, a.asked, res.Body)
				}
			}
		})
	}
	if !slices.Contains(action.Protocols(), "2026-07-28") {
		t.Error("a connector cannot be pinned to the newer era")
	}
}
