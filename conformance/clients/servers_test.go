package clients_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/conformance/harness"
)

// TestServers adds servers that others wrote with one command each.
func TestServers(t *testing.T) {
	t.Parallel()
	harness.SkipShort(t)
	node := harness.Node(t)
	s := bridged.Session(t, nil)
	for _, server := range []struct {
		name    string
		command []string
		env     []string
		tools   int
		allowed int // as their hints say
	}{
		{"everything", []string{"@modelcontextprotocol/server-everything/dist/index.js"}, nil, 13, 9},
		{"filesystem", []string{"@modelcontextprotocol/server-filesystem/dist/index.js", t.TempDir()}, nil, 14, 10},
		{"memory", []string{"@modelcontextprotocol/server-memory/dist/index.js"}, nil, 9, 3},
		{"notion", []string{"@notionhq/notion-mcp-server/bin/cli.mjs"}, []string{"NOTION_TOKEN=ntn_none"}, 24, 12},
		{"context7", []string{"@upstash/context7-mcp/dist/index.js"}, nil, 2, 2},
	} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			command := append([]string{node, harness.Program(t, server.command[0])}, server.command[1:]...)
			at := harness.StartBridge(t, server.env, command...)
			sallyport(t, s, "connector", "add", server.name, at)
			printed := sallyport(t, s, "connector", "validate", server.name)
			rows := regexp.MustCompile(`(?m)^\S+ +`+server.name+`_\S+ +(read|write|danger) +(\S+)$`).FindAllStringSubmatch(printed, -1)
			allowed := 0
			for _, row := range rows {
				if row[2] == "allow" {
					allowed++
				}
			}
			if len(rows) != server.tools || allowed != server.allowed {
				t.Errorf("%d tools, %d allowed; expected %d and %d:\n%s", len(rows), allowed, server.tools, server.allowed, printed)
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
	sallyport(t, first, "connector", "add", "playwright", at, "--per-agent")
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
