package cli

import (
	"bytes"
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
	w := &waiter{agentClient: &agentClient{Client: c, session: "s", log: &told}, std: &command.Streams{Out: io.Discard, Err: &told}, deadline: time.Now().Add(time.Hour), id: "i"}
	if err := w.wait(t.Context()); err != nil || looks != 2 {
		t.Errorf("%d looks: %v", looks, err)
	}
}
