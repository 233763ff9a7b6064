package dashboard_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
)

// inboundPages are all of inbound work, of the house that hostileInbound makes.
var inboundPages = []string{
	"/automations", "/automations/nightly", "/triggers", "/triggers/t1", "/triggers/new", "/triggers/new?provider=github", "/triggers/new?provider=github&type=issue",
	"/schedules", "/schedules?edit=sch1", "/runs", "/runs?status=needs_human&parcels=dead", "/runs/r1", "/events", "/events?status=skipped", "/events/e1", "/events/e2", "/events/e1/context", "/deliveries", "/deliveries/d1",
}

// hostileInbound has hostile text in every place that inbound work has for it.
func hostileInbound(t *testing.T) *house {
	text := mustJSON(t, hostile)
	schema := json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"labels":{"type":"array","items":{"type":"string"}},"odd":{"anyOf":[{}]}}}`)
	h := newHouse(t, func(c *dashboard.Config) { c.EventProviders[0].Types[0].Config = schema })
	now := h.clock.now()
	h.exec("UPDATE automations SET name = ?, instructions = ?", hostile, hostile+"\n"+hostile)
	h.insert("triggers", "id", "t1", "organization_id", org, "automation_id", "nightly", "name", hostile, "kind", event.Webhooks, "provider", "github", "type", "issue", "enabled", false,
		"config", `{"labels":[`+string(text)+`],"odd":`+string(text)+`}`, "created_by", hostile, "created_at", now, "updated_at", now)
	h.insert("schedules", "id", "sch1", "organization_id", org, "automation_id", "nightly", "name", hostile, "cron", hostile, "time_zone", hostile, "enabled", false, "missed", "once",
		"created_by", hostile, "created_at", now, "updated_at", now)
	e := event.Record{ID: "e1", Trigger: "t1", Automation: "nightly", Receipt: "d1", Native: hostile, Title: hostile, URL: hostile, Error: hostile, Redacted: []byte(hostile)}
	h.record(e, "{"+string(text)+":"+string(text)+"}")
	e.ID, e.Skip, e.Redacted = "e2", event.SkipFilter, nil
	h.record(e, "")
	h.insert("runs", "id", "r1", "organization_id", org, "automation_id", "nightly", "event_id", "e1", "trigger_id", "t1", "status", event.RunNeedsHuman, "attempt", 1, "claimed_by", hostile,
		"session_id", "s1", "code", hostile, "message", hostile, "result", string(text), "created_at", now)
	h.received(event.Receipt{ID: "d1", Endpoint: hostile, Trigger: "t1", Native: hostile, Status: event.ReceiptFailed, LastError: hostile, Redacted: []byte(hostile)})
	h.delivery("p1", "r1", event.DeliveryDead, hostile)
	h.insert("run_endpoints", "organization_id", org, "url", "https://x.test/"+hostile, "enabled", true, "updated_by", hostile, "updated_at", now)
	h.polled(event.PollGroup{ID: "g1", Provider: hostile, LastError: hostile, Lost: hostile})
	h.override("nightly", action.Key{Source: "x", Action: hostile}, action.ModeAllow, hostile)
	return h
}

func TestInboundPagesShowTextAsText(t *testing.T) {
	h := hostileInbound(t)
	b := h.signIn("u-ada")
	for _, path := range inboundPages {
		r := b.get(path)
		if r.StatusCode != 200 {
			t.Errorf("%s: %d\n%s", path, r.StatusCode, h.log)
		}
		if strings.Contains(r.body, "<img") || strings.Contains(r.body, "<script>") || strings.Contains(r.body, "ZgotmplZ") {
			t.Errorf("%s shows markup that is not its own", path)
		}
		if inline := regexp.MustCompile(`<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+="`).FindString(r.body); inline != "" {
			t.Errorf("%s has %q", path, inline)
		}
		// What fields and scripts have is as it was written, to be sent back.
		shown := regexp.MustCompile(` (data-[a-z-]+|value|href)="[^"]*"|<textarea[^<]*</textarea>`).ReplaceAllString(r.body, "")
		if strings.ContainsAny(shown, "\u202e\u200b") {
			t.Errorf("%s shows a character that nobody sees", path)
		}
	}
}

// A member sees what there is, and nothing that he may not press.
func TestMembersOfInboundPages(t *testing.T) {
	h := hostileInbound(t)
	b := h.signIn("u-cyd")
	for _, path := range inboundPages {
		r := b.get(path)
		if strings.HasPrefix(path, "/triggers/new") || strings.HasPrefix(path, "/deliveries") || strings.HasSuffix(path, "/context") {
			if r.StatusCode != 403 {
				t.Errorf("%s: %d for a member", path, r.StatusCode)
			}
			continue
		}
		if r.StatusCode != 200 || regexp.MustCompile(`data-call=|data-press="(patch|whole|endpointSwitch)"|<button>|/deliveries/d1"`).MatchString(r.body) {
			t.Errorf("%s: %d, with what a member may not press", path, r.StatusCode)
		}
		if strings.Contains(r.body, "x.test") {
			t.Errorf("%s tells a member of the endpoint", path)
		}
	}
}

func TestInboundListsRefuseOddFilters(t *testing.T) {
	b := newHouse(t).signIn("u-ada")
	for _, path := range []string{"/runs?status=odd", "/runs?parcels=odd", "/events?status=odd", "/deliveries?status=odd", "/triggers/new?provider=odd", "/runs?automation=odd"} {
		if r := b.get(path); r.StatusCode != 400 && r.StatusCode != 404 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	for path, next := range map[string]string{"/automations": "Create an automation below", "/triggers": "New trigger", "/schedules": "Create a schedule below", "/runs": "No worker configured", "/events": "/triggers/new", "/deliveries": "/triggers/new"} {
		h := newHouse(t)
		if path == "/automations" {
			h.exec("DELETE FROM automations")
		}
		if r := h.signIn("u-ada").get(path); !strings.Contains(r.body, next) {
			t.Errorf("%s does not say the next step", path)
		}
	}
}
