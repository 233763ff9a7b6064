package page_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is an MCP client with a session of its own.
type agent struct {
	s       *story
	Session string
	Token   string
	mcp     *mcp.ClientSession
}

// agent mints a session with that title and shakes hands as its agent. More
// is further fields of the session.
func (s *story) agent(title string, more ...args) *agent {
	s.t.Helper()
	body := args{"title": title}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	var minted struct {
		ID    string `json:"session_id"`
		Token string `json:"token"`
	}
	s.must("POST", "/api/v1/sessions", body, &minted)
	return s.agentOf(minted.ID, minted.Token)
}

// agentOf shakes hands as the agent of a session that was minted already.
func (s *story) agentOf(session, token string) *agent {
	s.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "story", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{
		Endpoint: s.MCPURL, HTTPClient: &http.Client{Transport: bearer(token)}, DisableStandaloneSSE: true,
	}
	ctx, stop := context.WithCancel(context.Background())
	connection, err := client.Connect(ctx, transport, nil)
	if err != nil {
		stop()
		s.t.Fatalf("the agent did not get in: %v", err)
	}
	s.t.Cleanup(func() { _ = connection.Close(); stop() }) // the gateway may be gone
	return &agent{s: s, Session: session, Token: token, mcp: connection}
}

// bearer adds the token to each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// calling is a call that runs beside the story.
type calling struct {
	t    *testing.T
	done chan struct{}
	got  *mcp.CallToolResult
	err  error
}

// call calls a tool and does not wait. A call that is held when its story ends
// is cancelled, and so withdrawn.
func (a *agent) call(tool string, arguments args) *calling {
	ctx, cancel := context.WithCancel(context.Background())
	c := &calling{t: a.s.t, done: make(chan struct{})}
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken(fmt.Sprint(tool, time.Now().UnixNano()))
	go func() {
		defer close(c.done)
		c.got, c.err = a.mcp.CallTool(ctx, params)
	}()
	a.s.t.Cleanup(func() { cancel(); <-c.done })
	return c
}

// result waits for the answer.
func (c *calling) result() *mcp.CallToolResult {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		c.t.Fatalf("the agent has no answer after %v", patience)
	}
	if c.err != nil {
		c.t.Fatalf("the call broke: %v", c.err)
	}
	return c.got
}

// text waits for the answer and returns what it says in words.
func (c *calling) text() string {
	c.t.Helper()
	var b strings.Builder
	for _, content := range c.result().Content {
		if text, ok := content.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

// held waits until one more call of the agent is held than the ids that are
// known, and returns its id.
func (a *agent) held(known ...string) string {
	a.s.t.Helper()
	var id string
	await(a.s.t, "a held call", func() bool {
		for _, i := range a.s.invocations("status=pending&session=" + a.Session) {
			if !strings.Contains(strings.Join(known, " "), i.ID) {
				id = i.ID
			}
		}
		return id != ""
	})
	return id
}
