package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"sallyport/action"
	"sallyport/dashboard/notify"
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
