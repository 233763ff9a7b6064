package page_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tool is a tool of an upstream.
type tool struct {
	Name, Description string
	Risk              string   // read, write or danger, as its annotations say
	Params            []string // its params: strings, all of them optional
	Does              string   // what its result says, before the param text
}

// upstream is an MCP server, with any key or only with the one that it wants.
type upstream struct {
	*httptest.Server
	mcp *mcp.Server

	mu   sync.Mutex
	key  string   // what a request must carry as its bearer token, if anything
	done []string // what tools did, in order
}

// demoTools are one tool of each risk.
func demoTools() []tool {
	return []tool{
		{Name: "read", Description: "Reads a note.", Risk: "read", Params: []string{"text"}, Does: "read "},
		{Name: "write", Description: "Writes a note.", Risk: "write", Params: []string{"text", "title", "token"}, Does: "wrote "},
		{Name: "wipe", Description: "Removes all notes.", Risk: "danger", Params: []string{"text"}, Does: "wiped "},
	}
}

// startUpstream starts a server with those tools; its URL is what a connector
// is added with.
func startUpstream(tools ...tool) *upstream {
	u := &upstream{mcp: mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)}
	u.has(tools...)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return u.mcp },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		key := u.key
		u.mu.Unlock()
		if key != "" && r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	return u
}

// wants has the server refuse whoever lacks the key.
func (u *upstream) wants(key string) { u.mu.Lock(); defer u.mu.Unlock(); u.key = key }

// has adds the tools, or changes those that have the name.
func (u *upstream) has(tools ...tool) {
	for _, made := range tools {
		properties := args{}
		for _, p := range made.Params {
			properties[p] = args{"type": "string"}
		}
		destructive := made.Risk == "danger"
		u.mcp.AddTool(&mcp.Tool{
			Name: made.Name, Description: made.Description,
			InputSchema: args{"type": "object", "properties": properties},
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: made.Risk == "read", DestructiveHint: &destructive},
		}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct {
				Text string `json:"text"`
			}
			_ = json.Unmarshal(r.Params.Arguments, &in) // a tool may lack the param
			u.mu.Lock()
			u.done = append(u.done, made.Does+in.Text)
			u.mu.Unlock()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: made.Does + in.Text}}}, nil
		})
	}
}

// did lists what tools did, in order.
func (u *upstream) did() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.done...)
}

// close ends the server and all connections to it.
func (u *upstream) close() {
	_ = u.Config.Close()
	u.Server.Close()
}
