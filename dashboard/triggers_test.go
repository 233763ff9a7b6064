package dashboard_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
)

const (
	automationsPath = "/api/v1/automations"
	triggersPath    = "/api/v1/triggers"
	schedulesPath   = "/api/v1/schedules"
	endpointPath    = "/api/v1/run-endpoint"
)

func TestAutomations(t *testing.T) {
	h := newHouse(t)
	made := h.want(201, h.admin, "POST", automationsPath, `{"name":" Digest ","instructions":"Sum up."}`).json(t)
	id := made["id"].(string)
	if made["name"] != "Digest" || made["enabled"] != true || made["created_by"] != "u-ben" {
		t.Errorf("made %v", made)
	}
	h.problem(409, "automation_exists", h.admin, "POST", automationsPath, `{"name":"Digest"}`)
	for _, name := range []string{" ", `a\nb`, `a\u202eb`} {
		if p := h.problem(400, "invalid_field", h.admin, "POST", automationsPath, `{"name":"`+name+`"}`); p["field"] != "/name" {
			t.Errorf("%q: %v", name, p)
		}
	}
	long := strings.Repeat("é", 40_000) // characters that fit, bytes that do not
	if p := h.problem(400, "invalid_field", h.admin, "PATCH", automationsPath+"/Digest", `{"instructions":"`+long+`"}`); p["field"] != "/instructions" {
		t.Errorf("long: %v", p)
	}
	changed := h.want(200, h.admin, "PATCH", automationsPath+"/Digest", `{"enabled":false}`).json(t)
	if changed["enabled"] != false || changed["instructions"] != "Sum up." || changed["name"] != "Digest" {
		t.Errorf("changed %v", changed)
	}
	if got := h.want(200, h.member, "GET", automationsPath, "").list(t); len(got) != 2 || got[0]["instructions"] != nil || got[1]["instructions"] != nil {
		t.Errorf("list %v", got)
	}
	h.want(200, h.member, "GET", automationsPath+"/"+id, "")
	h.claimed("run-1")
	h.problem(409, "automation_busy", h.admin, "DELETE", automationsPath+"/nightly", "")
	h.want(204, h.admin, "DELETE", automationsPath+"/Digest", "")
	h.problem(404, "no_such_automation", h.admin, "DELETE", automationsPath+"/"+id, "")
}

// Wherever an automation is named, it is by its id or name, and must be there.
func TestAutomationsAreNamed(t *testing.T) {
	h := newHouse(t)
	minted := h.want(201, h.admin, "POST", "/api/v1/sessions", `{"automation":"nightly-triage"}`).json(t)
	if s := h.want(200, h.admin, "GET", "/api/v1/sessions/"+minted["session_id"].(string), "").json(t); s["automation_id"] != "nightly" {
		t.Errorf("session %v", s)
	}
	if m := h.want(200, h.admin, "PUT", "/api/v1/policy/modes/*", `{"mode":"deny","automation":"nightly-triage"}`).json(t); m["automation_id"] != "nightly" {
		t.Errorf("mode %v", m)
	}
	h.want(204, h.admin, "DELETE", "/api/v1/policy/modes/*?automation=nightly-triage", "")
	h.want(200, h.admin, "PUT", automationsPath+"/nightly-triage/connections", `{"connections":[]}`)
	if b := h.want(200, h.admin, "GET", automationsPath+"/nightly-triage/connections", "").json(t); b["automation_id"] != "nightly" {
		t.Errorf("bindings %v", b)
	}
	for _, request := range []string{
		`POST /api/v1/sessions {"automation":"nobody"}`, `PUT /api/v1/policy/modes/* {"mode":"deny","automation":"nobody"}`,
		`DELETE /api/v1/policy/modes/*?automation=nobody `, `GET /api/v1/automations/nobody/connections `, `PUT /api/v1/automations/nobody/connections {"connections":[]}`,
		`POST /api/v1/triggers {"automation":"nobody","provider":"github","event_type":"issue"}`, `POST /api/v1/schedules {"automation":"nobody","cron_expression":"0 7 * * *"}`,
		`POST /api/v1/runs/claim {"automation":"nobody"}`, `GET /api/v1/runs?automation=nobody `, `GET /api/v1/triggers?automation=nobody `,
		`GET /api/v1/schedules?automation=nobody `, `GET /api/v1/inbound-events?automation=nobody `,
	} {
		parts := strings.SplitN(request, " ", 3)
		p := h.problem(404, "no_such_automation", h.admin, parts[0], parts[1], parts[2])
		if !strings.Contains(p["detail"].(string), "GET /api/v1/automations lists them.") {
			t.Errorf("%s: %v", request, p)
		}
	}
}

func TestTriggersHaveSecrets(t *testing.T) {
	h := newHouse(t)
	add := func(body string) map[string]any {
		return h.want(201, h.admin, "POST", triggersPath, strings.Replace(body, "{", `{"automation":"nightly-triage",`, 1)).json(t)
	}
	github := add(`{"provider":"github","event_type":"issue","config":{"labels":["bug"],"n":9007199254740993}}`)
	id := github["id"].(string)
	want := map[string]any{
		"name": "GitHub issue", "trigger_type": "webhook", "automation_id": "nightly", "automation_name": "nightly-triage", "provider_title": "GitHub",
		"url": public + "/webhooks/direct/github/" + id, "provider_url": public + "/webhooks/direct/github", "secrets": json.Number("1"),
	}
	for field, value := range want {
		if github[field] != value {
			t.Errorf("%s is %v, want %v", field, github[field], value)
		}
	}
	secret := github["secret"].(string)
	if key, err := hex.DecodeString(secret); err != nil || len(key) != 32 {
		t.Errorf("secret %q", secret)
	}
	row := must(h.db.SigningSecrets(t.Context(), org, id))[0]
	plain, err := h.vault.Open(action.Ref{Organization: org, Table: "signing_secrets", Row: row.ID, Column: "sealed"}, row.Sealed)
	if err != nil || string(plain) != secret {
		t.Errorf("sealed %q: %v", plain, err)
	}
	for _, body := range []string{`{"provider":"custom"}`, `{"provider":"custom","config":{"verification":{"scheme":"standard"}}}`, `{"provider":"posthog"}`} {
		text, standard := strings.CutPrefix(add(body)["secret"].(string), "whsec_")
		if key, err := base64.StdEncoding.DecodeString(text); err != nil || len(key) != 32 || !standard {
			t.Errorf("%s: secret %q", body, text)
		}
	}
	if s := add(`{"provider":"custom","config":{"verification":{"scheme":"hmac"}}}`)["secret"].(string); strings.HasPrefix(s, "whsec_") {
		t.Errorf("of hex: %q", s)
	}
	given := add(`{"provider":"linear","secret":"lin_wh_0123456789abcdef"}`)
	if given["secret"] != nil || given["url"] == nil {
		t.Errorf("given: %v", given)
	}
	if v := add(`{"provider":"posthog"}`); v["url"] != public+"/webhooks/posthog/nightly" {
		t.Errorf("of an automation: %v", v)
	}
	all := h.want(200, h.owner, "GET", triggersPath, "").body + h.want(200, h.owner, "GET", triggersPath+"/"+id, "").body +
		h.want(200, h.owner, "GET", triggersPath+"/"+id+"/secrets", "").body + h.log.String()
	if strings.Contains(all, secret) || strings.Contains(all, "lin_wh") {
		t.Error("a secret is shown again")
	}
	if v := h.want(200, h.member, "GET", triggersPath+"/"+id, ""); !strings.Contains(v.body, `"n":9007199254740993`) {
		t.Errorf("config: %s", v.body)
	}
}

// A secret of ours would verify nothing where the service makes it: until it is
// known there is none.
func TestServicesThatMakeTheSecret(t *testing.T) {
	h := newHouse(t)
	v := h.want(201, h.admin, "POST", triggersPath, `{"automation":"nightly","provider":"linear"}`).json(t)
	if v["secret"] != nil || v["url"] == nil || v["secrets"] != json.Number("0") || v["secret_needed"] != true || v["enabled"] != true {
		t.Errorf("before there is one: %v", v)
	}
	one := triggersPath + "/" + v["id"].(string)
	p := h.problem(400, "invalid_field", h.admin, "POST", one+"/rotate", `{"keep":"0s"}`)
	if p["field"] != "/secret" || !strings.Contains(p["detail"].(string), "**Signing secret**") {
		t.Errorf("replaced by one of ours: %v", p)
	}
	h.want(200, h.admin, "POST", one+"/rotate", `{"secret":"lin_wh_0123456789abcdef"}`)
	if v := h.want(200, h.member, "GET", one, "").json(t); v["secrets"] != json.Number("1") || v["secret_needed"] != nil {
		t.Errorf("with one: %v", v)
	}
	if v := h.want(201, h.admin, "POST", triggersPath, `{"automation":"nightly","provider":"linear","secret":"lin_wh_0123456789abcdef"}`).json(t); v["secret_needed"] != nil {
		t.Errorf("made with one: %v", v)
	}
}

// A config that says nothing of how senders are verified leaves that as it is.
func TestConfigsKeepTheVerification(t *testing.T) {
	h := newHouse(t)
	one := triggersPath + "/" + h.want(201, h.admin, "POST", triggersPath, `{"automation":"nightly","provider":"custom","config":{"verification":{"scheme":"hmac"},"match":{"/a":1}}}`).json(t)["id"].(string)
	for _, c := range []struct{ config, want string }{
		{`{"match":{"/a":2}}`, `{"match":{"/a":2},"verification":{"scheme":"hmac"}}`},
		{`{"verification":{"scheme":"header"}}`, `{"verification":{"scheme":"header"}}`},
		{`{}`, `{"verification":{"scheme":"header"}}`},
	} {
		h.want(200, h.admin, "PATCH", one, `{"config":`+c.config+`}`)
		if got, _ := json.Marshal(h.want(200, h.admin, "GET", one, "").json(t)["config"]); string(got) != c.want {
			t.Errorf("%s made it %s", c.config, got)
		}
	}
}

func TestSecretsAreReplaced(t *testing.T) {
	h := newHouse(t)
	id := h.want(201, h.admin, "POST", triggersPath, `{"automation":"nightly","provider":"github","event_type":"push"}`).json(t)["id"].(string)
	one := triggersPath + "/" + id
	if next := h.want(200, h.admin, "POST", one+"/rotate", "").json(t); len(next["secret"].(string)) != 64 {
		t.Errorf("rotated %v", next)
	}
	list := h.want(200, h.member, "GET", one+"/secrets", "").list(t)
	if len(list) != 2 || list[0]["expires_at"] != nil || list[1]["expires_at"] != "2026-03-02T12:00:00Z" {
		t.Errorf("secrets %v", list)
	}
	if next := h.want(200, h.admin, "POST", one+"/rotate", `{"secret":"0123456789abcdef","keep":"0s"}`).json(t); next["secret"] != nil {
		t.Errorf("given %v", next)
	}
	if v := h.want(200, h.member, "GET", one, "").json(t); v["secrets"] != json.Number("1") {
		t.Errorf("secrets %v", v["secrets"])
	}
	for body, field := range map[string]string{
		`{"keep":"721h"}`: "/keep", `{"keep":"-1s"}`: "/keep", `{"keep":"day"}`: "/keep", `{"secret":"short"}`: "/secret",
		`{"secret":"0123456789 abcdef"}`: "/secret", `{"secret":"whsec_notbase64!!"}`: "/secret", `{"secret":"whsec_AAAAAAAAAAA="}`: "/secret",
	} {
		if r := h.want(400, h.admin, "POST", one+"/rotate", body); r.json(t)["field"] != field {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	h.want(204, h.admin, "DELETE", one, "")
	h.problem(404, "trigger_not_found", h.admin, "POST", one+"/rotate", "")
	h.problem(404, "trigger_not_found", h.admin, "GET", one+"/secrets", "")
}

func TestTriggersThatPoll(t *testing.T) {
	h := newHouse(t)
	h.connected(action.Integration{ID: "l1", Provider: "linear", Name: "Acme"})
	h.connected(action.Integration{ID: "g1", Provider: "github", Name: "Code"})
	h.connected(action.Integration{ID: "l2", Provider: "linear", Name: "Mine", Visibility: action.VisiblePrivate, CreatedBy: "u-ben"})
	v := h.want(201, h.admin, "POST", triggersPath, `{"automation":"nightly","provider":"linear","trigger_type":"polling","integration_id":"acme"}`).json(t)
	if v["interval_seconds"] != json.Number("300") || v["integration_id"] != "l1" || v["integration_name"] != "Acme" || v["secret"] != nil || v["secrets"] != nil || v["url"] != nil {
		t.Errorf("polling %v", v)
	}
	one := triggersPath + "/" + v["id"].(string)
	h.problem(409, "no_secret", h.admin, "POST", one+"/rotate", "")
	if v := h.want(201, h.admin, "POST", triggersPath, `{"automation":"nightly","provider":"linear","interval_seconds":30,"integration_id":"linear"}`).json(t); v["trigger_type"] != "polling" {
		t.Errorf("with an interval %v", v)
	}
	if v := h.want(200, h.admin, "PATCH", one, `{"interval_seconds":600,"enabled":false,"name":"Slow"}`).json(t); v["interval_seconds"] != json.Number("600") || v["enabled"] != false || v["name"] != "Slow" {
		t.Errorf("changed %v", v)
	}
	for body, field := range map[string]string{
		`{"provider":"jira"}`:                          "/provider",
		`{"provider":"github"}`:                        "/event_type",
		`{"provider":"github","event_type":"commits"}`: "/event_type",
		`{"provider":"github","event_type":"issue","trigger_type":"polling","integration_id":"g1"}`: "/trigger_type",
		`{"provider":"gmail","trigger_type":"webhook"}`:                                             "/trigger_type",
		`{"provider":"gmail"}`:                                                                          "/integration_id",
		`{"provider":"linear","trigger_type":"polling"}`:                                                "/integration_id",
		`{"provider":"linear","trigger_type":"polling","integration_id":"g1"}`:                          "/integration_id",
		`{"provider":"linear","trigger_type":"polling","integration_id":"l2"}`:                          "/integration_id",
		`{"provider":"custom","integration_id":"l1"}`:                                                   "/integration_id",
		`{"provider":"linear","trigger_type":"webhook","interval_seconds":60}`:                          "/interval_seconds",
		`{"provider":"linear","interval_seconds":29}`:                                                   "/interval_seconds",
		`{"provider":"linear","interval_seconds":60,"integration_id":"l1","secret":"0123456789abcdef"}`: "/secret",
		`{"provider":"github","event_type":"issue","config":[]}`:                                        "/config",
		`{"provider":"github","event_type":"issue","config":{"lables":[]}}`:                             "/config/lables",
		`{"provider":"github","event_type":"issue","name":"a\u200bb"}`:                                  "/name",
	} {
		if r := h.want(400, h.admin, "POST", triggersPath, strings.Replace(body, "{", `{"automation":"nightly",`, 1)); r.json(t)["field"] != field {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	p := h.problem(400, "invalid_field", h.admin, "PATCH", one, `{"integration_id":"g1"}`)
	if p["field"] != "/integration_id" || p["detail"] != "This is an integration of github; name one of linear." {
		t.Errorf("of another provider: %v", p)
	}
	for body, field := range map[string]string{`{"integration_id":""}`: "/integration_id", `{"interval_seconds":5}`: "/interval_seconds", `{"config":3}`: "/config"} {
		if r := h.want(400, h.admin, "PATCH", one, body); r.json(t)["field"] != field {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	// What became private is nobody's business, and polling of it neither.
	h.exec("UPDATE integrations SET visibility = 'private', created_by = 'u-ada', holder = 'u-ada' WHERE id = 'l1'")
	h.exec("DELETE FROM poll_groups WHERE integration_id = 'l1'")
	h.polled(event.PollGroup{ID: "p", Provider: "linear", Integration: "l1"})
	if all := h.want(200, h.admin, "GET", triggersPath, "").body + h.want(200, h.admin, "GET", "/api/v1/poll-groups", "").body; strings.Contains(all, "l1") || strings.Contains(all, "Acme") {
		t.Errorf("shown: %s", all)
	}
}

func TestEventProviders(t *testing.T) {
	h := newHouse(t)
	if got := h.want(200, h.member, "GET", "/api/v1/providers", "").list(t); len(got) != 5 {
		t.Errorf("providers %v", got)
	}
	if p := h.want(200, h.member, "GET", "/api/v1/providers/github", "").json(t); p["title"] != "GitHub" || len(p["types"].([]any)) != 2 {
		t.Errorf("provider %v", p)
	}
	if p := h.problem(404, "no_such_provider", h.member, "GET", "/api/v1/providers/jira", ""); !strings.Contains(p["detail"].(string), "github, linear, gmail") {
		t.Errorf("unknown %v", p)
	}
}

func TestSchedules(t *testing.T) {
	h := newHouse(t)
	v := h.want(201, h.admin, "POST", schedulesPath, `{"automation":"nightly-triage","cron_expression":" 0 * * * * "}`).json(t)
	if v["name"] != "0 * * * *" || v["timezone"] != "UTC" || v["missed"] != "once" || v["next_run_at"] != "2026-03-01T13:00:00Z" || v["automation_name"] != "nightly-triage" {
		t.Errorf("made %v", v)
	}
	next := []any{"2026-03-01T13:00:00Z", "2026-03-01T14:00:00Z", "2026-03-01T15:00:00Z", "2026-03-01T16:00:00Z", "2026-03-01T17:00:00Z"}
	if diff := cmp.Diff(next, v["next"]); diff != "" {
		t.Errorf("next: %s", diff)
	}
	one := schedulesPath + "/" + v["id"].(string)
	h.clock.add(90 * time.Minute)
	if v := h.want(200, h.admin, "PATCH", one, `{"name":"Hourly","missed":"skip"}`).json(t); v["next_run_at"] != "2026-03-01T13:00:00Z" || v["missed"] != "skip" {
		t.Errorf("a name does not move it: %v", v)
	}
	if v := h.want(200, h.admin, "PATCH", one, `{"enabled":false}`).json(t); v["next_run_at"] != nil || len(v["next"].([]any)) != 0 {
		t.Errorf("disabled: %v", v)
	}
	if v := h.want(200, h.admin, "PATCH", one, `{"enabled":true}`).json(t); v["next_run_at"] != "2026-03-01T14:00:00Z" {
		t.Errorf("enabled: what was missed while it was disabled stays so: %v", v)
	}
	for body, field := range map[string]string{`{"cron_expression":"hourly"}`: "/cron_expression", `{"timezone":"Mars/Olympus"}`: "/timezone", `{"missed":"all"}`: "/missed", `{"name":" "}`: "/name"} {
		if r := h.want(400, h.admin, "PATCH", one, body); r.json(t)["field"] != field {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	if got := h.want(200, h.member, "GET", schedulesPath+"?automation=nightly", "").list(t); len(got) != 1 {
		t.Errorf("list %v", got)
	}
	preview := h.want(200, h.member, "POST", schedulesPath+"/preview", `{"cron_expression":"0 * * * *"}`).json(t)
	if got := preview["times"].([]any); len(got) != 5 || got[0] != "2026-03-01T14:00:00Z" {
		t.Errorf("preview %v", preview)
	}
	h.problem(400, "invalid_field", h.member, "POST", schedulesPath+"/preview", `{"cron_expression":"x"}`)
	h.want(204, h.admin, "DELETE", one, "")
	h.want(404, h.admin, "GET", one, "")
}

func TestTheEndpointForRuns(t *testing.T) {
	h := newHouse(t)
	h.problem(404, "no_run_endpoint", h.admin, "GET", endpointPath, "")
	h.problem(404, "no_run_endpoint", h.admin, "POST", endpointPath+"/rotate", "")
	h.problem(404, "no_run_endpoint", h.admin, "DELETE", endpointPath, "")
	for _, at := range []string{"http://agents.example.com", "ftp://x", "https://a:b@agents.example.com", "https://agents.example.com#x", "http://10.0.0.1"} {
		if r := h.want(400, h.admin, "PUT", endpointPath, `{"url":"`+at+`"}`); r.json(t)["field"] != "/url" {
			t.Errorf("%s: %s", at, r.body)
		}
	}
	h.want(200, h.admin, "PUT", endpointPath, `{"url":"http://127.0.0.1:9/runs"}`)
	h.want(204, h.admin, "DELETE", endpointPath, "")
	e := h.want(200, h.admin, "PUT", endpointPath, `{"url":"https://agents.example.com/runs"}`).json(t)
	if s, _ := e["secret"].(string); !strings.HasPrefix(s, "whsec_") || e["enabled"] != true || len(e["secrets"].([]any)) != 1 {
		t.Errorf("set %v", e)
	}
	again := h.want(200, h.admin, "PUT", endpointPath, `{"url":"https://agents.example.com/v2","enabled":false}`).json(t)
	if again["secret"] != nil || again["url"] != "https://agents.example.com/v2" || again["enabled"] != false || len(again["secrets"].([]any)) != 1 {
		t.Errorf("moved %v", again)
	}
	if p := h.problem(400, "invalid_field", h.admin, "PUT", endpointPath, `{"url":"https://agents.example.com","secret":"0123456789abcdef"}`); p["field"] != "/secret" {
		t.Errorf("a second secret: %v", p)
	}
	h.want(200, h.admin, "POST", endpointPath+"/rotate", `{"keep":"1h"}`)
	if e := h.want(200, h.admin, "GET", endpointPath, ""); len(e.json(t)["secrets"].([]any)) != 2 || strings.Contains(e.body, "whsec_") {
		t.Errorf("read %s", e.body)
	}
	if n := len(must(h.db.SigningSecrets(t.Context(), org, dashboard.EndpointSecrets))); n != 2 {
		t.Errorf("%d secrets", n)
	}
}
