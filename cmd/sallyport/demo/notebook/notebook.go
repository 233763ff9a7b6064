// Package notebook is an MCP server that holds notes in memory and counts the calls
// of its tools. The demo and tests use it as an upstream.
package notebook

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Notebook is an MCP server with a tool that reads, one that writes and one that
// destroys. It counts the calls that arrive, which the script of the demo checks.
type Notebook struct {
	mu     sync.Mutex
	notes  []string
	reads  int
	writes int
	wipes  int
}

// New returns a notebook that holds notes.
func New(notes ...string) *Notebook { return &Notebook{notes: notes} }

type noteArgs struct {
	Text string `json:"text" jsonschema:"what to write down"`
}

// Handler serves the notebook over streamable HTTP.
func (n *Notebook) Handler() http.Handler {
	yes, no := true, false
	server := mcp.NewServer(&mcp.Implementation{Name: "notebook", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "list", Title: "List notes", Description: "Lists all notes.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, n.list)
	mcp.AddTool(server, &mcp.Tool{
		Name: "add", Title: "Add a note", Description: "Adds a note.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no},
	}, n.add)
	mcp.AddTool(server, &mcp.Tool{
		Name: "wipe", Title: "Delete all notes", Description: "Deletes all notes for good.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
	}, n.wipe)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
}

func (n *Notebook) list(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads++
	if len(n.notes) == 0 {
		return text("There are no notes."), nil, nil
	}
	return text("- " + strings.Join(n.notes, "\n- ")), nil, nil
}

func (n *Notebook) add(_ context.Context, _ *mcp.CallToolRequest, args noteArgs) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes++
	n.notes = append(n.notes, args.Text)
	return text(fmt.Sprintf("Noted. There are %d notes now.", len(n.notes))), nil, nil
}

func (n *Notebook) wipe(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wipes++
	n.notes = nil
	return text("All notes are gone."), nil, nil
}

// Counts returns how often each tool ran.
func (n *Notebook) Counts() (reads, writes, wipes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reads, n.writes, n.wipes
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// Serve serves a notebook on a free loopback port until stop is called.
func Serve(ctx context.Context, n *Notebook) (url string, stop func(), err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listening for the demo's upstream: %w", err)
	}
	server := &http.Server{Handler: n.Handler(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends when stop closes it
	}()
	return "http://" + listener.Addr().String() + "/mcp", func() { _ = server.Close(); <-done }, nil
}
