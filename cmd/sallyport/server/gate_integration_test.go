package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// These are the stories of integrations: a whole gateway between agents and
// services that speak as the real ones do.

const linearKey = "lin_api_9f8e7d6c5b4a39281706"

// likeLinear answers as Linear does to whoever has the key.
func likeLinear(keys ...string) func(http.ResponseWriter, *asked) {
	const issue = `{"id":"2f1e0d9c-8b7a-4695-8473-625140392817","identifier":"ENG-7","title":"Login fails","url":"https://linear.app/acme/issue/ENG-7","priority":2,"priorityLabel":"High","dueDate":null,"createdAt":"2026-11-01T00:00:00Z","updatedAt":"2026-11-01T00:00:00Z","state":{"id":"s","name":"Todo","type":"unstarted"},"assignee":null,"team":{"id":"t","key":"ENG","name":"Engineering"},"project":null,"labels":{"nodes":[]}}`
	return func(w http.ResponseWriter, r *asked) {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !strings.Contains("\n"+strings.Join(keys, "\n")+"\n", "\n"+got+"\n") {
			reply(w, 401, `{"errors":[{"message":"Authentication required, not authenticated","extensions":{"type":"authentication error","code":"AUTHENTICATION_ERROR","userPresentableMessage":"`+r.Header.Get("Authorization")+`"}}]}`)
			return
		}
		var q struct{ OperationName string }
		_ = json.Unmarshal([]byte(r.Body), &q)
		switch q.OperationName {
		case "Viewer":
			reply(w, 200, `{"data":{"viewer":{"id":"u1","name":"Ada","email":"ada@example.com"},"organization":{"id":"o1","name":"Acme","urlKey":"acme"}}}`)
		case "ListIssues":
			reply(w, 200, `{"data":{"issues":{"nodes":[`+issue+`],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`)
		case "FindTeam":
			reply(w, 200, `{"data":{"teams":{"nodes":[{"id":"4cfb482a-81e3-4154-b5b9-2c805e70a02d","key":"ENG","name":"Engineering"}]}}}`)
		case "CreateIssue":
			reply(w, 200, `{"data":{"issueCreate":{"success":true,"issue":`+issue+`}}}`)
		case "Metadata":
			const none = `{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}`
			reply(w, 200, `{"data":{"teams":{"nodes":[{"id":"t1","key":"ENG","name":"Engineering"}],"pageInfo":{"hasNextPage":false,"endCursor":"x"}},"states":`+none+`,"labels":`+none+`,"users":`+none+`,"projects":`+none+`}}`)
		default:
			reply(w, 400, `{"errors":[{"message":"no such operation in this test: `+q.OperationName+`"}]}`)
		}
	}
}

var linearTools = []string{"linear_add_comment", "linear_create_issue", "linear_get_issue", "linear_list_issues", "linear_update_issue"}

func TestIntegrationFromConnectToAnswer(t *testing.T) {
	t.Parallel()
	p, linear := serveHouse(t), newService(t, likeLinear(linearKey))

	// A key that the service does not take is not kept.
	p.refused(400, "credential_refused", "POST", "/integrations", map[string]any{"provider": "linear", "kind": "api_key", "base_url": linear.URL, "secret": "lin_api_wrong_wrong"})
	in := p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	if in.AccountName != "Acme" || in.Status != action.IntegrationActive || !in.Usable {
		t.Errorf("connected: %+v", in)
	}
	a, stranger := p.agent("linear"), p.agent()
	if d := cmp.Diff(linearTools, a.tools("linear")); d != "" {
		t.Errorf("the agent is offered (-want +got):\n%s", d)
	}
	if got := stranger.tools("linear"); len(got) > 0 {
		t.Errorf("an agent that is not connected is offered %q", got)
	}
	if said := stranger.answered(stranger.call("actions_search", `{"query":"issue"}`), false); strings.Contains(said, "Policy denies") {
		t.Errorf("an agent that is not connected is told of denied tools: %s", said)
	}
	p.must("PUT", "/capabilities/readers/linear", map[string]any{"level": "read"}, nil)
	reader := p.attend(p.newSession(map[string]any{"group": "readers", "connections": []string{"linear"}}))
	reader.answered(reader.call("actions_search", `{"query":"issue"}`), false, "Policy denies this session 3 more tools that you do not see: 3 of Linear (Acme).")

	// A read runs.
	a.answered(a.call("linear_list_issues", `{"teamId":"ENG"}`), false, `"identifier":"ENG-7"`)

	// A write waits for a person, and is sent once, as he saw it.
	done := a.call("linear_create_issue", `{"teamId":"ENG","title":"Login fails"}`)
	held := p.held()
	if !strings.Contains(held.Summary, "Login fails") || len(linear.requests("CreateIssue")) > 0 {
		t.Errorf("held as %q, after %d requests", held.Summary, len(linear.requests("CreateIssue")))
	}
	p.approve(held.ID)
	a.answered(done, false, `"identifier":"ENG-7"`)
	sent := linear.requests("mutation CreateIssue")
	if len(sent) != 1 {
		t.Fatalf("%d requests create an issue", len(sent))
	}
	if got := sent[0].Header.Get("Authorization"); got != linearKey || sent[0].Method+" "+sent[0].Path != "POST /graphql" {
		t.Errorf("sent %s %s with %q", sent[0].Method, sent[0].Path, got)
	}
	var body struct {
		Variables struct{ Input map[string]any }
	}
	if err := json.Unmarshal([]byte(sent[0].Body), &body); err != nil {
		t.Fatal(err)
	}
	delete(body.Variables.Input, "id")
	if d := cmp.Diff(map[string]any{"teamId": "4cfb482a-81e3-4154-b5b9-2c805e70a02d", "title": "Login fails"}, body.Variables.Input); d != "" {
		t.Errorf("the input (-want +got):\n%s", d)
	}

	// Who is not connected is denied, and that is on record.
	before := len(linear.requests(""))
	for _, tool := range []string{"linear_list_issues", "linear_create_issue"} {
		stranger.answered(stranger.call(tool, `{"teamId":"ENG","title":"x"}`), true)
	}
	stranger.answered(stranger.call("linear_list_issues", `{}`), true, "not connected")
	if inv := p.ended(stranger.session.ID, "list_issues"); inv.Status != action.StatusDenied || inv.DeniedReason != action.DeniedPolicy || inv.ModeSource != action.LayerCeiling {
		t.Errorf("on record: %+v", inv)
	}
	if after := len(linear.requests("")); after != before {
		t.Errorf("%d requests of a session that is not connected", after-before)
	}
}
