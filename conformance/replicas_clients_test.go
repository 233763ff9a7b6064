package conformance_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// talker is a client of MCP that others wrote, in the middle of a conversation.
type talker interface {
	session() string // the id of its MCP session; empty in the newer era
	list() ([]string, error)
	begin(tool string, arguments map[string]any) *talk
	changes() int // how often it was told that its tools changed
	end() error   // says goodbye
}

// talk is a call that goes on beside the test.
type talk struct {
	cancel   func()
	progress atomic.Int64
	done     chan struct{}
	text     string // of the result
	err      error
}

var errNoEnd = errors.New("the call does not end")

// wait returns what the result says in words.
func (c *talk) wait() (string, error) {
	select {
	case <-c.done:
		return c.text, c.err
	case <-time.After(patience):
		return "", errNoEnd
	}
}

// kind is a client's make, and the era of the protocol that it speaks.
type kind struct {
	name    string
	era     string
	connect func(t *testing.T, url, token, era string) talker
}

const (
	olderEra = "2025-11-25"
	newerEra = "2026-07-28"
)

func (k kind) older() bool { return k.era == olderEra }

func kinds() []kind {
	return []kind{
		{"Go SDK", olderEra, talkGo},
		{"Go SDK", newerEra, talkGo},
		{"TypeScript SDK 1", olderEra, talkTypeScript},
		{"TypeScript SDK 2", newerEra, talkTypeScript},
	}
}

// goTalker is the Go SDK.
type goTalker struct {
	t       *testing.T
	client  *mcp.ClientSession
	changed atomic.Int64

	mu    sync.Mutex
	calls map[any]*talk // by progress token
}

func talkGo(t *testing.T, url, token, era string) talker {
	t.Helper()
	g := &goTalker{t: t, calls: map[any]*talk{}}
	client := mcp.NewClient(&mcp.Implementation{Name: "conformance-go", Version: "1"}, &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { g.changed.Add(1) },
		ProgressNotificationHandler: g.hear,
	})
	var err error
	g.client, err = client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)},
	}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.client.Close() })
	return g
}

func (g *goTalker) hear(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[r.Params.ProgressToken]; c != nil {
		c.progress.Add(1)
	}
}

func (g *goTalker) session() string { return g.client.ID() }
func (g *goTalker) changes() int    { return int(g.changed.Load()) }
func (g *goTalker) end() error      { return g.client.Close() }

func (g *goTalker) list() (names []string, err error) {
	for tool, err := range g.client.Tools(g.t.Context(), nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (g *goTalker) begin(tool string, arguments map[string]any) *talk {
	ctx, cancel := context.WithCancel(g.t.Context())
	c := &talk{cancel: cancel, done: make(chan struct{})}
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	g.mu.Lock()
	token := float64(len(g.calls)) // as it comes back
	g.calls[token] = c
	g.mu.Unlock()
	params.SetProgressToken(int(token))
	go func() {
		defer close(c.done)
		var result *mcp.CallToolResult
		if result, c.err = g.client.CallTool(ctx, params); c.err != nil {
			return
		}
		var b strings.Builder
		for _, content := range result.Content {
			if text, ok := content.(*mcp.TextContent); ok {
				b.WriteString(text.Text)
			}
		}
		c.text = b.String()
	}()
	g.t.Cleanup(func() { cancel(); <-c.done })
	return c
}
