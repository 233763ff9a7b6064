package harness

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is a tool of an upstream. It takes the param text.
type Tool struct {
	Name, Description string
	Reads, Destroys   bool   // as its annotations say
	Does              string // what its result says, before the param text
	Structured        bool   // it has an output schema: its result is {"did": …}, too
}

// Upstream is an MCP server that writes down what its tools did, and tells its
// clients when it has more of them.
type Upstream struct {
	*httptest.Server
	mcp *mcp.Server

	mu   sync.Mutex
	done []string
}

// DemoTools read, write and destroy notes.
func DemoTools() []Tool {
	return []Tool{
		{Name: "read", Description: "Reads a note.", Reads: true, Does: "read "},
		{Name: "write", Description: "Writes a note.", Does: "wrote "},
		{Name: "wipe", Description: "Removes all notes.", Destroys: true, Does: "wiped "},
	}
}

// StartUpstream starts a server with those tools.
func StartUpstream(tools ...Tool) *Upstream {
	u := &Upstream{mcp: mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)}
	u.Add(tools...)
	u.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return u.mcp }, nil))
	return u
}

// Add adds the tools; its clients are told.
func (u *Upstream) Add(tools ...Tool) {
	for _, made := range tools {
		listed := &mcp.Tool{
			Name: made.Name, Description: made.Description,
			InputSchema: Args{"type": "object", "properties": Args{"text": Args{"type": "string"}}, "required": []string{"text"}},
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: made.Reads, DestructiveHint: &made.Destroys},
		}
		if made.Structured {
			listed.OutputSchema = Args{"type": "object", "properties": Args{"did": Args{"type": "string"}}, "required": []string{"did"}, "additionalProperties": false}
		}
		u.mcp.AddTool(listed, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct {
				Text string `json:"text"`
			}
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			did := made.Does + in.Text
			u.mu.Lock()
			u.done = append(u.done, did)
			u.mu.Unlock()
			result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: did}}}
			if made.Structured {
				result.StructuredContent = Args{"did": did}
			}
			return result, nil
		})
	}
}

// Did counts how often a tool did what its result says.
func (u *Upstream) Did(what string) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, d := range u.done {
		if d == what {
			n++
		}
	}
	return n
}

// Close ends the server and all connections to it.
func (u *Upstream) Close() {
	_ = u.Config.Close()
	u.Server.Close()
}
