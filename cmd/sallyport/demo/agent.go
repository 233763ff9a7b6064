package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// demoAgent is the agent of the script: an MCP client with a session's token.
type demoAgent struct {
	session *mcp.ClientSession

	mu    sync.Mutex
	heard map[string]func(float64, string) // by progress token
}

// newDemoAgent connects over streamable HTTP.
func newDemoAgent(ctx context.Context, s mintedSession) (*demoAgent, error) {
	a := &demoAgent{heard: make(map[string]func(float64, string))}
	client := mcp.NewClient(&mcp.Implementation{Name: "demo-agent", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: a.progress,
	})
	transport := &mcp.StreamableClientTransport{
		Endpoint: s.MCP, HTTPClient: &http.Client{Transport: bearer(s.Token)}, DisableStandaloneSSE: true,
	}
	var err error
	if a.session, err = client.Connect(ctx, transport, nil); err != nil {
		return nil, fmt.Errorf("connecting as an agent: %w", err)
	}
	return a, nil
}

// bearer adds a token to every request.
type bearer string

// RoundTrip sends the request with the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (a *demoAgent) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	a.mu.Lock()
	hear := a.heard[fmt.Sprint(r.Params.ProgressToken)]
	a.mu.Unlock()
	if hear != nil {
		hear(r.Params.Progress, r.Params.Message)
	}
}

// spoken is what an agent got for a call.
type spoken struct {
	text    string
	refused bool // the result says that it is an error
	err     error
}

// call calls a tool and waits; hear is told the progress.
func (a *demoAgent) call(ctx context.Context, tool string, args map[string]any, token string, hear func(float64, string)) spoken {
	a.mu.Lock()
	a.heard[token] = hear
	a.mu.Unlock()
	params := &mcp.CallToolParams{Name: demoSlug + "_" + tool, Arguments: args}
	params.SetProgressToken(token)
	result, err := a.session.CallTool(ctx, params)
	if err != nil {
		return spoken{err: err}
	}
	var words []string
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			words = append(words, t.Text)
		}
	}
	return spoken{text: strings.Join(words, " "), refused: result.IsError}
}

// offers tells whether the agent sees a tool.
func (a *demoAgent) offers(ctx context.Context, tool string) (bool, error) {
	list, err := a.session.ListTools(ctx, nil)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == demoSlug+"_"+tool }), nil
}
