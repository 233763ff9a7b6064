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
	text, _ := json.Marshal(hostile)
	schema := json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"labels":{"type":"array","items":{"type":"string"}},"odd":{"anyOf":[{}]}}}`)
	h := newHouse(t, func(c *dashboard.Config) { c.EventProviders[0].Types[0].Config = schema })
	m, now := h.m, h.clock.now()
	m.automations[0].Name, m.automations[0].Instructions = hostile, hostile+"\n"+hostile
	m.triggers = append(m.triggers, event.Trigger{
		ID: "t1", Organization: org, Automation: "nightly", Name: hostile, Kind: event.Webhooks, Provider: "github", Type: "issue",
		Config: []byte(`{"labels":[` + string(text) + `],"odd":` + string(text) + `}`), CreatedBy: hostile,
	})
	m.schedules = append(m.schedules, event.Schedule{ID: "sch1", Organization: org, Automation: "nightly", Name: hostile, Cron: hostile, TimeZone: hostile})
	e := event.Record{
		ID: "e1", Organization: org, Trigger: "t1", Automation: "nightly", Receipt: "d1", Provider: "github", Type: "issue", Native: hostile, Key: hostile,
		Title: hostile, URL: hostile, Error: hostile, CreatedAt: now, Run: "r1", RunStatus: event.RunNeeds, Shown: []byte(hostile),
	}
	other := e
	other.ID, other.Run, other.RunStatus, other.Skip, other.Shown = "e2", "", "", event.SkipFilter, nil
	m.records = append(m.records, e, other)
	m.contexts = map[string][]byte{"e1": []byte(org + "/events/e1/sealed:{" + string(text) + ":" + string(text) + "}")}
	m.runs = append(m.runs, event.Run{
		ID: "r1", Organization: org, Automation: "nightly", Event: "e1", Trigger: "t1", Status: event.RunNeeds, Attempt: 1, ClaimedBy: hostile, Session: "s1", Waiting: 1,
		Code: hostile, Message: hostile, Result: text, Title: hostile, CreatedAt: now,
	})
	m.receipts = append(m.receipts, event.Receipt{
		ID: "d1", Organization: org, Endpoint: hostile, Provider: "github", Trigger: "t1", Native: hostile, Status: event.ReceiptFailed, LastError: hostile, Shown: []byte(hostile), ReceivedAt: now,
	})
	m.parcels = append(m.parcels, event.Parcel{ID: "p1", Organization: org, Run: "r1", Status: event.ParcelDead, LastError: hostile, CreatedAt: now})
	m.endpoints = append(m.endpoints, event.Endpoint{Organization: org, URL: "https://x.test/" + hostile, Enabled: true})
	m.groups = append(m.groups, event.PollGroup{ID: "g1", Organization: org, Provider: hostile, LastError: hostile, Lost: hostile})
	m.overrides = append(m.overrides, action.Override{Organization: org, Key: action.Key{Source: "x", Action: hostile}, Mode: "allow", UpdatedBy: hostile, Automation: "nightly"})
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
	for path, next := range map[string]string{"/automations": "Make one below", "/triggers": "Choose what starts", "/schedules": "Say below when", "/runs": "Nothing works on runs yet", "/events": "/triggers/new", "/deliveries": "/triggers/new"} {
		h := newHouse(t)
		if path == "/automations" {
			h.m.automations = nil
		}
		if r := h.signIn("u-ada").get(path); !strings.Contains(r.body, next) {
			t.Errorf("%s does not say the next step", path)
		}
	}
}
