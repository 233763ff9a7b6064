package dashboard_test

import (
	"net/netip"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/dashboard"
)

const notifyPath = "/api/v1/notify"

func TestNotifyWebhook(t *testing.T) {
	h := newHouse(t)
	made := h.want(200, h.admin, "PUT", notifyPath+"/webhook", `{"url":"https://example.com/held","wants":"danger"}`).json(t)
	secret, _ := made["secret"].(string)
	if !strings.HasPrefix(secret, "whsec_") || made["wants"] != "danger" || made["enabled"] != true {
		t.Fatalf("made %v", made)
	}
	// What is absent stays, and the secret is shown once.
	again := h.want(200, h.admin, "PUT", notifyPath+"/webhook", `{"enabled":false}`).json(t)
	if again["secret"] != nil || again["url"] != "https://example.com/held" || again["wants"] != "danger" || again["enabled"] != false {
		t.Fatalf("changed to %v", again)
	}
	h.want(400, h.admin, "PUT", notifyPath+"/webhook", `{"secret":"a-secret-that-is-new"}`)
	rotated := h.want(200, h.admin, "POST", notifyPath+"/webhook/rotate", `{"keep":"1h"}`).json(t)
	if next, _ := rotated["secret"].(string); !strings.HasPrefix(next, "whsec_") || next == secret {
		t.Fatalf("rotated to %v", rotated)
	}
	list := h.want(200, h.owner, "GET", notifyPath, "").body
	if strings.Contains(list, "whsec_") || strings.Count(list, `"created_at"`) != 2 {
		t.Errorf("the list is %s", list)
	}
	if test := h.want(200, h.admin, "POST", notifyPath+"/webhook/test", "").json(t); test["detail"] != "The endpoint answered 204." {
		t.Errorf("the test said %v", test)
	}
	h.want(404, h.admin, "POST", notifyPath+"/slack/test", "")
	h.want(204, h.admin, "DELETE", notifyPath+"/webhook", "")
	h.want(404, h.admin, "DELETE", notifyPath+"/webhook", "")
}

// What no delivery could reach is refused when it is set, unless the operator
// opened it.
func TestPrivateEndpointsAreRefusedWhenSet(t *testing.T) {
	h := newHouse(t)
	for _, path := range []string{notifyPath + "/webhook", "/api/v1/run-endpoint"} {
		for _, host := range []string{"10.1.2.3", "169.254.169.254", "[fd00::1]"} {
			refused := h.want(400, h.admin, "PUT", path, `{"url":"https://`+host+`/held"}`).body
			if !strings.Contains(refused, "address_blocked") || !strings.Contains(refused, "--allow-upstream") {
				t.Errorf("%s at %s: %s", host, path, refused)
			}
		}
		h.want(200, h.admin, "PUT", path, `{"url":"http://127.0.0.1:9/held"}`)
	}
	open := newHouse(t, func(c *dashboard.Config) { c.Guard.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	open.want(200, open.admin, "PUT", notifyPath+"/webhook", `{"url":"https://10.1.2.3/held"}`)
}

func TestNotifySlack(t *testing.T) {
	h := newHouse(t)
	const hook = "https://hooks.slack.com/services/T1/B1/fresh-mint"
	made := h.want(200, h.admin, "PUT", notifyPath+"/slack", `{"url":"`+hook+`"}`).body
	if strings.Contains(made, "fresh-mint") || strings.Contains(h.log.String(), "fresh-mint") {
		t.Errorf("the URL is shown: %s", made)
	}
	channel := func() action.NotifyChannel {
		return must(h.db.NotifyChannel(t.Context(), org, action.NotifySlack))
	}
	sealed := channel().Sealed
	h.want(200, h.admin, "PUT", notifyPath+"/slack", `{"wants":"unattended"}`)
	if got := channel(); string(got.Sealed) != string(sealed) || got.Wants != action.WantsUnattended {
		t.Errorf("it is now %+v", got)
	}
	h.connected(action.Integration{ID: "s1", Provider: "slack", Kind: action.KindOAuth2})
	h.want(200, h.admin, "PUT", notifyPath+"/slack", `{"integration":"s1","channel":"C1"}`)
	if got := channel(); got.Sealed != nil || got.Integration != "s1" || got.Target != "C1" {
		t.Errorf("it is now %+v", got)
	}
}

func TestNotifyRefuses(t *testing.T) {
	h := newHouse(t)
	for name, tt := range map[string]struct{ kind, body, field string }{
		"a webhook in the clear":           {"webhook", `{"url":"http://example.com/held"}`, "/url"},
		"a webhook without a URL":          {"webhook", `{}`, "/url"},
		"no URL":                           {"webhook", `{"url":"held"}`, "/url"},
		"a URL with a password":            {"webhook", `{"url":"https://me:pass@example.com/"}`, "/url"},
		"a channel of a webhook":           {"webhook", `{"url":"https://example.com/held","channel":"C1"}`, "/integration"},
		"Slack without a URL":              {"slack", `{}`, "/url"},
		"another host as Slack":            {"slack", `{"url":"https://hooks.slack.com.example.com/services/T"}`, "/url"},
		"Slack in the clear":               {"slack", `{"url":"http://hooks.slack.com/services/T"}`, "/url"},
		"Slack by two ways":                {"slack", `{"url":"https://hooks.slack.com/services/T","channel":"C1"}`, "/url"},
		"a secret of Slack":                {"slack", `{"url":"https://hooks.slack.com/services/T","secret":"a-secret-that-is-new"}`, "/secret"},
		"an integration without a channel": {"slack", `{"integration":"i1"}`, "/channel"},
		"an integration that is not there": {"slack", `{"integration":"i1","channel":"C1"}`, "/integration"},
	} {
		t.Run(name, func(t *testing.T) {
			p := h.want(400, h.admin, "PUT", notifyPath+"/"+tt.kind, tt.body).json(t)
			if p["field"] != tt.field {
				t.Errorf("field is %v, want %s: %v", p["field"], tt.field, p["detail"])
			}
		})
	}
}
