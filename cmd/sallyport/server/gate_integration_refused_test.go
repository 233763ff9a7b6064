package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/api"
)

func TestRevokedKeyAndConnectedAgain(t *testing.T) {
	t.Parallel()
	p, linear := serveHouse(t), newService(t, likeLinear(linearKey))
	in := p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	a := p.agent("linear")
	a.tools("linear")

	const next = "lin_api_00112233445566778899"
	linear.answers(likeLinear(next))
	got := a.answered(a.call("linear_list_issues", `{}`), true, "AUTHENTICATION_ERROR", "a person must connect Linear again")
	if strings.Contains(got, linearKey) {
		t.Errorf("the agent is told the key: %s", got)
	}
	if inv := p.ended(a.session.ID, "list_issues"); inv.Error == nil || inv.Error.Code != action.FailedTool || inv.Error.Fault != "upstream_auth" {
		t.Errorf("the row says %+v", inv.Error)
	}
	// The call, and the question whether it is the key that is over.
	if n, asked := len(linear.requests("")), len(linear.requests("Viewer")); n != 2 || asked != 1 {
		t.Errorf("%d requests with a key that is over, of which %d asked whose it is", n, asked)
	}
	now := p.integration(in.ID)
	if now.Status != action.IntegrationRevoked || now.Usable || !strings.Contains(now.Why, "Connect the account again") {
		t.Errorf("it is %+v", now)
	}
	p.eventually("an agent without the tools", func() bool { return len(a.tools("linear")) == 0 })
	a.answered(a.call("linear_list_issues", `{}`), true, "revoked", "A person must reconnect it")
	var why api.Explanation
	p.must("GET", "/policy/explain?action=linear:list_issues&session="+a.session.ID, nil, &why)
	if why.Mode != action.ModeDeny || !strings.Contains(why.Reason, "revoked") {
		t.Errorf("people are told %s: %q", why.Mode, why.Reason)
	}
	if n := len(linear.requests("")); n != 2 {
		t.Errorf("%d requests for a dead integration", n-2)
	}

	// A person checks, and then connects the account again: it is the same.
	p.must("POST", "/integrations/"+in.ID+"/check", nil, &now)
	if now.Status != action.IntegrationRevoked {
		t.Errorf("checked, it is %s", now.Status)
	}
	again := p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": next})
	if again.ID != in.ID || again.Status != action.IntegrationActive || again.Reason != "" {
		t.Errorf("connected again it is %+v, not %s", again, in.ID)
	}
	p.eventually("an agent with the tools", func() bool { return cmp.Equal(linearTools, a.tools("linear")) })
	a.answered(a.call("linear_list_issues", `{}`), false, "ENG-7")
	if sent := linear.requests("ListIssues"); sent[len(sent)-1].Header.Get("Authorization") != next {
		t.Error("it was sent the old key")
	}

	// Disconnected it is gone, for good.
	p.must("DELETE", "/integrations/"+in.ID, nil, nil)
	p.eventually("an agent without the tools", func() bool { return len(a.tools("linear")) == 0 })
	if status, answer := p.do("GET", "/integrations/"+in.ID, nil); status != http.StatusNotFound {
		t.Errorf("disconnected it is %d %s", status, answer)
	}
}

// likeSlack answers as Slack does to whoever has the token.
func likeSlack(tokens ...string) func(http.ResponseWriter, *asked) {
	return func(w http.ResponseWriter, r *asked) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch known := strings.Contains("\n"+strings.Join(tokens, "\n")+"\n", "\n"+token+"\n"); {
		case !known:
			reply(w, 200, `{"ok":false,"error":"invalid_auth","needed":"`+token+`"}`)
		case r.Path == "/auth.test":
			w.Header().Set("X-OAuth-Scopes", "chat:write")
			reply(w, 200, `{"ok":true,"url":"https://acme.slack.com/","team":"Acme","user":"gate","team_id":"T1","user_id":"U1","bot_id":"B1","is_enterprise_install":false}`)
		case r.Path == "/chat.postMessage":
			reply(w, 200, `{"ok":true,"channel":"C1","ts":"1763700000.000200","message":{"text":"you sent `+token+`"}}`)
		default:
			reply(w, 200, `{"ok":false,"error":"unknown_method"}`)
		}
	}
}

func hang(_ http.ResponseWriter, r *asked) { <-r.context.Done() }

func TestServiceThatHangs(t *testing.T) {
	t.Parallel()
	p := serveHouse(t, func(o *Options) { o.Intervals.CallTimeout = 600 * time.Millisecond })
	linear, slack := newService(t, likeLinear(linearKey)), newService(t, likeSlack("xoxb-9f8e7d6c5b4a"))
	p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	p.connectTo(slack, "slack", map[string]any{"kind": "bot_token", "secret": "xoxb-9f8e7d6c5b4a"})
	a := p.agent("linear", "slack")
	linear.answers(hang)
	slack.answers(hang)

	// A read has failed.
	a.answered(a.call("linear_list_issues", `{}`), true)
	if inv := p.ended(a.session.ID, "list_issues"); inv.Status != action.StatusFailed || inv.Error.Code != action.FailedReach || inv.Error.Fault != "upstream_timeout" {
		t.Errorf("a read: %s %+v", inv.Status, inv.Error)
	}

	// Of a write nobody knows, and it is not sent again.
	for _, write := range []struct{ tool, args, name, sent string }{
		{"slack_send_message", `{"channel":"C1","text":"green"}`, "send_message", "postMessage"},
		{"linear_create_issue", `{"teamId":"4cfb482a-81e3-4154-b5b9-2c805e70a02d","title":"T"}`, "create_issue", "CreateIssue"},
	} {
		done := a.call(write.tool, write.args)
		p.approve(p.held().ID)
		a.answered(done, true, "may or may not")
		if inv := p.ended(a.session.ID, write.name); inv.Status != action.StatusFailed || inv.Error.Code != action.FailedUnknown || inv.Error.Fault != "upstream_timeout" {
			t.Errorf("%s: %s %+v", write.tool, inv.Status, inv.Error)
		}
		if n := len(linear.requests(write.sent)) + len(slack.requests(write.sent)); n != 1 {
			t.Errorf("%s was sent %d times", write.tool, n)
		}
	}

	// An admin gives one of them more time.
	linear.answers(func(w http.ResponseWriter, r *asked) {
		select {
		case <-time.After(900 * time.Millisecond):
			likeLinear(linearKey)(w, r)
		case <-r.context.Done():
		}
	})
	var all api.List[api.IntegrationView]
	p.must("GET", "/integrations", nil, &all)
	for _, in := range all.Items {
		if in.Provider == "linear" {
			p.must("PATCH", "/integrations/"+in.ID, map[string]any{"timeout_seconds": 20}, nil)
		}
	}
	a.answered(a.call("linear_list_issues", `{"first":3}`), false, "ENG-7")
}
