package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// TestQuestionsOfRealServers has servers of the SDK elicit, the one way and the
// other: with sessions by a request, without by a result.
func TestQuestionsOfRealServers(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			server := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)
			form := &mcp.ElicitParams{Message: "Which?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
			chosen := func(r *mcp.ElicitResult) *mcp.CallToolResult {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(r.Action, " ", r.Content["n"])}}}
			}
			server.AddTool(&mcp.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if !era.stateless {
					reply, err := r.Session.Elicit(ctx, form)
					if err != nil {
						return nil, err
					}
					return chosen(reply), nil
				}
				if reply, ok := r.Params.InputResponses["which"].(*mcp.ElicitResult); ok && r.Params.RequestState == "state" {
					return chosen(reply), nil
				}
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"which": form}, RequestState: "state"}, nil
			})
			server.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello"}}}}, nil
			})
			server.AddResource(&mcp.Resource{URI: "x:a", Name: "a"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "there"}}}, nil
			})
			front := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: era.stateless}))
			t.Cleanup(front.Close)
			s := open(t, front.URL, mayAsk(action.AskElicitation))
			var heard []action.Question
			c := answering(action.Reply{Result: json.RawMessage(`{"action":"accept","content":{"n":7}}`)}, &heard)
			res, err := s.Call(t.Context(), "ask", nil, c)
			if err != nil || !strings.Contains(string(res.Body), `accept 7`) || len(heard) != 1 {
				t.Errorf("got %s, %v, %s after %d questions", res.Body, err, res.Problem, len(heard))
			}
			if res, err := s.Do(t.Context(), "resources/read", json.RawMessage(`{"uri":"x:a"}`), c); err != nil || !strings.Contains(string(res.Body), "there") {
				t.Errorf("read %s, %v, %s", res.Body, err, res.Problem)
			}
			if res, err := s.Do(t.Context(), "prompts/get", json.RawMessage(`{"name":"p"}`), c); err != nil || !strings.Contains(string(res.Body), "hello") {
				t.Errorf("got %s, %v, %s", res.Body, err, res.Problem)
			}
			if res, err := s.Do(t.Context(), "resources/read", json.RawMessage(`{"uri":"x:b"}`), c); err != nil || res.Problem == nil {
				t.Errorf("read %s, %v", res.Body, err)
			}
		})
	}
}
