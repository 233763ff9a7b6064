package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/api"
)

const (
	gitHubToken = "ghp_c4n4ry0123456789abcdefghijklmnopqrst"
	headSHA     = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
)

// likeGitHub answers as GitHub's API does to whoever has one of the tokens.
func likeGitHub(tokens ...string) func(http.ResponseWriter, *asked) {
	const pull = `{"id":2,"number":9,"title":"Mend it","state":"open","html_url":"https://github.com/octocat/hello/pull/9","user":{"login":"hubot"},"base":{"ref":"trunk","sha":"aa218f56b14c9653891f9e74264a383fa43fefbd"},"head":{"ref":"fix/it","sha":"` + headSHA + `","label":"hubot:fix/it"},"mergeable":true}`
	return func(w http.ResponseWriter, r *asked) {
		got := r.Header.Get("Authorization")
		switch known := slices.Contains(tokens, strings.TrimPrefix(got, "Bearer ")); {
		case !known:
			reply(w, 401, `{"message":"Bad credentials: `+got+`","documentation_url":"https://docs.github.com/rest"}`)
		case r.Path == "/user":
			w.Header().Set("X-OAuth-Scopes", "repo")
			reply(w, 200, `{"id":583231,"login":"octocat"}`)
		case r.Method+" "+r.Path == "GET /repos/octocat/hello":
			reply(w, 200, `{"id":1,"full_name":"octocat/hello","name":"hello","owner":{"login":"octocat"},"default_branch":"trunk","description":"`+got+`"}`)
		case r.Path == "/repos/octocat/hello/pulls/9":
			reply(w, 200, pull)
		case r.Method+" "+r.Path == "PUT /repos/octocat/hello/pulls/9/merge":
			reply(w, 200, `{"sha":"`+headSHA+`","merged":true,"message":"Pull Request successfully merged"}`)
		case r.Path == "/repos/octocat/hello/git/ref/heads/trunk":
			reply(w, 200, `{"ref":"refs/heads/trunk","object":{"sha":"aa218f56b14c9653891f9e74264a383fa43fefbd","type":"commit"}}`)
		case r.Method+" "+r.Path == "POST /repos/octocat/hello/issues":
			reply(w, 201, `{"id":3,"number":10,"title":"T","state":"open","html_url":"https://github.com/octocat/hello/issues/10","user":{"login":"octocat"},"body":"with `+got+`"}`)
		case r.Method+" "+r.Path == "POST /repos/octocat/hello/git/refs":
			reply(w, 201, `{"ref":"refs/heads/fix/it","object":{"sha":"aa218f56b14c9653891f9e74264a383fa43fefbd","type":"commit"}}`)
		default:
			reply(w, 404, `{"message":"Not Found"}`)
		}
	}
}

// mode sets what becomes of an action.
func (p *premises) mode(key string, m action.Mode) {
	p.t.Helper()
	p.must("PUT", "/policy/modes/"+key, map[string]any{"mode": m}, nil)
}

func TestMergeTakesAPersonsWord(t *testing.T) {
	t.Parallel()
	p, gitHub := serveHouse(t), newService(t, likeGitHub(gitHubToken))
	p.connectTo(gitHub, "github", map[string]any{"kind": "api_key", "secret": gitHubToken})
	a := p.agent("github")
	const merge = `{"owner":"octocat","repo":"hello","number":9,"sha":"` + headSHA + `","base":"trunk","merge_method":"squash"}`
	if slices.Contains(a.tools("github"), "github_merge_pr") {
		t.Error("an agent is offered to merge, unasked")
	}
	gitHub.answers(likeGitHub(gitHubToken))
	a.answered(a.call("github_merge_pr", merge), true, "denied")
	if n := len(gitHub.requests("")); n != 0 {
		t.Errorf("%d requests of a denied call", n)
	}

	p.mode("github:merge_pr", action.ModeRequireApproval)
	p.eventually("an agent that may ask to merge", func() bool { return slices.Contains(a.tools("github"), "github_merge_pr") })
	// Without the commit that an approver would look at, nobody is asked.
	a.answered(a.call("github_merge_pr", `{"owner":"octocat","repo":"hello","number":9}`), true, "sha")
	done := a.call("github_merge_pr", merge)
	held := p.held()
	if !strings.Contains(held.Summary, "6dcb09b5b5") {
		t.Errorf("held as %q", held.Summary)
	}
	p.approve(held.ID)
	a.answered(done, false, `"merged":true`)
	sent := gitHub.requests("/merge")
	if len(sent) != 1 || sent[0].Method != "PUT" || sent[0].Header.Get("Authorization") != "Bearer "+gitHubToken || sent[0].Header.Get("X-GitHub-Api-Version") == "" {
		t.Fatalf("sent %+v", sent)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(sent[0].Body), &body); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{"sha": headSHA, "merge_method": "squash"}, body); d != "" {
		t.Errorf("the body (-want +got):\n%s", d)
	}

	// The branch moved meanwhile.
	gitHub.answers(func(w http.ResponseWriter, r *asked) {
		if r.Method == "PUT" {
			reply(w, 409, `{"message":"Head branch was modified. Review and try the merge again."}`)
			return
		}
		likeGitHub(gitHubToken)(w, r)
	})
	done = a.call("github_merge_pr", strings.Replace(merge, "squash", "merge", 1))
	p.approve(p.held().ID)
	a.answered(done, true, "409")
}

func TestGuardrailsAtGitHub(t *testing.T) {
	t.Parallel()
	p, gitHub := serveHouse(t), newService(t, likeGitHub(gitHubToken))
	settings := map[string]any{"repositories": []string{"octocat/hello"}, "denied_pr_bases": []string{"release/*"}}
	why := p.refused(400, "invalid_settings", "POST", "/integrations", map[string]any{
		"provider": "github", "kind": "api_key", "secret": gitHubToken, "base_url": gitHub.URL, "settings": map[string]any{"repos": []string{"octocat/hello"}},
	})
	if !strings.Contains(why, `"repos" is not a setting`) {
		t.Errorf("the settings are refused with %q", why)
	}
	p.connectTo(gitHub, "github", map[string]any{"kind": "api_key", "secret": gitHubToken, "settings": settings})
	a := p.agent("github")
	for _, act := range []string{"create_branch", "create_pr", "create_issue"} {
		p.mode("github:"+act, action.ModeAllow)
	}
	gitHub.answers(likeGitHub(gitHubToken))
	for _, c := range []struct{ tool, args, says string }{
		{"create_branch", `{"owner":"octocat","repo":"hello","branch":"main"}`, "No branch called main"},
		{"create_branch", `{"owner":"octocat","repo":"hello","branch":"refs/heads/MASTER"}`, "No branch called main or master"},
		{"create_pr", `{"owner":"octocat","repo":"hello","title":"T","head":"fix","base":"release/1"}`, "release/1"},
		{"create_issue", `{"owner":"octocat","repo":"other","title":"T"}`, "may not write to octocat/other"},
		{"create_issue", `{"owner":"octocat","repo":"hello/../other","title":"T"}`, "repo"},
	} {
		a.answered(a.call("github_"+c.tool, c.args), true, c.says)
	}
	p.must("DELETE", "/policy/modes/github:create_pr", nil, nil)
	a.answered(a.call("github_create_pr", `{"owner":"octocat","repo":"hello","title":"held","head":"fix","base":"release/1"}`), true, "release/1", "forbidden by a setting")
	if sent := gitHub.requests(""); len(sent) != 0 {
		t.Errorf("sent in spite of the guardrails: %+v", sent)
	}
	page, err := p.DB.ListInvocations(t.Context(), action.InvocationFilter{Organization: org, Statuses: []action.Status{action.StatusDenied}})
	if err != nil || len(page.Items) != 5 {
		t.Errorf("%d calls are denied, %v", len(page.Items), err)
	}
	for _, inv := range page.Items {
		if inv.ModeSource != action.LayerGuardrail || !strings.HasPrefix(inv.DeniedNote, "GitHub: ") {
			t.Errorf("%s is denied by %s: %s", inv.Action, inv.ModeSource, inv.DeniedNote)
		}
	}
	a.answered(a.call("github_create_branch", `{"owner":"octocat","repo":"hello","branch":"fix/it"}`), false, "fix/it")
	a.answered(a.call("github_create_issue", `{"owner":"octocat","repo":"hello","title":"T"}`), false, `"number":10`)
	if n := len(gitHub.requests("git/refs")); n != 1 {
		t.Errorf("%d branches were created", n)
	}
}

// TestProductionBases opens and merges pull requests into production branches and
// others, at every level, with the gate approved and not.
func TestProductionBases(t *testing.T) {
	t.Parallel()
	p, gitHub := serveHouse(t), newService(t, likeGitHub(gitHubToken))
	p.connectTo(gitHub, "github", map[string]any{"kind": "api_key", "secret": gitHubToken})
	p.mode("github:create_pr", action.ModeAllow) // what no mode permits in production
	const gate = `gate 'Security' to be approved for task 'closed'`
	sessions := map[string]action.Session{}
	agents := map[string]*visitor{}
	for group, capability := range map[string]map[string]any{
		"": nil, "level1": {"level": 1}, "level2": {"level": 2}, "level3": {"level": 3, "required_gate": "Security"},
	} {
		if group != "" {
			p.must("PUT", "/capabilities/"+group+"/github", capability, nil)
			p.must("POST", "/gates", map[string]any{"group": group, "task": "open", "gate": "Security"}, nil)
		}
		for _, task := range []string{"open", "closed"} {
			body := map[string]any{"connections": []string{"github"}}
			if group != "" {
				body["group"], body["task"] = group, task
			}
			var s testSession
			p.must("POST", "/sessions", body, &s)
			row, err := p.DB.Session(t.Context(), s.ID)
			if err != nil {
				t.Fatal(err)
			}
			sessions[group+" "+task], agents[group+" "+task] = row, p.attend(s)
		}
	}
	const because = `, because "release/1" is a production branch`
	title := 0
	for _, c := range []struct {
		group, act, base string
		open, closed     string // why it is denied with the gate approved and without; empty: it is not
	}{
		{"", "create_pr", "trunk", "", ""},
		{"", "create_pr", "release/1", "needs level 3 at GitHub (octocat)" + because + ", and the session has no group", "and the session has no group"},
		{"level1", "create_pr", "trunk", "has level 1 (read) at GitHub (octocat), create_pr needs level 2.", "create_pr needs level 2."},
		{"level1", "create_pr", "release/1", "create_pr needs level 2.", "create_pr needs level 2."},
		{"level2", "create_pr", "trunk", "", ""},
		{"level2", "create_pr", "release/1", "has level 2 (write) at GitHub (octocat), create_pr needs level 3" + because + ".", "create_pr needs level 3" + because + "."},
		{"level2", "merge_pr", "release/1", "merge_pr needs level 3.", "merge_pr needs level 3."},
		{"level3", "create_pr", "trunk", "", ""},
		{"level3", "create_pr", "release/1", "", "create_pr needs level 3 at GitHub (octocat)" + because + ", and level 3 needs " + gate},
		{"level3", "merge_pr", "trunk", "", "merge_pr needs level 3 at GitHub (octocat), and level 3 needs " + gate},
		{"level3", "merge_pr", "release/1", "", "merge_pr needs level 3 at GitHub (octocat), and level 3 needs " + gate},
	} {
		for task, denied := range map[string]string{"open": c.open, "closed": c.closed} {
			title++
			params := fmt.Sprintf(`{"owner":"octocat","repo":"hello","title":"%d","head":"fix","base":%q}`, title, c.base)
			if c.act == "merge_pr" {
				params = fmt.Sprintf(`{"owner":"octocat","repo":"hello","number":%d,"sha":"`+headSHA+`","base":%q}`, 100+title, c.base)
			}
			name, s := fmt.Sprintf("%s into %s at %q with the gate %s", c.act, c.base, c.group, task), sessions[c.group+" "+task]
			explained, err := p.gate.Explain(t.Context(), &s, "github", c.act, json.RawMessage(params))
			if err != nil || (explained.Decision.Mode == action.ModeDeny) != (denied != "") || !strings.Contains(explained.Decision.Why(), denied) {
				t.Errorf("%s is explained as %s: %s (%v)", name, explained.Decision.Mode, explained.Decision.Why(), err)
			}
			gitHub.answers(likeGitHub(gitHubToken))
			answer := <-agents[c.group+" "+task].call("github_"+c.act, params)
			page, err := p.DB.ListInvocations(t.Context(), action.InvocationFilter{Organization: org, Session: s.ID, Limit: 1})
			if err != nil || len(page.Items) != 1 {
				t.Fatalf("%s has no row: %s, %v", name, answer.text, err)
			}
			row, sent := page.Items[0], len(gitHub.requests(""))
			risk := explained.Risk
			switch raised := c.base == "release/1" && c.group != "level1"; {
			case raised && risk != action.RiskDanger, row.Risk != risk:
				t.Errorf("%s is recorded as %s, explained as %s", name, row.Risk, risk)
			case denied == "" && (row.Status == action.StatusDenied || sent == 0): // the service has no such pull request
				t.Errorf("%s is %s: %s; %d requests", name, row.Status, row.DeniedNote, sent)
			case denied != "" && (row.ModeSource != action.LayerCeiling || !strings.Contains(row.DeniedNote, denied) || !strings.Contains(answer.text, denied) || sent != 0):
				t.Errorf("%s is %s by %s: %s; the agent is told %s; %d requests", name, row.Status, row.ModeSource, row.DeniedNote, answer.text, sent)
			}
		}
	}

	// An approver is told why it is production, and the gate is checked again.
	p.mode("github:create_pr", action.ModeRequireApproval)
	a := agents["level3 open"]
	const release = `{"owner":"octocat","repo":"hello","title":"held","head":"fix","base":"release/1"}`
	var done <-chan spokenTo
	p.eventually("a held call", func() bool {
		done = a.call("github_create_pr", release)
		var list api.List[action.Invocation]
		select {
		case <-done:
			return false // decided by the mode before
		case <-time.After(100 * time.Millisecond):
		}
		p.must("GET", "/invocations?status=pending", nil, &list)
		return len(list.Items) == 1
	})
	held := p.held()
	if alerts := action.Alerts(held.Steps); held.Risk != action.RiskDanger || len(alerts) != 1 || !strings.Contains(alerts[0].Note, `"release/1" is a production branch. Gate 'Security' is approved`) {
		t.Errorf("an approver sees %s and %+v", held.Risk, alerts)
	}
	approvals, err := p.DB.ListGates(t.Context(), org, "level3", "")
	if err != nil || len(approvals) != 1 {
		t.Fatalf("%+v, %v", approvals, err)
	}
	p.must("DELETE", "/gates/"+approvals[0].ID, nil, nil)
	gitHub.answers(likeGitHub(gitHubToken))
	p.approve(held.ID)
	a.answered(done, true, `"release/1" is a production branch, and level 3 needs gate 'Security'`)
	if sent := gitHub.requests(""); len(sent) != 0 {
		t.Errorf("sent without the gate: %+v", sent)
	}
}
