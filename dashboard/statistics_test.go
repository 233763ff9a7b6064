package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

// counting counts how often rows are counted.
type counting struct {
	dashboard.Calls
	mu     sync.Mutex
	n      int
	before func() // it is done
}

func (c *counting) Statistics(ctx context.Context, organization string, p action.Period) (action.Statistics, error) {
	if c.before != nil {
		c.before()
	}
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Calls.Statistics(ctx, organization, p)
}

func countingHouse(t *testing.T) (*house, *counting) {
	rows := &counting{}
	return newHouse(t, func(c *dashboard.Config) { rows.Calls, c.Calls = c.Calls, rows }), rows
}

// called adds a call that ended.
func (h *house) called(source, name string, change ...func(*action.Invocation)) {
	inv := action.Invocation{
		Organization: org, Session: "s1", Source: source, SourceName: "GitHub", Action: name, Risk: action.RiskRead, Mode: action.ModeAllow,
		ModeSource: action.LayerInferred, Status: action.StatusFailed, CreatedAt: h.clock.now(), Params: json.RawMessage("{}"),
	}
	for _, f := range change {
		f(&inv)
	}
	h.add(inv)
}

func TestStatistics(t *testing.T) {
	h := newHouse(t)
	h.called("connector:c1", "create")
	h.clock.add(-23 * time.Hour)
	h.called("linear", "list")
	h.clock.add(23 * time.Hour)
	for window, want := range map[string]struct{ from, seconds, calls string }{
		"":    {"2026-02-28T12:30:00Z", "1800", "2"},
		"1h":  {"2026-03-01T11:01:00Z", "60", "1"},
		"24h": {"2026-02-28T12:30:00Z", "1800", "2"},
		"7d":  {"2026-02-22T15:00:00Z", "10800", "2"},
		"30d": {"2026-01-31T00:00:00Z", "43200", "2"},
	} {
		v := h.want(200, h.member, "GET", "/api/v1/statistics?window="+window, "").json(t)
		calls, _ := v["calls"].(map[string]any)
		if v["from"] != want.from || fmt.Sprint(v["bucket_seconds"]) != want.seconds || fmt.Sprint(calls["count"]) != want.calls || (v["window"] != window && window != "") {
			t.Errorf("%q: from %v, %v seconds, %v", window, v["from"], v["bucket_seconds"], calls)
		}
	}
	h.problem(400, "invalid_request", h.member, "GET", "/api/v1/statistics?window=2h", "")
	h.problem(403, "people_only", h.agent, "GET", "/api/v1/statistics", "")

	sources, _ := h.want(200, h.member, "GET", "/api/v1/statistics?window=1h", "").json(t)["sources"].([]any)
	if source, _ := sources[0].(map[string]any); len(sources) != 1 || source["source_id"] != "connector:c1" || source["health"] == nil {
		t.Errorf("sources %v, want the connector with its health", sources)
	}
}

// Rows are counted once for all who look in the same ten seconds, and more
// rarely where that takes long.
func TestStatisticsAreCountedRarely(t *testing.T) {
	h, rows := countingHouse(t)
	look := func(want int, when string) {
		t.Helper()
		h.want(200, h.member, "GET", "/api/v1/statistics", "")
		h.want(200, h.owner, "GET", "/api/v1/statistics?window=24h", "")
		if rows.n != want {
			t.Errorf("%s: counted %d times, want %d", when, rows.n, want)
		}
	}
	look(1, "at first")
	h.clock.add(9 * time.Second)
	look(1, "a moment later")
	rows.before = func() { h.clock.add(3 * time.Second) }
	h.clock.add(2 * time.Second)
	look(2, "after ten seconds")
	h.clock.add(55 * time.Second)
	look(2, "when counting took three seconds")
	h.clock.add(6 * time.Second)
	look(3, "after a minute")
}

// One counts at a time, and whoever waited for the same takes what it found.
func TestStatisticsAreCountedByOne(t *testing.T) {
	h, rows := countingHouse(t)
	var mu sync.Mutex
	at, most := 0, 0
	begun, release := make(chan struct{}, 8), make(chan struct{})
	rows.before = func() {
		begun <- struct{}{}
		mu.Lock()
		at++
		most = max(most, at)
		mu.Unlock()
		<-release
		mu.Lock()
		at--
		mu.Unlock()
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if r := h.doFor(time.Minute, h.member, "GET", "/api/v1/statistics?window="+[]string{"1h", "24h"}[i%2], ""); r.StatusCode != 200 {
				t.Errorf("answered %d: %s", r.StatusCode, r.body)
			}
		})
	}
	<-begun
	time.Sleep(100 * time.Millisecond) // for the others to begin, if they may
	close(release)
	all.Wait()
	if most != 1 || rows.n != 2 {
		t.Errorf("%d counted at a time, %d times; want 1 and 2", most, rows.n)
	}
}

func TestOverview(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-cyd")
	if body := b.get("/overview").body; !strings.Contains(body, "No data yet") || !strings.Contains(body, "/sessions#new-session") || strings.Contains(body, "data-chart") {
		t.Error("an empty overview does not say the next step")
	}
	h.called("connector:c1", "create")
	h.called("connector:c1", "drop", func(inv *action.Invocation) {
		inv.Status, inv.Mode, inv.DeniedReason = action.StatusDenied, action.ModeDeny, action.DeniedPolicy
	})
	h.clock.add(11 * time.Second)
	body := b.get("/overview").body
	for _, want := range []string{
		"2 calls", `<code>create</code>`, "100%", "Destructive tool without an override", `data-chart="modes"`, `data-x="1772366400"`, "uplot.min.js", "uplot.min.css", "overview.js",
		"/activity?action=create&amp;from=2026-02-28T12%3A30%3A00Z&amp;source=connector%3Ac1&amp;status=failed&amp;to=2026-03-01T12%3A30%3A00Z",
		"/activity?from=2026-03-01T12%3A00%3A00Z&amp;to=2026-03-01T12%3A30%3A00Z", `href="/connectors/c1"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview lacks %s", want)
		}
	}
	if strings.Contains(body, `href="/deliveries`) || strings.Contains(b.get("/activity").body, "uplot") {
		t.Error("a member is led to what he may not see, or another page loads the library")
	}
	h.clock.add(2 * time.Hour)
	if body := b.get("/overview?window=1h").body; !strings.Contains(body, "No calls in the last hour") {
		t.Error("a window without calls does not say so")
	}
	if r := b.get("/overview?window=99y"); r.StatusCode != 400 {
		t.Errorf("a window that there is not: %d", r.StatusCode)
	}
}

// What upstreams and agents name is text also here.
func TestOverviewOfHostileText(t *testing.T) {
	h, _ := hostileHouse(t)
	body := h.signIn("u-ada").get("/overview").body
	if !strings.Contains(body, "onerror") || strings.Contains(body, "<img") || strings.Contains(body, "ZgotmplZ") || strings.ContainsAny(body, "\u202e\u200b") || strings.Contains(body, " style=") {
		t.Error("the overview shows markup that is not its own, or what nobody sees")
	}
}
