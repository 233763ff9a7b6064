package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
)

// An approver may have approved the call between two polls, so the end of its
// session does not imply a denial.
func TestCallOutcomeUnknownWhenSessionEnds(t *testing.T) {
	for _, status := range []action.Status{action.StatusPending, action.StatusExecuting} {
		w := &waiter{id: "i1", status: status}
		var got command.StatusError
		if err := w.callError(t.Context(), &problem{api.Problem{Status: 401, Code: "session_over", Detail: "The session has ended."}}); !errors.As(err, &got) || got.Status != command.ExitUnknown {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// actions wait reports the pending call before its first long poll.
func TestWaitReportsPendingCallAtOnce(t *testing.T) {
	var told bytes.Buffer
	looks := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		looks++
		wait := r.URL.Query().Get("wait")
		if looks == 1 {
			if wait != "0s" {
				t.Errorf("the first look waits for %s", wait)
			}
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"invocation":{"id":"i","source_name":"Notes","action":"add","status":"pending"}}`)
			return
		}
		if wait != "20s" || !strings.Contains(told.String(), "waiting for approval: Notes:add") {
			t.Errorf("look %d waits for %s, after %q was told", looks, wait, told.String())
		}
		_, _ = io.WriteString(w, `{"invocation":{"id":"i","source_name":"Notes","action":"add","status":"completed"},"result":{}}`)
	}))
	defer server.Close()
	c, err := NewClient(server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	w := &waiter{agentClient: &agentClient{Client: c, session: "s", log: &told, deadline: time.Now().Add(time.Hour)}, std: &command.Streams{Out: io.Discard, Err: &told}, id: "i"}
	if err := w.wait(t.Context()); err != nil || looks != 2 {
		t.Errorf("%d looks: %v", looks, err)
	}
}

// The exit status tells an agent what to do when its call was not made.
func TestExitStatusWithoutCall(t *testing.T) {
	t.Setenv(agent.TokenVariable, "spt_token")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"status":401,"code":"session_revoked","detail":"The run of this session has ended or was reassigned. Stop."}`)
	}))
	defer server.Close()
	for _, c := range []struct {
		name, url, wait string
		stop            bool // a signal arrives between two attempts
		status          int
		says            string
		retries         bool
	}{
		{"ended session", server.URL, "10m", false, command.ExitDenied, "The run of this session has ended", false},
		{"no gateway", "http://127.0.0.1:1", "0s", false, command.ExitPending, "does not answer", false},
		{"no gateway until the deadline", "http://127.0.0.1:1", "1s", false, command.ExitPending, "does not answer", true},
		{"a signal between retries", "http://127.0.0.1:1", "1m", true, command.ExitPending, "stopped before the gateway answered", true},
	} {
		for _, words := range [][]string{{"actions", "run", "notes", "add"}, {"actions", "wait", "ID"}} {
			ctx, cancel := context.WithCancel(t.Context())
			errs := &signaledBuffer{signal: func() {}}
			if c.stop {
				errs.signal = cancel
			}
			status := executeClient(ctx, append(words, "--url", c.url, "--wait", c.wait, "--retry-every", "400ms"), nil, io.Discard, errs)
			cancel()
			text := errs.String()
			if retried := strings.Contains(text, "retrying"); status != c.status || !strings.Contains(text, c.says) || retried != c.retries || strings.Contains(text, "context canceled") || strings.Contains(text, "(4 of") {
				t.Errorf("%s, %v: status %d, %s", c.name, words, status, text)
			}
		}
	}
}

// signaledBuffer calls a function on each write.
type signaledBuffer struct {
	bytes.Buffer
	signal func()
}

// Write implements io.Writer.
func (b *signaledBuffer) Write(p []byte) (int, error) {
	b.signal()
	return b.Buffer.Write(p)
}
