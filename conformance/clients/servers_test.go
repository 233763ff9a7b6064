package clients_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/conformance/harness"
)

// counted is the line of a connector whose tools could be listed.
var counted = regexp.MustCompile(`(?m)^\d+ tools: `)

// TestServers adds servers that others wrote with one command each: reads run,
// everything else asks.
func TestServers(t *testing.T) {
	t.Parallel()
	harness.SkipShort(t)
	node := harness.Node(t)
	s := bridged.Session(t, nil)
	for _, server := range []struct {
		name    string
		command []string
		env     []string
		want    string
	}{
		{"everything", []string{"@modelcontextprotocol/server-everything/dist/index.js"}, nil, "13 tools: 9 allowed, 4 ask"},
		{"filesystem", []string{"@modelcontextprotocol/server-filesystem/dist/index.js", t.TempDir()}, nil, "14 tools: 10 allowed, 4 ask"},
		{"memory", []string{"@modelcontextprotocol/server-memory/dist/index.js"}, nil, "9 tools: 3 allowed, 6 ask"},
		{"notion", []string{"@notionhq/notion-mcp-server/bin/cli.mjs"}, []string{"NOTION_TOKEN=ntn_none"}, "24 tools: 12 allowed, 12 ask"},
		{"context7", []string{"@upstash/context7-mcp/dist/index.js"}, nil, "2 tools: 2 allowed"},
	} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			command := append([]string{node, harness.Program(t, server.command[0])}, server.command[1:]...)
			at := harness.StartBridge(t, server.env, command...)
			// A server that starts on a busy machine may not list its tools in time.
			for deadline := time.Now().Add(2 * time.Minute); ; sallyport(t, s, "connector", "remove", server.name) {
				printed := sallyport(t, s, "connector", "add", server.name, at)
				if strings.Contains(printed, "\n"+server.want+"\n") {
					return
				}
				if counted.MatchString(printed) || time.Now().After(deadline) {
					t.Fatalf("not %q, but:\n%s", server.want, printed)
				}
			}
		})
	}
}

// sallyport runs a command at the gateway of the session, and returns what it
// printed.
func sallyport(t *testing.T, s *harness.Session, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), s.Path, append(arguments, "--data", s.Data)...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("sallyport %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// TestPlaywright has two agents use one browser server, each with a page of its
// own.
func TestPlaywright(t *testing.T) {
	t.Parallel()
	harness.SkipShort(t)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>%[1]s</title><h1>The page of %[1]s</h1>", strings.Trim(r.URL.Path, "/"))
	}))
	t.Cleanup(pages.Close)
	first, second := bridged.Session(t, nil), bridged.Session(t, nil)
	at := harness.StartBridge(t, nil, harness.Node(t), harness.Program(t, "@playwright/mcp/cli.js"),
		"--headless", "--isolated", "--no-sandbox", "--executable-path", harness.Chromium(t))
	printed := sallyport(t, first, "connector", "add", "playwright", at, "--per-agent")
	if want := "25 tools: 7 allowed, 18 ask"; !strings.Contains(printed, "\n"+want+"\n") {
		t.Errorf("not %q, but:\n%s", want, printed)
	}
	for _, tool := range []string{"browser_navigate", "browser_snapshot"} {
		sallyport(t, first, "policy", "set", "playwright:"+tool, "allow")
	}
	anna, bert := connect(t, first), connect(t, second)
	harness.Await(t, "the tools of Playwright", func() bool { return lists(t, anna, "playwright_browser_snapshot") })
	for agent, name := range map[*mcp.ClientSession]string{anna: "anna", bert: "bert"} {
		callTool(t, agent, "playwright_browser_navigate", args{"url": pages.URL + "/" + name})
	}
	for agent, name := range map[*mcp.ClientSession]string{anna: "anna", bert: "bert"} {
		if got := callTool(t, agent, "playwright_browser_snapshot", args{}); !strings.Contains(got, "The page of "+name) {
			t.Errorf("%s sees:\n%s", name, got)
		}
	}
}

// connect connects an agent made with the Go SDK.
func connect(t *testing.T, s *harness.Session) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.MCPURL, HTTPClient: &http.Client{Transport: bearer(s.Token)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// lists reports whether the agent is offered a tool.
func lists(t *testing.T, agent *mcp.ClientSession, name string) bool {
	t.Helper()
	for tool, err := range agent.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tool.Name == name {
			return true
		}
	}
	return false
}

// callTool returns the text of a result.
func callTool(t *testing.T, agent *mcp.ClientSession, tool string, arguments args) (text string) {
	t.Helper()
	result, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	for _, c := range result.Content {
		if words, ok := c.(*mcp.TextContent); ok {
			text += words.Text
		}
	}
	if result.IsError {
		t.Fatalf("%s: %s", tool, text)
	}
	return text
}

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
