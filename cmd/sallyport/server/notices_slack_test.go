package server_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/dashboard/notify"
	"sallyport/ingest/event"
)

func TestSlackByItsWebhook(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e := newEndpoint(t)
		_, err := h.db.SetNotifyChannel(h.Context(), action.NotifyChannel{
			Organization: h.org, Kind: action.NotifySlack, Enabled: true, Wants: action.WantsDanger, Sealed: []byte(e.URL + "/services/a-path-that-posts"), UpdatedBy: "ada",
		}, nil)
		h.ok(err)
		s, _ := h.sender(0)
		h.held()
		id := h.held(func(d *action.Draft) {
			d.Risk, d.SourceName = action.RiskDanger, "Lin\u202eraen"
			d.Summary = "Tell <!channel> & <@U1> <https://evil.example|the docs>\nNow " + strings.Repeat("x", 1000)
		})
		h.until("it is told of", func() bool { return len(e.all()) > 0 })
		h.deny(id)
		body := e.all()[0].body
		if len(e.all()) != 1 || !strings.Contains(body, id) {
			t.Fatalf("Slack heard %v", e.all())
		}
		hostile(t, body)
		e.answers(404)
		got, err := s.Test(h.Context(), h.org, action.NotifySlack)
		h.ok(err)
		if got.OK || got.Status != 404 || strings.Contains(got.Detail+h.logged(), "a-path-that-posts") {
			t.Errorf("the test said %+v", got)
		}
	})
}

// hostile checks that nothing in a message is anything but text.
func hostile(t *testing.T, body string) {
	t.Helper()
	var all any
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["type"] == "mrkdwn" {
				t.Errorf("markup is read in %v", v)
			}
			for _, one := range v {
				look(one)
			}
		case []any:
			for _, one := range v {
				look(one)
			}
		case string:
			if strings.ContainsAny(v, "<>\n\u202e") || len([]rune(v)) > 900 {
				t.Errorf("this leaves: %q", v)
			}
		}
	}
	look(all)
	if !strings.Contains(body, `"mrkdwn":false`) || !strings.Contains(body, `"parse":"none"`) || !strings.Contains(body, `\\u{202e}`) || !strings.Contains(body, `\u0026lt;!channel`) {
		t.Errorf("the message is %s", body)
	}
}

// bot is Slack's API.
type bot struct {
	mu     sync.Mutex
	called []string
	answer string
}

func (b *bot) Call(_ context.Context, _, integration, method string, body []byte) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.called = append(b.called, integration+" "+method+" "+string(body))
	return []byte(b.answer), nil
}

func (b *bot) calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.called...)
}

func (b *bot) says(answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func TestSlackByAnIntegration(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		b := &bot{answer: `{"ok":false,"error":"not_in_channel"}`}
		_, err := h.db.SetNotifyChannel(h.Context(), action.NotifyChannel{
			Organization: h.org, Kind: action.NotifySlack, Enabled: true, Wants: action.WantsAll, Integration: "i1", Target: "C1", UpdatedBy: "ada",
		}, nil)
		h.ok(err)
		h.sender(0, func(c *notify.Config) { c.Slack = b.Call })
		id := h.held()
		h.until("it is refused", func() bool { return h.channel(action.NotifySlack).Failures > 0 })
		if said := h.channel(action.NotifySlack).LastError; !strings.Contains(said, "Invite the app") {
			t.Errorf("it says %q", said)
		}
		b.says(`{"ok":true,"channel":"C9","ts":"1763700000.000100"}`)
		h.until("it is taken", func() bool { return h.channel(action.NotifySlack).Failures == 0 })
		n := len(b.calls())
		if !strings.HasPrefix(b.calls()[n-1], `i1 chat.postMessage {"channel":"C1"`) {
			t.Errorf("called %v", b.calls())
		}
		h.deny(id)
		h.until("the message changes", func() bool { return len(b.calls()) > n })
		last := b.calls()[n]
		if !strings.HasPrefix(last, `i1 chat.update {"channel":"C9","ts":"1763700000.000100"`) || !strings.Contains(last, "denied") || strings.Contains(last, "decide") {
			t.Errorf("called %s", last)
		}
	})
}

// failed is a run that failed, with texts of others.
func (h *house) failed() event.Run {
	h.Helper()
	for _, name := range []string{"Anna", "Bert"} {
		h.ok(h.db.CreateUser(h.Context(), action.User{ID: "u-" + name, Organization: h.org, Name: name, Role: action.RoleAdmin}, "ada"))
	}
	a, err := h.db.CreateAutomation(h.Context(), event.Automation{
		Organization: h.org, Name: "triage", Enabled: true, RunSettings: event.RunSettings{Tell: []string{"u-Bert", "u-Anna"}}, CreatedBy: "ada",
	})
	h.ok(err)
	now := h.db.Now()
	due := now.Add(-time.Minute)
	s, err := h.db.CreateSchedule(h.Context(), event.Schedule{Organization: h.org, Automation: a.ID, Name: "hourly", Cron: "0 * * * *", TimeZone: "UTC", Enabled: true, Missed: event.MissedOnce, NextAt: &due, CreatedBy: "ada"})
	h.ok(err)
	_, fired, err := h.db.FireSchedule(h.Context(), s, nil, &event.Match{
		Run: uuid.Must(uuid.NewV7()).String(), Sealed: []byte("sealed"),
		Record: event.Record{ID: uuid.Must(uuid.NewV7()).String(), Organization: h.org, Trigger: s.ID, Automation: a.ID, Provider: event.ScheduleProvider, Type: event.ScheduleProvider, Key: "1", Title: "Disk <!channel> \u202efull", CreatedAt: now},
	})
	h.ok(err)
	if !fired {
		h.Fatal("the schedule did not fire")
	}
	w, err := h.db.ClaimRun(h.Context(), event.Claim{Organization: h.org, By: "worker", Life: time.Hour})
	h.ok(err)
	run, _, err := h.db.FinishRun(h.Context(), h.org, w.Run.ID, w.Run.Claim, event.RunResult{Status: event.RunFailed, Code: "no_space", Message: "Look at <https://evil.example|this>"})
	h.ok(err)
	return run
}

// wanted is a request for a grant.
func (h *house) wanted() action.GrantRequest {
	h.Helper()
	s, err := h.db.CreateSession(h.Context(), action.Session{Organization: h.org, Title: "Fix <!channel> the \u202elogin", CreatedBy: "ada"})
	h.ok(err)
	now, calls := h.db.Now(), int64(5)
	r, _, err := h.db.RequestGrant(h.Context(), action.GrantRequest{
		Organization: h.org, Session: s.ID, ToolHash: "tool", Reason: "the-words", CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		Terms: action.Terms{Scope: action.ScopeSession, Source: "linear", Action: "create_issue", MaxCalls: &calls, Pins: map[string]json.RawMessage{"/team": json.RawMessage(`"the-param"`)}},
	})
	h.ok(err)
	return r
}

func TestRunsAndGrantsByBothChannels(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e, b := newEndpoint(t), &bot{answer: `{"ok":true,"channel":"C9","ts":"1763700000.000100"}`}
		h.webhook(e.URL)
		_, err := h.db.SetNotifyChannel(h.Context(), action.NotifyChannel{
			Organization: h.org, Kind: action.NotifySlack, Enabled: true, Wants: action.WantsAll, Integration: "i1", Target: "C1", UpdatedBy: "ada",
		}, nil)
		h.ok(err)
		run, grant := h.failed(), h.wanted()
		h.sender(0, func(c *notify.Config) { c.Slack = b.Call })
		posted := func() (list []string) {
			for _, one := range e.all() {
				list = append(list, one.body)
			}
			return list
		}
		find := func(list []string, parts ...string) string {
			for _, one := range list {
				if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(one, part) }) {
					return one
				}
			}
			return ""
		}
		reached := func(what string, webhook, slack []string) {
			h.until(what, func() bool { return find(posted(), webhook...) != "" && find(b.calls(), slack...) != "" })
			if message := find(b.calls(), slack...); strings.Contains(message, "the-") {
				t.Errorf("%s: %s", what, message)
			}
		}
		reached("the run is told of",
			[]string{`"type":"run.needs_attention"`, `"run_id":"` + run.ID, `"automation":"triage"`, `"code":"no_space"`, `"why":"Look at`, `"for":"Bert, Anna"`, "https://gate.example.com/runs/" + run.ID},
			[]string{"chat.postMessage", "of “triage” failed", "Code: no_space", "For: Bert, Anna", "https://gate.example.com/runs/" + run.ID})
		reached("the grant is told of",
			[]string{`"type":"grant_request.held"`, `"grant_request_id":"` + grant.ID, `"action":"create_issue"`, `"max_calls":5`, `"pinned_params":["/team"]`, `"for":"owners and admins"`},
			[]string{"chat.postMessage", "requested a grant for linear › create_issue", "up to 5 calls", "Fixed params: /team", "kind=grants#request-" + grant.ID})
		for _, call := range b.calls() {
			hostile(t, call[strings.Index(call, "{"):])
		}
		_, err = h.db.RedriveRun(h.Context(), h.org, run.ID, "ada")
		h.ok(err)
		_, err = h.db.DenyRequest(h.Context(), action.RequestVerdict{Organization: h.org, ID: grant.ID, By: "ada"})
		h.ok(err)
		reached("the run is settled", []string{`"type":"run.settled"`, run.ID, `"outcome":"repeated"`}, []string{"chat.update", `"ts":"1763700000.000100"`, "of “triage”: repeated"})
		reached("the grant is settled", []string{`"type":"grant_request.settled"`, grant.ID, `"status":"denied"`}, []string{"chat.update", "create_issue: denied"})
		if n, m := len(e.all()), len(b.calls()); n != 4 || m != 4 {
			t.Errorf("%d requests and %d messages, want 4 of each", n, m)
		}
		if all := strings.Join(posted(), ""); strings.Contains(all, "the-") {
			t.Errorf("a param or the agent's words left: %s", all)
		}
	})
}
