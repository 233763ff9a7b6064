package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/mcpserver"
)

// lostText returns the texts of a result that its structured content does not contain;
// clients such as Claude Code and Codex would not give them to their models. A result
// without structured content loses nothing.
func lostText(result []byte) (lost []string) {
	var r struct {
		Content    []struct{ Text string }
		Structured map[string]any `json:"structuredContent"`
	}
	if json.Unmarshal(result, &r) != nil || r.Structured == nil {
		return nil
	}
	message, _ := r.Structured["message"].(string)
	tools, _ := json.Marshal(r.Structured["tools"])
	for _, item := range r.Content {
		var value any
		if json.Unmarshal([]byte(item.Text), &value) == nil &&
			(reflect.DeepEqual(value, any(r.Structured)) || reflect.DeepEqual(value, r.Structured["definition"])) {
			continue
		}
		if strings.Contains(message, item.Text) {
			continue
		}
		for line := range strings.Lines(item.Text) {
			line = strings.TrimSpace(line)
			tool, _, found := strings.Cut(strings.TrimPrefix(line, "- "), " (")
			if !strings.Contains(message, line) && (!found || !strings.Contains(string(tools), fmt.Sprintf(`"tool":%q`, tool))) {
				lost = append(lost, line)
			}
		}
	}
	return lost
}

// resultsIn returns the results of JSON-RPC responses in a text: plain, or as events.
func resultsIn(text string) (results [][]byte) {
	for line := range strings.Lines(text) {
		var m struct{ Result json.RawMessage }
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &m) == nil && m.Result != nil {
			results = append(results, m.Result)
		}
	}
	return results
}

// What the text of a result says stands in its structured content, too: in every
// result that the gateway itself makes.
func TestStructuredContentSaysAll(t *testing.T) {
	inv := action.Invocation{ID: "inv-1", Source: "demo", SourceName: "Demo", Action: "read", ApprovalURL: "https://gate.example/approve/inv-1"}
	g := &scripted{gate: newGate(read(), write())}
	var outcome action.Outcome
	g.answer = func() (*action.Outcome, error) { return &outcome, nil }
	var search atomic.Value
	s := newServer(t, g.gate, &hints{}, func(c *mcpserver.Config) {
		asSearcher(&search)(c)
		c.Gate, c.RequestGrant = g, g.RequestGrant
	})
	end(t, s)
	id := begin(t, s, "token-a")
	call := func(tool, arguments string) string {
		return serve(s, rpc("token-a", id, callBody(1, tool, `,"arguments":`+arguments))).Body.String()
	}
	check := func(name, got string, says ...string) {
		t.Helper()
		results := resultsIn(got)
		if len(results) != 1 {
			t.Fatalf("%s: %s", name, got)
		}
		if lost := lostText(results[0]); lost != nil {
			t.Errorf("%s: the structured content lacks %q\n%s", name, lost, results[0])
		}
		var r struct{ StructuredContent struct{ Message string } }
		if err := json.Unmarshal(results[0], &r); err != nil {
			t.Fatal(err)
		}
		for _, want := range says {
			if !strings.Contains(r.StructuredContent.Message, want) {
				t.Errorf("%s: the message lacks %q: %q", name, want, r.StructuredContent.Message)
			}
		}
	}
	for _, status := range []action.Status{
		action.StatusPending, action.StatusApproved, action.StatusExecuting, action.StatusCompleted, action.StatusFailed, action.StatusDenied, action.StatusExpired,
	} {
		inv.Status = status
		for _, name := range []string{"read", action.ActionRead} { // a tool, and a resource whose result comes by invocation_wait
			outcome = action.Outcome{Invocation: inv}
			outcome.Invocation.Action = name
			if status == action.StatusCompleted && name != "read" {
				outcome.Answer.Body = json.RawMessage(`{"contents":[{"uri":"a://b","text":"c"}]}`)
			}
			for _, tool := range asking {
				var says []string
				if status == action.StatusPending && name == "read" && tool != "invocation_status" {
					says = []string{"nothing has run", "Do not repeat", "invocation_wait", inv.ApprovalURL}
				}
				check(string(status)+" "+name+" "+tool, call(tool, `{"invocation_id":"inv-1"}`), says...)
			}
		}
	}
	// A platform tool is the gateway's own; the results of other sources are not touched.
	body := `{"content":[{"type":"text","text":"Saved 2 files."}],"structuredContent":{ "n":1.10}}`
	outcome = action.Outcome{Invocation: action.Invocation{ID: "inv-1", Source: action.Platform, Status: action.StatusCompleted}, Answer: action.Answer{Body: json.RawMessage(body)}}
	check("platform tool", call("read", `{}`), "Saved 2 files.")
	outcome.Invocation.Source = "demo"
	if got := call("read", `{}`); !strings.Contains(got, body) {
		t.Errorf("the result of a source was changed: %s", got)
	}
	for _, tools := range []action.ToolListing{action.ListAll, action.ListSearch} {
		search.Store(tools)
		check("guide", call("actions_guide", `{}`), "# What this session can do", "How approvals behave")
		check("guide of a source", call("actions_guide", `{"source":"demo"}`), "`write`")
		check("unknown source", call("actions_guide", `{"source":"x"}`))
		check("search", call("actions_search", `{"query":""}`), "2 of 2 matching tools")
		check("nothing found", call("actions_search", `{"query":"zebra"}`), "No tool matches")
		check("describe", call("actions_describe", `{"tool":"write"}`), "needs a person's approval")
		check("describe a built-in tool", call("actions_describe", `{"tool":"actions_guide"}`), "a tool of the gateway itself")
		check("grant", call("grant_request", `{"tool":"write"}`), "Nothing is granted yet")
		check("invalid params", call("actions_call", `{"tool":1}`))
	}
}

// The same in all transcripts. Results of sources are exempt: they pass unchanged.
func TestStructuredContentInTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range resultsIn(string(text)) {
			if strings.Contains(string(result), `"structuredContent"`) {
				seen++
			}
			if lost := lostText(result); lost != nil {
				t.Errorf("%s: the structured content lacks %q", file, lost)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d results with structured content; more are in the transcripts", seen)
	}
}

// Only package wire writes structured content, and there the text goes with it.
func TestStructuredContentHasOneHome(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), `"structuredContent":`) {
			t.Errorf("%s writes structured content; use the constructors of package wire", file)
		}
	}
}

// A call that becomes a task carries what its model is to read at once, with the link.
func TestTaskNote(t *testing.T) {
	s := open(t, nil, write())
	const declares = `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	got := s.modernNamed(t, "token-a", "tools/call", "write",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+declares+`}}}`).all()
	var m struct {
		Result struct {
			ResultType string
			Meta       struct {
				Agent struct{ ModelImmediateResponse string } `json:"com.anthropic/agent-task"`
				Older string                                  `json:"io.modelcontextprotocol/model-immediate-response"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(got), &m); err != nil || m.Result.ResultType != "task" {
		t.Fatal(err, got)
	}
	for _, note := range []string{m.Result.Meta.Agent.ModelImmediateResponse, m.Result.Meta.Older} {
		for _, want := range []string{"PENDING", "nothing has run", "Do not repeat", "invocation_wait", `"inv-1"`, "https://gate.example/approve/inv-1"} {
			if !strings.Contains(note, want) {
				t.Errorf("the note lacks %q: %q", want, note)
			}
		}
	}
}

// A token that is missing, wrong, expired or revoked is told apart in the header, which
// is all that some clients show, and in the body.
func TestChallenge(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	s := newServer(t, newGate(), &hints{}, func(c *mcpserver.Config) {
		known := c.Authenticate
		c.Authenticate = func(ctx context.Context, bearer string) (*action.Session, error) {
			switch bearer {
			case "token-odd":
				return nil, action.Errorf(action.ErrUnauthenticated, "x", "%s", "a \"quote\", a \\ and\r\nX-Injected: 1 – é")
			case "token-revoked":
				return &action.Session{ID: "s", RevokedAt: &past}, nil
			}
			return known(ctx, bearer)
		}
	})
	end(t, s)
	for _, row := range []struct{ token, code, says string }{
		{"", "", "A session token is required: send it as Authorization: Bearer <token>."},
		{"token-nobody", "invalid_token", "The session token is not valid; ask for a new one."},
		{"token-expired", "invalid_token", "This session has expired. Ask for a new session token."},
		{"token-revoked", "invalid_token", "This session was revoked. Ask for a new session token."},
		{"token-odd", "invalid_token", "a 'quote', a   and  X-Injected: 1    "},
	} {
		r := rpc(row.token, "", "{}")
		if row.token == "" {
			r.Header.Del("Authorization")
		}
		w := serve(s, r)
		want := `Bearer realm="sallyport"`
		if row.code != "" {
			want += `, error="` + row.code + `"`
		}
		want += `, error_description="` + row.says + `"`
		if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || got != want {
			t.Errorf("%q: %d %s, want %s", row.token, w.Code, got, want)
		}
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || row.token != "token-odd" && w.Body.String() != row.says+"\n" {
			t.Errorf("%q: %s", row.token, w.Body)
		}
	}
}

// A client that looks for OAuth reads in OAuth's own form what to do instead.
func TestOAuthProbes(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	for _, path := range mcpserver.OAuthPaths() {
		mux.HandleFunc(path, mcpserver.RefuseOAuth)
	}
	for _, probe := range []string{
		"GET /.well-known/oauth-protected-resource", "GET /.well-known/oauth-protected-resource/mcp", "GET /.well-known/oauth-authorization-server",
		"GET /.well-known/oauth-authorization-server/mcp", "GET /.well-known/openid-configuration", "GET /.well-known/openid-configuration/mcp",
		"GET /mcp/.well-known/openid-configuration", "GET /mcp/.well-known/oauth-authorization-server", "POST /register", "POST /token", "GET /authorize?x=1",
	} {
		method, target, _ := strings.Cut(probe, " ")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, target, nil))
		var e struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusNotFound || e.Error == "" ||
			!strings.Contains(e.Description, "Authorization: Bearer <token>") || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s %v", probe, w.Code, w.Body, err)
		}
	}
}
