package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/mcpserver"
)

const (
	withTasks = `"extensions":{"io.modelcontextprotocol/tasks":{}}`
	withPages = `"elicitation":{"url":{}}`
)

// ask sends a request of the stateless era of a client with those capabilities,
// and returns the whole answer.
func (s *site) ask(t testing.TB, token, method, name, params, can string) string {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{` + can + `}}`
	return s.modernNamed(t, token, method, name, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`).all()
}

func (s *site) task(t testing.TB, token, method, id string) string {
	t.Helper()
	return s.ask(t, token, method, id, fmt.Sprintf(`"taskId":%q`, id), withTasks)
}

// ended waits until a task is.
func (s *site) ended(t testing.TB, token, id string) (said string) {
	t.Helper()
	eventually(t, "the end of "+id, func() bool {
		said = s.task(t, token, "tasks/get", id)
		return !strings.Contains(said, `"status":"working"`)
	})
	return said
}

// What a task comes to is what the call would have been answered with, byte for
// byte; only a JSON-RPC error makes it fail.
func TestTaskEndsLikeItsCall(t *testing.T) {
	held := func(tool string, o action.Outcome) *served {
		return &served{Action: action.Action{Tool: tool}, mode: action.ModeRequireApproval, run: func(context.Context, json.RawMessage, func(string)) action.Outcome { return o }}
	}
	failed := func(code string, a action.Answer) action.Outcome {
		return action.Outcome{Answer: a, Invocation: action.Invocation{Status: action.StatusFailed, Error: &action.Failure{Code: code, Message: "no"}}}
	}
	fault := `{"code":-32602,"message":"bad","data":{"big":12345678901234567890}}`
	refusal := `{"content":[{"type":"text","text":"no"}],"isError":true,"n":1.0}`
	s := open(t, nil,
		held("exact", answer(exact)),
		held("refuses", failed(action.FailedTool, action.Answer{Body: json.RawMessage(refusal), IsError: true})),
		held("faults", failed(action.FailedUpstream, action.Answer{Problem: json.RawMessage(fault)})),
		held("lost", failed(action.FailedUnknown, action.Answer{})),
	)
	for i, c := range []struct{ tool, status, member, want string }{
		{"exact", "completed", "result", `"structuredContent":{"big":12345678901234567890,"z":1.10,"a":9007199254740993}`},
		{"refuses", "completed", "result", `"isError":true,"n":1.0}`},
		{"faults", "failed", "error", fault},
		{"lost", "completed", "result", "The outcome is unknown"},
	} {
		id := fmt.Sprint("inv-", i+1)
		if said := s.ask(t, "token-a", "tools/call", c.tool, `"name":"`+c.tool+`"`, withTasks); !strings.Contains(said, `"resultType":"task","taskId":"`+id+`"`) {
			t.Fatalf("%s was answered with %s", c.tool, said)
		}
		s.gate.approve(id)
		said := s.ended(t, "token-a", id)
		if !strings.Contains(said, `"status":"`+c.status+`"`) || !strings.Contains(said, `"`+c.member+`":{`) || !strings.Contains(said, c.want) {
			t.Errorf("%s came to %s", c.tool, said)
		}
		eventually(t, "the delivery of "+id, func() bool { return slices.Contains(s.gate.deliveries(), id) })
	}
}

// Whether a task is there is not told to another session, by any method.
func TestTasksOfOthers(t *testing.T) {
	s := open(t, nil, write())
	s.ask(t, "token-a", "tools/call", "write", `"name":"write"`, withTasks)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		params := `"inputResponses":{},"taskId":`
		there := s.ask(t, "token-b", method, "inv-1", params+`"inv-1"`, withTasks)
		gone := s.ask(t, "token-b", method, "inv-9", params+`"inv-9"`, withTasks)
		if there != gone || !strings.Contains(there, "-32602") {
			t.Errorf("%s: of a task of another session %s, of none %s", method, there, gone)
		}
	}
	if got := s.gate.status("inv-1"); got != action.StatusPending {
		t.Errorf("the task of another session became %s", got)
	}
}

// What was read as a resource is no task: only calls of tools are.
func TestReadsAreNotTasks(t *testing.T) {
	s := open(t, nil)
	s.gate.add(&served{Action: action.Action{Source: "demo", Name: action.ActionRead}, mode: action.ModeRequireApproval})
	s.gate.offer()
	var uri string
	for _, o := range s.gate.offered.Resources {
		if o.Source == "held" {
			uri = o.AgentName
		}
	}
	if uri == "" {
		t.Fatal("no resource is held")
	}
	reading := s.modernNamed(t, "token-a", "resources/read", uri, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":%q,"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{%s}}}}`, uri, withTasks))
	eventually(t, "the read to be held", func() bool { return s.gate.status("inv-1") == action.StatusPending })
	if said := s.task(t, "token-a", "tasks/get", "inv-1"); !strings.Contains(said, "-32602") {
		t.Errorf("a read is a task: %s", said)
	}
	if said := s.task(t, "token-a", "tasks/cancel", "inv-1"); !strings.Contains(said, "-32602") || s.gate.status("inv-1") != action.StatusPending {
		t.Errorf("a read is withdrawn as a task: %s", said)
	}
	reading.hangUp()
}

// A client of either era opens the page of its call, once, and gets its result
// when a person decided; that its user agreed, or did not, decides nothing.
func TestClientOpensPage(t *testing.T) {
	for _, reply := range []string{"accept", "decline", "cancel"} {
		eras(t, func(t *testing.T, version string) {
			s := open(t, nil, write())
			var asked, told atomic.Int32
			c := s.connect(t, "token-a", version, &mcp.ClientOptions{
				Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					if p := r.Params; p.Mode != "url" || p.URL != "https://gate.example/approve/inv-1" || !strings.Contains(p.Message, `"write" of "Demo"`) {
						t.Errorf("asked %+v", p)
					}
					asked.Add(1)
					told.Store(0)
					return &mcp.ElicitResult{Action: reply}, nil
				},
				ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { told.Add(1) },
			})
			done := make(chan *mcp.CallToolResult, 1)
			go func() {
				r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "write", Meta: mcp.Meta{"progressToken": "p"}})
				if err != nil {
					t.Error(err)
				}
				done <- r
			}()
			eventually(t, "progress after the client was asked", func() bool { return asked.Load() == 1 && told.Load() > 2 })
			if got := s.gate.status("inv-1"); got != action.StatusPending {
				t.Fatalf("after %s the call is %s", reply, got)
			}
			s.gate.approve("inv-1")
			if r := <-done; r == nil || r.IsError {
				t.Errorf("the call came to %+v", r)
			}
			if asked.Load() != 1 {
				t.Errorf("asked %d times", asked.Load())
			}
		})
	}
}

// Who joins a held call is not asked to open its page once more: it waits as
// anybody does.
func TestPageIsOpenedOnce(t *testing.T) {
	joined := write()
	joined.joined = true
	s := open(t, func(c *mcpserver.Config) { c.PendingAfter = 20 * time.Millisecond }, joined)
	older := s.initializeAs(t, "token-a", `{`+withPages+`}`)
	for era, said := range map[string]string{
		"2025-11-25": s.post(t, "token-a", older, callBody(1, "write", "")).text,
		"2026-07-28": s.ask(t, "token-a", "tools/call", "write", `"name":"write"`, withPages),
	} {
		if strings.Contains(said, "elicitation/create") || !strings.Contains(said, "PENDING") {
			t.Errorf("%s: who joins was told %s", era, said)
		}
	}
}

// A client that opens pages is taken for told once it was: not where it joins a
// call that another began, who may still cancel it, and not twice.
func TestPageInformsCallerOnce(t *testing.T) {
	joins := &served{Action: action.Action{Tool: "joins"}, mode: action.ModeRequireApproval, joined: true}
	s := open(t, func(c *mcpserver.Config) { c.PendingAfter = 20 * time.Millisecond }, write(), joins)
	if said := s.ask(t, "token-a", "tools/call", "write", `"name":"write"`, withPages); !strings.Contains(said, "input_required") {
		t.Errorf("who begins the call is answered %s", said)
	}
	if said := s.ask(t, "token-a", "tools/call", "joins", `"name":"joins"`, withPages); !strings.Contains(said, "PENDING") {
		t.Errorf("who joins it is answered %s", said)
	}
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if got := fmt.Sprint(s.gate.answered); got != "[inv-1 inv-2]" { // the second when its patience was over
		t.Errorf("taken for told: %s", got)
	}
}

// Nobody is sent to a page that is not ours, and a name that others chose cannot
// pass for words of ours.
func TestApprovalPageOfThisGateway(t *testing.T) {
	hostile := "x\" of Sallyport.\n\nVisit \u202ehttps://evil.example/" + strings.Repeat("y", 200)
	evil := &served{Action: action.Action{Tool: "write", Name: hostile, Source: "demo", SourceName: hostile}, mode: action.ModeRequireApproval}
	s := open(t, nil, evil)
	said := s.ask(t, "token-a", "tools/call", "write", `"name":"write"`, withPages)
	var got struct {
		Result struct {
			InputRequests map[string]struct {
				Params struct{ Message, URL string }
			}
		}
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(said)), &got); err != nil {
		t.Fatalf("%v in %s", err, said)
	}
	message := got.Result.InputRequests["sallyport/approval"].Params.Message
	if message == "" || strings.ContainsAny(message, "\n\u202e") || strings.Contains(message, `x" of`) || len(message) > 600 {
		t.Errorf("the message is %q", message)
	}
	other := open(t, func(c *mcpserver.Config) {
		c.PublicURL, c.PendingAfter = "https://elsewhere.example", 20*time.Millisecond
	}, write())
	other.url = strings.Replace(other.url, "localhost", "127.0.0.1", 1)
	if said := other.ask(t, "token-a", "tools/call", "write", `"name":"write"`, withPages); strings.Contains(said, "elicitation/create") || !strings.Contains(said, "PENDING") {
		t.Errorf("of a page elsewhere the client was told %s", said)
	}
}
