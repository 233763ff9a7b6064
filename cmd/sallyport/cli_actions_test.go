package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/action"
	"sallyport/api"
)

// tallyServer is a service whose tools count what they were asked to do: add
// does it, fail says that it could not, slow does it and answers when it is
// let go.
type tallyServer struct {
	mu     sync.Mutex
	effect int
	let    chan struct{}
}

type tallyKey struct{}

// tally serves the tools and sets TALLY to their URL; tally counts N checks how
// often something was done, once it was; tally lets go has slow answer.
func tally(ts *testscript.TestScript, _ bool, args []string) {
	here := ts.Value(tallyKey{}).(*tallyServer)
	switch {
	case len(args) == 0:
		here.let = make(chan struct{})
		server := httptest.NewServer(here.handler())
		ts.Defer(func() { here.release(); server.CloseClientConnections(); server.Close() })
		ts.Setenv("TALLY", server.URL)
	case args[0] == "lets":
		here.release()
	default:
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		if !comes(func() bool { return here.count() == want }) {
			ts.Fatalf("it was done %d times; want %d", here.count(), want)
		}
	}
}

func (s *tallyServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effect
}

func (s *tallyServer) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.let:
	default:
		close(s.let)
	}
}

func (s *tallyServer) handler() http.Handler {
	no := false
	tools := mcp.NewServer(&mcp.Implementation{Name: "tally", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"by":{"type":"integer"}},"additionalProperties":false}`)
	for name, after := range map[string]func(context.Context) *mcp.CallToolResult{
		"add": func(context.Context) *mcp.CallToolResult { return text("Added.") },
		"fail": func(context.Context) *mcp.CallToolResult {
			r := text("The tally is full.")
			r.IsError = true
			return r
		},
		"slow": func(ctx context.Context) *mcp.CallToolResult {
			select {
			case <-s.let:
			case <-ctx.Done():
			}
			return text("Added at last.")
		},
	} {
		tools.AddTool(&mcp.Tool{
			Name: name, Description: "Counts, by way of " + name + ".", InputSchema: schema, Annotations: &mcp.ToolAnnotations{DestructiveHint: &no},
		}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.mu.Lock()
			s.effect++
			s.mu.Unlock()
			return after(ctx), nil
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, nil)
}

// exits STATUS COMMAND… runs a command that must end with the status.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err, got := ts.Exec(args[1], args[2:]...), 0
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("it ended with status %d; want %s", got, args[0])
	}
}

// waitsFor NAME sets the variable to the id of the call that waits, once one
// does.
func waitsFor(ts *testscript.TestScript, _ bool, args []string) {
	var held api.List[action.Invocation]
	waits := func() bool {
		if ts.Exec("sallyport", "pending", "--json") != nil {
			return false
		}
		held = api.List[action.Invocation]{}
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &held))
		return len(held.Items) == 1
	}
	if !comes(waits) {
		ts.Fatalf("not one call waits after %v", waitAtMost)
	}
	ts.Setenv(args[0], held.Items[0].ID)
}

// A person may have approved between two looks at a call, so the end of its session
// does not tell that it was denied.
func TestACallThatWasOpenWhenItsSessionEndedIsUnknown(t *testing.T) {
	for _, status := range []action.Status{action.StatusPending, action.StatusExecuting} {
		w := &waiter{id: "i1", status: status}
		var got statusError
		if err := w.refused(t.Context(), &problem{api.Problem{Status: 401, Code: "session_over", Detail: "The session has ended."}}); !errors.As(err, &got) || got.status != exitUnknown {
			t.Errorf("%s: %v", status, err)
		}
	}
}
