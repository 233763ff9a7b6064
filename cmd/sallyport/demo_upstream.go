package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notebook is the service of the demo: notes in memory behind an MCP server
// with a tool that reads, one that writes and one that destroys. It counts
// what was really done, which is what the script of the demo checks.
type notebook struct {
	mu     sync.Mutex
	notes  []string
	reads  int
	writes int
	wipes  int
}

func newNotebook() *notebook {
	return &notebook{notes: []string{"Buy milk", "The gate has two doors"}}
}

type noteArgs struct {
	Text string `json:"text" jsonschema:"what to write down"`
}

// handler serves the notebook over streamable HTTP.
func (n *notebook) handler() http.Handler {
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

func (n *notebook) list(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads++
	if len(n.notes) == 0 {
		return text("There are no notes."), nil, nil
	}
	return text("- " + strings.Join(n.notes, "\n- ")), nil, nil
}

func (n *notebook) add(_ context.Context, _ *mcp.CallToolRequest, args noteArgs) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes++
	n.notes = append(n.notes, args.Text)
	return text(fmt.Sprintf("Noted. There are %d notes now.", len(n.notes))), nil, nil
}

func (n *notebook) wipe(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wipes++
	n.notes = nil
	return text("All notes are gone."), nil, nil
}

// done returns how often each tool really ran.
func (n *notebook) done() (reads, writes, wipes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reads, n.writes, n.wipes
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
