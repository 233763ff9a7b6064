package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
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
