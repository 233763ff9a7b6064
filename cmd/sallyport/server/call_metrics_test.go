package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sallyport/action"
	"sallyport/action/gate"
)

// A call is one line at its end, with all that it is found by, and none of its
// params and results.
func TestCallIsALineInTheLog(t *testing.T) {
	t.Parallel()
	lines := &tape{}
	log := NewLogger(lines, "info", "json")
	h := newHouse(t, func(c *gate.Config) { c.Observer = newCallLog(newCallMetrics(), log) })
	e := &effects{}
	h.catalog.put(tool("read", action.RiskRead, e.run))
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	read := h.want(h.get(h.begin(t.Context(), h.call("read", `{"text":"canary"}`))), action.StatusCompleted).Invocation
	done := h.begin(t.Context(), h.call("write", `{"text":"canary"}`))
	held := h.pending()
	if n := strings.Count(lines.String(), "\n"); n != 2 {
		t.Errorf("%d lines before the second call ended:\n%s", n, lines)
	}
	v := h.verdict(held.ID)
	v.Note = "canary"
	if _, err := h.gate.Deny(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	write := h.want(h.get(done), action.StatusDenied).Invocation
	done = h.begin(t.Context(), h.call("write", `{"n":2}`))
	h.approve(h.pending().ID)
	approved := h.want(h.get(done), action.StatusCompleted).Invocation
	grant := h.grant(action.Grant{Terms: action.Terms{Source: "notes", Action: "write"}, ToolHash: "h1"})
	granted := h.want(h.get(h.begin(t.Context(), h.call("write", `{"n":3}`))), action.StatusCompleted).Invocation
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	want := []map[string]any{
		{
			"level": "INFO", "msg": "call", "invocation": read.ID, "session": h.session.ID, "organization": org, "source": "notes", "action": "read",
			"risk": "read", "mode": "allow", "mode_source": "inferred", "status": "completed",
		},
		{
			"level": "INFO", "msg": "call held", "invocation": write.ID, "session": h.session.ID, "organization": org, "source": "notes", "action": "write",
			"risk": "write", "mode": "require_approval", "mode_source": "inferred", "status": "pending", "expires_at": held.ExpiresAt.Format(time.RFC3339Nano),
		},
		{
			"level": "INFO", "msg": "call", "invocation": write.ID, "session": h.session.ID, "organization": org, "source": "notes", "action": "write",
			"risk": "write", "mode": "require_approval", "mode_source": "inferred", "status": "denied", "denied": "human", "denied_by": v.By, "approved_by": nil,
		},
		{"msg": "call held", "invocation": approved.ID},
		{"msg": "call", "invocation": approved.ID, "risk": "write", "status": "completed", "approved_by": v.By, "denied_by": nil, "grant": nil},
		{"msg": "call", "invocation": granted.ID, "risk": "write", "status": "completed", "grant": grant.ID, "approved_by": nil},
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), lines)
	}
	for i, line := range got {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		for name, value := range want[i] {
			if fields[name] != value {
				t.Errorf("%s is %v, want %v, in %s", name, fields[name], value, line)
			}
		}
		_, ran := fields["duration_ms"].(float64)
		if _, ended := fields["total_ms"].(float64); ended != (fields["msg"] == "call") || ran != (fields["status"] == "completed") {
			t.Errorf("durations of %s", line)
		}
	}
	if strings.Contains(lines.String(), "canary") {
		t.Errorf("what callers and people write is in the log:\n%s", lines)
	}
}

// What a periodic job deleted is counted in the log, and nothing is said of a job that had
// nothing to do.
func TestDeletedRowsAreCountedInTheLog(t *testing.T) {
	t.Parallel()
	p := serveHouse(t, func(o *Options) { o.SessionRetention = 48 * time.Hour })
	p.clean(t.Context())
	p.cleanSessions(t.Context())
	if log := p.log.String(); strings.Contains(log, "expired rows deleted") || strings.Contains(log, "old sessions purged") {
		t.Errorf("the log counts nothing:\n%s", log)
	}
	users, err := p.DB.ListUsers(t.Context(), org)
	if err != nil || len(users) == 0 {
		t.Fatal(users, err)
	}
	past := p.DB.Now().Add(-72 * time.Hour)
	if err := p.DB.CreateAPIKey(t.Context(), action.APIKey{ID: "old", Organization: org, Name: "old", User: users[0].ID, Role: action.RoleMember, ExpiresAt: &past}, strings.Repeat("0", 64)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.DB.CreateSession(t.Context(), action.Session{Organization: org, Kind: action.Interactive, Type: action.TypeCoding, CreatedBy: users[0].ID, ExpiresAt: &past}); err != nil {
		t.Fatal(err)
	}
	p.clean(t.Context())
	p.cleanSessions(t.Context())
	for _, line := range []string{`msg="expired rows deleted" what="API keys" count=1`, `msg="old sessions purged" count=1`} {
		if log := p.log.String(); !strings.Contains(log, line) {
			t.Errorf("the log has no %s:\n%s", line, log)
		}
	}
}

// BenchmarkCallLine is what the line costs a call.
func BenchmarkCallLine(b *testing.B) {
	took, now := int64(3), time.Now()
	inv := &action.Invocation{
		ID: newID(), Session: newID(), Organization: newID(), Source: "connector:" + newID(), Action: "read_file",
		Mode: action.ModeAllow, ModeSource: action.LayerInferred, Status: action.StatusCompleted, DurationMS: &took, CreatedAt: now, CompletedAt: &now,
	}
	l := newCallLog(newCallMetrics(), NewLogger(io.Discard, "info", "text"))
	b.ReportAllocs()
	for b.Loop() {
		l.Changed(inv)
	}
}

// scraped is what Prometheus would read, but for comments.
func scraped(t *testing.T, all ...prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(all...)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("answered %d %s", w.Code, w.Body)
	}
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "#") })
}

// Every way in which a call ends is counted once, and nothing of its params.
func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	m := newCallMetrics()
	h, e := newHouse(t, func(c *gate.Config) { c.Observer = m }), &effects{}
	h.catalog.put(tool("read", action.RiskRead, e.run))
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	h.catalog.put(tool("destroy", action.RiskDanger, e.run))
	h.want(h.get(h.begin(t.Context(), h.call("read", `{"text":"canary"}`))), action.StatusCompleted)
	h.want(h.get(h.begin(t.Context(), h.call("read", `{}`))), action.StatusCompleted)
	h.want(h.get(h.begin(t.Context(), h.call("destroy", `{}`))), action.StatusDenied)
	for _, params := range []string{`{"wrong":1}`, `[]`} {
		if a := h.get(h.begin(t.Context(), h.call("read", params))); a.err == nil {
			t.Errorf("%s was taken", params)
		}
	}
	if a := h.get(h.begin(t.Context(), h.call("canary", `{}`))); a.err == nil {
		t.Error("an unknown action was called")
	}

	done := h.begin(t.Context(), h.call("write", `{"n":1}`))
	h.approve(h.pending().ID)
	h.want(h.get(done), action.StatusCompleted)
	done = h.begin(t.Context(), h.call("write", `{"n":2}`))
	if _, err := h.gate.Deny(t.Context(), h.verdict(h.pending().ID)); err != nil {
		t.Fatal(err)
	}
	h.want(h.get(done), action.StatusDenied)
	h.grant(action.Grant{Terms: action.Terms{Source: "notes", Action: "write"}, ToolHash: "h1"})
	h.want(h.get(h.begin(t.Context(), h.call("write", `{"n":3}`))), action.StatusCompleted)

	h.catalog.put(tool("late", action.RiskRead, func(context.Context, json.RawMessage, action.Caller) (action.Result, error) {
		return action.Result{}, action.Errorf(action.ErrOutcomeUnknown, "upstream_timeout", "The server did not answer in time.")
	}))
	h.want(h.get(h.begin(t.Context(), h.call("late", `{}`))), action.StatusFailed)

	lines := scraped(t, m.collectors()...)
	for _, want := range []string{
		`sallyport_calls_failed_total{error="upstream_unavailable",fault="upstream_timeout",source="notes"} 1`,
		`sallyport_calls_total{action="read",mode="allow",source="notes",status="completed"} 2`,
		`sallyport_calls_total{action="destroy",mode="deny",source="notes",status="denied"} 1`,
		`sallyport_calls_total{action="write",mode="require_approval",source="notes",status="completed"} 1`,
		`sallyport_calls_total{action="write",mode="require_approval",source="notes",status="denied"} 1`,
		`sallyport_calls_total{action="write",mode="allow",source="notes",status="completed"} 1`,
		`sallyport_calls_refused_total{kind="invalid"} 2`,
		`sallyport_calls_refused_total{kind="not_found"} 1`,
		`sallyport_approval_seconds_count{result="approved"} 1`,
		`sallyport_approval_seconds_count{result="denied"} 1`,
		`sallyport_decision_seconds_count{mode="require_approval"} 2`,
		`sallyport_execution_seconds_count{source="notes"} 5`,
		`sallyport_grants_used_total 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if text := strings.Join(lines, "\n"); strings.Contains(text, "canary") {
		t.Errorf("what callers send is in the metrics:\n%s", text)
	}
}

func TestDriftIsCounted(t *testing.T) {
	t.Parallel()
	m := newCallMetrics()
	w := newWorkshop(newHouse(t, func(c *gate.Config) { c.Observer = m }), action.ReviewTrust)
	w.lists(1)
	w.mode(action.ModeAllow)
	w.sells()
	unreviewed := func(want int) {
		t.Helper()
		if n, err := w.db.ToolsUnreviewed(t.Context()); err != nil || n != want {
			t.Errorf("%d tools are unreviewed (%v), want %d", n, err, want)
		}
	}
	unreviewed(0)
	w.lists(2)
	unreviewed(1)
	w.sells()
	if n, err := w.db.CallsPending(t.Context()); err != nil || n != 1 {
		t.Errorf("%d calls are pending (%v), want 1", n, err)
	}
	if want := `sallyport_drift_decisions_total{mode="require_approval"} 1`; !slices.Contains(scraped(t, m.drifted), want) {
		t.Errorf("%s is missing", want)
	}
}

// Upstreams that list ever new names make a bounded number of series.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	m := newCallMetrics()
	for source := range 3 * maxSources {
		for name := range 3 * maxActionsPerSource {
			inv := &action.Invocation{Source: fmt.Sprintf("connector:%d", source), Action: fmt.Sprintf("a%d", name), Mode: action.ModeAllow, Status: action.StatusCompleted}
			m.Changed(inv)
			m.Ran(inv, inv.Status, time.Millisecond)
		}
	}
	if n := len(scraped(t, m.calls)); n > maxActions+maxSources+1 {
		t.Errorf("%d series of calls", n)
	}
	if n := len(m.endCounters) + len(m.labelled); n > 2*maxActions {
		t.Errorf("%d names are kept", n)
	}
	if n := len(m.executions); n > maxSources {
		t.Errorf("executions of %d sources are told apart", n)
	}
	// What was met first is told apart for good, and nothing is lost.
	if want := `sallyport_calls_total{action="a0",mode="allow",source="connector:0",status="completed"} 1`; !slices.Contains(scraped(t, m.calls), want) {
		t.Errorf("%s is missing", want)
	}
	if want := fmt.Sprintf(`sallyport_calls_total{action="other",mode="allow",source="other",status="completed"} %d`, 2*maxSources*3*maxActionsPerSource); !slices.Contains(scraped(t, m.calls), want) {
		t.Errorf("%s is missing", want)
	}
}

// BenchmarkCallMetrics is what counting costs a call.
func BenchmarkCallMetrics(b *testing.B) {
	m := newCallMetrics()
	inv := &action.Invocation{Source: "connector:0198c1f2-5a51-7f7e-9bcd-3f1d3a1b2c4d", Action: "read_file", Mode: action.ModeAllow, Status: action.StatusCompleted}
	d := &action.Decision{Mode: action.ModeAllow, Steps: make([]action.Step, 5)}
	b.ReportAllocs()
	for b.Loop() {
		m.Decided(nil, d, time.Microsecond)
		m.Ran(inv, inv.Status, time.Millisecond)
		m.Changed(inv)
	}
}

func TestMetricsWantTheirToken(t *testing.T) {
	t.Parallel()
	v := openVaulted(t, Options{Data: t.TempDir(), MetricsToken: "let-me-see"})
	handler := v.handler()
	for authorization, want := range map[string]int{"": 401, "Bearer other": 401, "let-me-see": 401, "Bearer let-me-see": 200} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("with %q it answered %d, want %d", authorization, w.Code, want)
		}
	}
}
