package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const someInvocation = "01999999-0000-7000-8000-000000000007"

// A held call is known by the invocation in its first progress, is answered by
// the message with its own id, and by nothing else.
func TestHold(t *testing.T) {
	for name, test := range map[string]struct {
		first, last string
		held, ok    bool
	}{
		"approved":    {progress("1"), `{"jsonrpc":"2.0","id":7,"result":{}}`, true, true},
		"failed":      {progress("1"), `{"jsonrpc":"2.0","id":7,"result":{"isError":true}}`, true, false},
		"not held":    {`{"jsonrpc":"2.0","id":7,"result":{}}`, progress("2"), false, false},
		"no answer":   {progress("1"), progress("2"), true, false},
		"not his own": {progress("1"), `{"jsonrpc":"2.0","id":8,"result":{}}`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for _, message := range []string{test.first, progress("2"), test.last} {
					fmt.Fprintf(w, "event: message\ndata: %s\n\n", message)
					_ = http.NewResponseController(w).Flush()
				}
			}))
			defer server.Close()
			c, err := dial(t.Context(), target{addr: server.Listener.Addr().String()}, 1<<10)
			if err != nil {
				t.Fatal(err)
			}
			defer c.conn.Close()
			c.prepare(target{path: "/"}, "token")
			h, err := hold(c, "write", 7)
			if (err == nil) != test.held {
				t.Fatalf("hold: %v", err)
			}
			if err != nil {
				return
			}
			if h.invocation != someInvocation {
				t.Errorf("invocation %q", h.invocation)
			}
			if err := answered([]*heldCall{h}, time.Minute); (err == nil) != test.ok {
				t.Errorf("answered: %v", err)
			}
		})
	}
}

func progress(n string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":` + n +
		`,"message":"Waiting for approval of a: http://localhost/invocations/` + someInvocation + ` (5m left)"}}`
}

// A second effect of the same call is seen.
func TestTally(t *testing.T) {
	server := httptest.NewServer(new(tally))
	defer server.Close()
	c := &cluster{upstream: &child{addr: server.Listener.Addr().String()}}
	for _, step := range []struct {
		n  int64
		ok bool
	}{{1, true}, {2, true}, {2, false}} {
		response, err := http.Post(server.URL+"/mcp", "application/json", strings.NewReader(string(callBody("write", step.n, ""))))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if err := c.checkEffects(t.Context(), step.n); (err == nil) != step.ok {
			t.Errorf("after a call %d: %v", step.n, err)
		}
	}
}

func TestParseMemory(t *testing.T) {
	text := "# TYPE x gauge\ngo_memstats_heap_inuse_bytes 2.5e+06\nprocess_resident_memory_bytes 4e+06\ngo_memstats_stack_inuse_bytes 1e+06\n"
	if m, err := parseMemory(strings.NewReader(text)); err != nil || m != (memory{4e6, 2.5e6, 1e6}) {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := parseMemory(strings.NewReader("other 1\n")); err == nil {
		t.Error("metrics without memory pass")
	}
}
