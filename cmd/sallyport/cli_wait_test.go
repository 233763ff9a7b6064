package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Who waits for a call is told at once what for, and not when the first long look
// is over.
func TestWaitSaysAtOnceWhatFor(t *testing.T) {
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
	c, err := newClient(server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	w := &waiter{agentClient: &agentClient{client: c, session: "s", log: &told}, std: &stdio{Out: io.Discard, Err: &told}, until: time.Now().Add(time.Hour), id: "i"}
	if err := w.wait(t.Context()); err != nil || looks != 2 {
		t.Errorf("%d looks: %v", looks, err)
	}
}
