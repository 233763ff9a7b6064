package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
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

// wantCall expects an event of a call with at least these fields.
func (l *listener) wantCall(event, id string, fields map[string]any) {
	l.t.Helper()
	e, data := l.next()
	var got map[string]any
	if err := json.Unmarshal([]byte(data), &got); err != nil || e != event || got["id"] != id {
		l.t.Fatalf("event %q %s, want %q of %s", e, data, event, id)
	}
	for name, want := range fields {
		if got[name] != want {
			l.t.Errorf("%s is %v, want %v, in %q %s", name, got[name], want, e, data)
		}
	}
	if strings.Contains(data, "hunter2") {
		l.t.Errorf("a secret is in %q %s", e, data)
	}
}

func TestEvents(t *testing.T) {
	h := newHouse(t)
	person, agent := h.listen(h.member), h.listen(h.agent)
	other := h.pending("s2")
	mine := h.pending("s1")
	person.wantCall("invocation", other, map[string]any{"session_id": "s2", "status": "pending", "source_id": "connector:c1", "action": "create"})
	person.wantCall("invocation", mine, map[string]any{"session_id": "s1"})
	agent.wantCall("invocation", mine, map[string]any{"session_id": "s1"}) // and nothing of the other
	agent.wantCall("action_approval_request", mine, map[string]any{"session_id": "s1"})

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

// Events and lists of calls describe the call and its session, so that nobody looks them
// up; a session's own clients get them by the names of its approval, too.
func TestEventsDescribeTheCall(t *testing.T) {
	origins := &countedOrigins{}
	h := newHouse(t, func(c *dashboard.Config) { origins.Inbound, c.Inbound = c.Inbound, origins })
	s := coding("s3")
	s.Title, s.Group, s.CreatedBy = "Nightly", "ops", "u-ada"
	h.mint(s)
	person, agent := h.listen(h.member), h.listen(h.signer.Mint("s3"))
	own := map[string]any{"session_id": "s3", "session_title": "Nightly", "session_created_by": "u-ada", "group": "ops"}
	all := func(more map[string]any) map[string]any {
		maps.Copy(more, own)
		return more
	}

	id := h.pending("s3")
	expires := must(h.db.Invocation(t.Context(), org, id)).ExpiresAt.Format(time.RFC3339Nano)
	want := all(map[string]any{"status": "pending", "risk": "write", "mode": "require_approval", "source_name": "GitHub", "expires_at": expires})
	agent.wantCall("invocation", id, want)
	agent.wantCall("action_approval_request", id, want)
	want["session_creator"] = "ada"
	person.wantCall("invocation", id, want)

	list := h.want(200, h.member, "GET", "/api/v1/invocations?session=s3", "")
	for _, field := range []string{`"session_title":"Nightly"`, `"session_created_by":"u-ada"`, `"session_creator":"ada"`, `"group":"ops"`} {
		if !strings.Contains(list.body, field) {
			t.Errorf("%s is not in the list %s", field, list.body)
		}
	}

	h.want(200, h.admin, "POST", "/api/v1/invocations/"+id+"/deny", `{"reason":"Not today."}`)
	want = all(map[string]any{"status": "denied", "risk": "write", "approved_by": "u-ben", "denied_reason": "human", "denied_note": "Not today."})
	person.wantCall("invocation", id, want)
	agent.wantCall("invocation", id, want)
	agent.wantCall("action_approval_result", id, want)

	h.want(200, h.admin, "PATCH", "/api/v1/sessions/s3", `{"title":"Weekly"}`)
	person.want("session", `{"session_id":"s3"}`)
	agent.want("session", `{"session_id":"s3"}`)
	id = h.add(action.Invocation{Session: "s3", Status: action.StatusFailed, Risk: action.RiskRead, Error: &action.Failure{Code: action.FailedReach, Fault: "upstream_timeout"}})
	h.hints.Publish(action.Hint{Kind: action.HintInvocation, Organization: org, Session: "s3", Invocation: id, Status: action.StatusFailed})
	person.wantCall("invocation", id, map[string]any{"status": "failed", "session_title": "Weekly"})
	agent.wantCall("invocation", id, map[string]any{"status": "failed", "risk": "read"})
	agent.wantCall("action_completed", id, map[string]any{"status": "failed", "risk": "read"})

	before := origins.n.Load()
	h.want(200, h.member, "GET", "/api/v1/invocations", "")
	if n := origins.n.Load() - before; before != 3 || n != 1 {
		t.Errorf("%d queries of sessions before, want 3 (a stream, a list, the stream once the title changed), and %d of a list, want 1", before, n)
	}
}

// countedOrigins counts the queries of the sessions of calls.
type countedOrigins struct {
	dashboard.Inbound
	n atomic.Int64
}

func (c *countedOrigins) OriginsOfSessions(ctx context.Context, organization string, ids []string) (map[string]event.SessionOrigin, error) {
	c.n.Add(1)
	return c.Inbound.OriginsOfSessions(ctx, organization, ids)
}
