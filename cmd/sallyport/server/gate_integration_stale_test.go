package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sallyport/action"
)

// ofWorkspace answers as Linear does to a key of another workspace.
func ofWorkspace(id, key string) func(http.ResponseWriter, *asked) {
	return func(w http.ResponseWriter, r *asked) {
		var q struct{ OperationName string }
		_ = json.Unmarshal([]byte(r.Body), &q)
		if q.OperationName == "Viewer" && r.Header.Get("Authorization") == key {
			reply(w, 200, `{"data":{"viewer":{"id":"u2","name":"Ben","email":"ben@example.com"},"organization":{"id":"`+id+`","name":"`+id+`","urlKey":"`+id+`"}}}`)
			return
		}
		likeLinear(strings.TrimPrefix(key, "Bearer "))(w, r)
	}
}

// What was approved is not run when it would do something else by then.
func TestApprovalGoesStale(t *testing.T) {
	t.Parallel()
	const other = "lin_api_aabbccddeeff00112233"
	p, gitHub := serveHouse(t), newService(t, likeGitHub(gitHubToken))
	linear, moved, second := newService(t, likeLinear(linearKey)), newService(t, likeLinear(linearKey)), newService(t, ofWorkspace("o2", other))
	key := map[string]any{"kind": "api_key", "secret": linearKey}
	in := p.connectTo(linear, "linear", key)
	hub := p.connectTo(gitHub, "github", map[string]any{"kind": "api_key", "secret": gitHubToken})
	a := p.agent("linear", "github")
	const create, issue = `{"teamId":"4cfb482a-81e3-4154-b5b9-2c805e70a02d","title":"T"}`, `{"owner":"octocat","repo":"hello","title":"T"}`
	for _, c := range []struct {
		what, tool, args string
		change           func()
		says             string
	}{
		{"settings", "github_create_issue", issue, func() {
			p.must("PATCH", "/integrations/"+hub.ID, map[string]any{"settings": map[string]any{"repositories": []string{"octocat/hello"}}}, nil)
		}, "changed"},
		{"base URL", "linear_create_issue", create, func() {
			if again := p.connectTo(moved, "linear", key); again.ID != in.ID {
				t.Fatalf("at another URL it is %s, not %s", again.ID, in.ID)
			}
		}, "changed"},
		{"another of the provider", "linear_create_issue", create, func() {
			if also := p.connectTo(second, "linear", map[string]any{"kind": "api_key", "secret": other}); also.ID == in.ID {
				t.Fatal("another workspace is the same integration")
			}
		}, "changed"},
		{"disconnected", "linear_create_issue", create, func() {
			p.must("DELETE", "/integrations/"+in.ID, nil, nil)
		}, ""},
	} {
		// Another call each time: an answer that is on its way may be given once more.
		done := a.call(c.tool, strings.Replace(c.args, `"T"`, `"`+c.what+`"`, 1))
		held := p.held()
		c.change()
		p.approve(held.ID)
		a.answered(done, true, c.says)
		var inv action.Invocation
		p.must("GET", "/invocations/"+held.ID, nil, &inv)
		if stale := inv.Status == action.StatusFailed && inv.Error.Code == action.FailedStale; !stale && inv.Status != action.StatusDenied {
			t.Errorf("%s: it is %s %+v", c.what, inv.Status, inv.Error)
		}
		for _, s := range []*service{linear, moved, second, gitHub} {
			if sent := append(s.requests("CreateIssue"), s.requests("/issues")...); len(sent) > 0 {
				t.Errorf("%s: it was sent: %+v", c.what, sent)
			}
		}
	}

	// A new key of the same account changes nothing of what a call does.
	in = p.connectTo(linear, "linear", key)
	a = p.agent(in.ID)
	done := a.call("linear_create_issue", create)
	held := p.held()
	p.connectTo(linear, "linear", key)
	p.must("PATCH", "/integrations/"+in.ID, map[string]any{"name": "Renamed"}, nil)
	p.approve(held.ID)
	a.answered(done, false, "ENG-7")
}

// What is private is there for nobody else, wherever he looks.
func TestPrivateIntegration(t *testing.T) {
	t.Parallel()
	p, linear := serveHouse(t), newService(t, ofWorkspace("Secluded", linearKey))
	ben, cleo := p.as("Ben", action.RoleAdmin), p.as("Cleo", action.RoleAdmin)
	in := ben.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey, "visibility": "private", "name": "Hideaway"})
	his := ben.agent(in.ID)
	his.answered(his.call("linear_list_issues", `{}`), false, "ENG-7")
	for _, name := range []string{"nightly", "other"} {
		p.must("POST", "/automations", map[string]any{"name": name}, nil)
	}
	ben.refused(400, "invalid", "PUT", "/automations/nightly/connections", map[string]any{"connections": []string{in.ID}})

	before := len(linear.requests(""))
	for _, who := range []*premises{p, cleo} {
		for method, path := range map[string]string{
			"GET": "/integrations/" + in.ID, "PATCH": "/integrations/" + in.ID, "DELETE": "/integrations/" + in.ID, "POST": "/integrations/" + in.ID + "/check",
		} {
			var body any
			if method == "PATCH" {
				body = map[string]any{"name": "mine"}
			}
			if status, answer := who.do(method, path, body); status != http.StatusNotFound {
				t.Errorf("%s %s: %d %s", method, path, status, answer)
			}
		}
		if status, answer := who.do("GET", "/integrations/"+in.ID+"/metadata", nil); status != http.StatusNotFound {
			t.Errorf("metadata: %d %s", status, answer)
		}
		for _, name := range []string{in.ID, "linear", "Hideaway"} {
			who.refused(400, "invalid_field", "POST", "/sessions", map[string]any{"connections": []string{name}})
			who.refused(400, "invalid_field", "PUT", "/automations/other/connections", map[string]any{"connections": []string{name}})
		}
		for _, path := range []string{
			"/integrations", "/integrations/apps", "/sessions", "/automations/nightly/connections", "/invocations", "/policy/modes", "/capabilities",
			"/policy/explain?action=linear:list_issues", "/policy/explain?action=linear:list_issues&session=" + his.session.ID,
			"/sessions/" + his.session.ID, "/sessions/" + his.session.ID + "/actions/available",
		} {
			_, answer := who.do("GET", path, nil)
			for _, told := range []string{in.ID, "Secluded", "Hideaway"} {
				if onRecord := path == "/invocations" && told == in.ID; !onRecord && strings.Contains(string(answer), told) {
					t.Errorf("GET %s tells %q: %s", path, told, answer)
				}
			}
		}
		a := who.agent("all")
		if got := a.tools("linear"); len(got) > 0 {
			t.Errorf("a session of somebody else sees %q", got)
		}
		if got := a.answered(a.call("linear_list_issues", `{}`), true); strings.Contains(got, "Secluded") || strings.Contains(got, "Ben") {
			t.Errorf("a session of somebody else is told %q", got)
		}
	}
	if n := len(linear.requests("")); n != before {
		t.Errorf("%d requests with somebody else's credential", n-before)
	}

	// Made private later, it is gone from sessions that others minted before.
	ben.must("PATCH", "/integrations/"+in.ID, map[string]any{"visibility": "organization"}, nil)
	hers := cleo.agent(in.ID)
	hers.answered(hers.call("linear_list_issues", `{"first":2}`), false, "ENG-7")
	ben.must("PATCH", "/integrations/"+in.ID, map[string]any{"visibility": "private"}, nil)
	hers.answered(hers.call("linear_list_issues", `{"first":3}`), true, "not connected")
	his.answered(his.call("linear_list_issues", `{"first":4}`), false, "ENG-7")
}
