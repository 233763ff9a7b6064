package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/action/gate"
)

// A call is one line at its end, with all that it is found by, and none of its
// params and results.
func TestCallIsALineInTheLog(t *testing.T) {
	lines := &tape{}
	log := newLogger(lines, "info", "json")
	h := newHouse(t, func(c *gate.Config) { c.Observer = newCallLog(newCallMetrics(), log) })
	e := &effects{}
	h.catalog.put(tool("read", action.RiskRead, e.run))
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	read := h.want(h.get(h.begin(t.Context(), h.call("read", `{"text":"canary"}`))), action.StatusCompleted).Invocation
	done := h.begin(t.Context(), h.call("write", `{"text":"canary"}`))
	if n := strings.Count(lines.String(), "\n"); n != 1 {
		t.Errorf("%d lines before the second call ended:\n%s", n, lines)
	}
	v := h.verdict(h.pending().ID)
	v.Note = "canary"
	if _, err := h.gate.Deny(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	write := h.want(h.get(done), action.StatusDenied).Invocation
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	want := []map[string]any{
		{
			"level": "INFO", "msg": "call", "invocation": read.ID, "session": h.session.ID, "organization": org, "source": "notes", "action": "read",
			"mode": "allow", "mode_source": "inferred", "status": "completed",
		},
		{
			"level": "INFO", "msg": "call", "invocation": write.ID, "session": h.session.ID, "organization": org, "source": "notes", "action": "write",
			"mode": "require_approval", "mode_source": "inferred", "status": "denied", "denied": "human",
		},
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
		if _, ended := fields["total_ms"].(float64); !ended || ran != (i == 0) {
			t.Errorf("durations of %s", line)
		}
	}
	if strings.Contains(lines.String(), "canary") {
		t.Errorf("what callers and people write is in the log:\n%s", lines)
	}
}

// BenchmarkCallLine is what the line costs a call.
func BenchmarkCallLine(b *testing.B) {
	took, now := int64(3), time.Now()
	inv := &action.Invocation{
		ID: newID(), Session: newID(), Organization: newID(), Source: "connector:" + newID(), Action: "read_file",
		Mode: action.ModeAllow, ModeSource: action.LayerInferred, Status: action.StatusCompleted, DurationMS: &took, CreatedAt: now, CompletedAt: &now,
	}
	l := newCallLog(newCallMetrics(), newLogger(io.Discard, "info", "text"))
	b.ReportAllocs()
	for b.Loop() {
		l.Changed(inv)
	}
}
