package dashboard_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

// listener reads one stream of events.
type listener struct {
	t    *testing.T
	res  *http.Response
	scan *bufio.Scanner
	stop context.CancelFunc
}

func (h *house) listen(credential string) *listener {
	h.t.Helper()
	server := httptest.NewServer(h.srv.Handler())
	h.t.Cleanup(server.Close)
	ctx, stop := context.WithTimeout(h.t.Context(), 10*time.Second)
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/v1/events", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host = "gate.test:8787"
	r.Header.Set("Authorization", "Bearer "+credential)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { stop(); _ = res.Body.Close() })
	l := &listener{t: h.t, res: res, scan: bufio.NewScanner(res.Body), stop: stop}
	l.want("ready", "{}")
	return l
}

// next returns the next event and its data; comments are passed over.
func (l *listener) next() (event, data string) {
	l.t.Helper()
	for l.scan.Scan() {
		switch line := l.scan.Text(); {
		case strings.HasPrefix(line, "event: "):
			event = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "data: "):
			return event, strings.TrimPrefix(line, "data: ")
		}
	}
	if err := l.scan.Err(); err != nil {
		l.t.Fatalf("the stream did not end by itself: %v", err)
	}
	return "", "" // the server ended the stream
}

func (l *listener) want(event, data string) {
	l.t.Helper()
	if e, d := l.next(); e != event || d != data {
		l.t.Fatalf("event %q %s, want %q %s", e, d, event, data)
	}
}

func TestEvents(t *testing.T) {
	h := newHouse(t)
	person, agent := h.listen(h.member), h.listen(h.agent)
	other := h.pending("s2")
	mine := h.pending("s1")
	event := func(id, session string) string {
		return `{"id":"` + id + `","status":"pending","session_id":"` + session + `","source_id":"connector:c1","action":"create"}`
	}
	person.want("invocation", event(other, "s2"))
	person.want("invocation", event(mine, "s1"))
	agent.want("invocation", event(mine, "s1")) // and nothing of the other

	h.hints.Publish(action.Hint{Kind: action.HintPolicy, Organization: "org2"})
	h.hints.Publish(action.Hint{Kind: action.HintSession, Organization: org, Session: "s2"})
	h.want(200, h.admin, "PUT", "/api/v1/policy/modes/*", `{"mode":"deny"}`)
	person.want("session", `{"session_id":"s2"}`)
	person.want("policy", "{}")
	agent.want("policy", "{}")
	if ct := person.res.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("Content-Type %q", ct)
	}
}

// What instances tell one another is nobody else's; that hints were lost is
// everybody's of the organization.
func TestEventsBetweenInstances(t *testing.T) {
	h := newHouse(t)
	person, agent := h.listen(h.member), h.listen(h.agent)
	h.hints.Publish(action.Hint{Kind: action.HintSignal, Organization: org})
	h.hints.Publish(action.Hint{Kind: action.HintResource, Organization: org, Source: "connector:c1", Resource: "file:///a"})
	h.hints.Publish(action.Hint{Kind: action.HintReload, Organization: "org2"})
	h.hints.Publish(action.Hint{Kind: action.HintReload, Organization: org})
	h.hints.Publish(action.Hint{Kind: action.HintPolicy, Organization: org})
	for _, l := range []*listener{person, agent} {
		l.want("reload", "{}")
		l.want("policy", "{}")
	}
}

// A client that does not keep up is told to read again, and blocks nobody.
func TestASlowListener(t *testing.T) {
	h := newHouse(t)
	rows := &slowRows{gate: make(chan struct{})}
	slow := newHouse(t, func(c *dashboard.Config) { rows.Calls = c.Calls; c.Calls, c.Hints = rows, h.hints })
	l := slow.listen(slow.member)
	for range 200 { // the first holds the stream up; the buffer cannot take the rest
		h.hints.Publish(action.Hint{Kind: action.HintInvocation, Organization: org, Session: "s1", Invocation: "none", Status: action.StatusPending})
	}
	close(rows.gate)
	for range 200 {
		if event, _ := l.next(); event == "reload" {
			return
		}
	}
	t.Error("no reload came")
}

// slowRows answers once its gate is open.
type slowRows struct {
	dashboard.Calls
	gate chan struct{}
}

func (r *slowRows) Invocation(ctx context.Context, organization, id string) (action.Invocation, error) {
	<-r.gate
	return r.Calls.Invocation(ctx, organization, id)
}

func TestAStreamEndsWithItsCredential(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) { c.KeepAlive = time.Millisecond })
	l := h.listen(h.agent)
	if _, err := h.db.RevokeSession(t.Context(), org, "s1"); err != nil {
		t.Fatal(err)
	}
	if event, _ := l.next(); event != "ended" {
		t.Errorf("event %q as the session ended", event)
	}
	if event, _ := l.next(); event != "" {
		t.Errorf("event %q after the session ended", event)
	}
}

func TestCloseEndsStreamsAndWaits(t *testing.T) {
	h := newHouse(t)
	l := h.listen(h.member)
	h.srv.Close()
	if event, _ := l.next(); event != "" {
		t.Errorf("event %q after closing", event)
	}
}
