package github_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/ingest/event"
	"sallyport/sources/github"
)

const guid = "72d3162e-cc78-11e3-81ab-4c9367dc0958"

// Bodies of deliveries, in the form that GitHub gives them.
const (
	senderJSON   = `"sender":` + userJSON + `,"installation":{"id":4711,"node_id":"MDIz"}`
	aboutJSON    = `"repository":` + repoJSON + `,` + senderJSON
	issueEvent   = `{"action":"labeled","issue":` + issueJSON + `,"label":{"id":208045946,"name":"urgent"},` + aboutJSON + `}`
	pullEvent    = `{"action":"synchronize","number":9,"pull_request":` + pullJSON + `,"before":"a","after":"b",` + aboutJSON + `}`
	pushRepoJSON = `"repository":{"id":1296269,"full_name":"octocat/hello","owner":{"name":"octocat","email":null,"login":"octocat","id":583231,"url":"https://api.github.com/users/octocat"},"private":false,"html_url":"https://github.com/octocat/hello","pushed_at":1793001600,"created_at":1557933565,"default_branch":"trunk"}`
	commitJSON   = `{"id":"6dcb09b5b57875f334f61aebed695e2e4193db5e","tree_id":"f9","distinct":true,"message":"Mend it\n\nIn full.","timestamp":"2026-10-02T08:00:00Z","url":"https://github.com/octocat/hello/commit/6d","author":{"name":"The Octocat","email":"o@example.com","username":"octocat"},"added":["a"],"removed":[],"modified":[]}`
	pushEvent    = `{"ref":"refs/heads/fix/it","before":"c3","after":"6d","created":false,"deleted":false,"forced":true,"base_ref":null,"compare":"https://github.com/octocat/hello/compare/c3...6d","commits":[` + commitJSON + `],"head_commit":` + commitJSON + `,"pusher":{"name":"octocat"},` + pushRepoJSON + `,` + senderJSON + `}`
	suiteJSON    = `{"id":118578147,"head_branch":"changes","head_sha":"ec26c3e5","status":"completed","conclusion":"failure","before":"61","after":"ec","pull_requests":[{"number":2,"id":279147437,"head":{"ref":"changes"}}],"app":{"id":29310,"name":"linter","slug":"linter"},"created_at":"2026-10-02T07:00:00Z","updated_at":"2026-10-02T08:00:00Z"}`
	suiteEvent   = `{"action":"completed","check_suite":` + suiteJSON + `,` + aboutJSON + `}`
	runEvent     = `{"action":"created","check_run":{"id":128620228,"name":"Lint","head_sha":"ec26c3e5","html_url":"https://github.com/octocat/hello/runs/128620228","status":"queued","conclusion":null,"started_at":"2026-10-02T08:00:00Z","completed_at":null,"output":{"title":null,"summary":null,"text":null,"annotations_count":0},"check_suite":` + suiteJSON + `,"app":{"id":29310,"name":"linter"},"pull_requests":[]},` + aboutJSON + `}`
	workflowJSON = `{"id":289782451,"name":"test","head_branch":"trunk","head_sha":"3484a3fb","path":".github/workflows/test.yml","run_number":8,"run_attempt":2,"event":"pull_request","status":"completed","conclusion":"success","html_url":"https://github.com/octocat/hello/actions/runs/289782451","pull_requests":[],"created_at":"2026-10-02T07:00:00Z","updated_at":"2026-10-02T08:00:00Z","head_repository":{"id":1,"full_name":"octocat/hello","fork":false}}`
	runOfFlow    = `{"action":"completed","workflow_run":` + workflowJSON + `,"workflow":{"id":1,"name":"test"},` + aboutJSON + `}`
	installed    = `{"action":"created","installation":{"id":4711,"app_id":29310,"account":` + userJSON + `,"repository_selection":"all"},"repositories":[{"id":1,"full_name":"octocat/hello"}],"requester":null,"sender":` + userJSON + `}`
)

func delivery(kind, body string) *event.Delivery {
	return &event.Delivery{
		Header: http.Header{"X-Github-Event": {kind}, "X-Github-Delivery": {guid}, "Content-Type": {"application/json"}},
		Body:   []byte(body),
	}
}

func hear(t *testing.T, kind, body string) event.Parsed {
	t.Helper()
	p, err := github.Triggers().Webhook.Parse(delivery(kind, body))
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return p
}

// heard returns the only event of a delivery.
func heard(t *testing.T, kind, body string) event.Event {
	t.Helper()
	p := hear(t, kind, body)
	if len(p.Events) != 1 {
		t.Fatalf("%s: %d events", kind, len(p.Events))
	}
	return p.Events[0]
}

func sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestVerify(t *testing.T) {
	const key = "It's a Secret to Everybody"
	const hello = "Hello, World!" // and what GitHub's documentation says of it
	const published = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	form := "payload=" + url.QueryEscape(issueEvent)
	for _, test := range []struct {
		name, header, body string
		signatures         []string
		good               bool
	}{
		{"as published", "X-Hub-Signature-256", hello, []string{published}, true},
		{"an event", "X-Hub-Signature-256", issueEvent, []string{sign(key, issueEvent)}, true},
		{"a form, as it was sent", "X-Hub-Signature-256", form, []string{sign(key, form)}, true},
		{"a form's payload", "X-Hub-Signature-256", form, []string{sign(key, issueEvent)}, false},
		{"none", "X-Hub-Signature-256", hello, nil, false},
		{"empty", "X-Hub-Signature-256", hello, []string{""}, false},
		{"doubled", "X-Hub-Signature-256", hello, []string{published, published}, false},
		{"two in one", "X-Hub-Signature-256", hello, []string{published + "," + published}, false},
		{"no prefix", "X-Hub-Signature-256", hello, []string{published[len("sha256="):]}, false},
		{"of another body", "X-Hub-Signature-256", hello + " ", []string{published}, false},
		{"of another secret", "X-Hub-Signature-256", hello, []string{sign("other", hello)}, false},
		{"of no secret", "X-Hub-Signature-256", hello, []string{sign("", hello)}, false},
		{"in the header of SHA-1", "X-Hub-Signature", hello, []string{published}, false},
	} {
		d := &event.Delivery{Header: http.Header{test.header: test.signatures}, Body: []byte(test.body)}
		err := github.Triggers().Webhook.Verify(d, [][]byte{nil, []byte("new"), []byte(key)}, time.Time{}, 0)
		if (err == nil) != test.good || err != nil && !errors.Is(err, event.ErrSignature) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err := github.Triggers().Webhook.Verify(d, nil, time.Time{}, 0); !errors.Is(err, event.ErrSignature) {
			t.Errorf("%s, without a secret: %v", test.name, err)
		}
	}
}

func TestEvents(t *testing.T) {
	at := time.Date(2026, 10, 2, 8, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		kind, body string
		want       event.Event // but for its context
	}{
		{"issues", issueEvent, event.Event{Type: "issue", Native: "issues:labeled", Title: "octocat/hello#7: It is broken", URL: "https://github.com/octocat/hello/issues/7", OccurredAt: at}},
		{"pull_request", pullEvent, event.Event{Type: "pull_request", Native: "pull_request:synchronize", Title: "octocat/hello#9: Mend it", URL: "https://github.com/octocat/hello/pull/9", OccurredAt: at}},
		{"push", pushEvent, event.Event{Type: "push", Native: "push", Title: "octocat/hello: push to fix/it: Mend it", URL: "https://github.com/octocat/hello/compare/c3...6d", OccurredAt: time.Unix(1793001600, 0).UTC()}},
		{"check_suite", suiteEvent, event.Event{Type: "check_suite", Native: "check_suite:completed", Title: "octocat/hello: linter failure", URL: "https://github.com/octocat/hello/commit/ec26c3e5/checks", OccurredAt: at}},
		{"check_run", runEvent, event.Event{Type: "check_run", Native: "check_run:created", Title: "octocat/hello: Lint queued", URL: "https://github.com/octocat/hello/runs/128620228", OccurredAt: at}},
		{"workflow_run", runOfFlow, event.Event{Type: "workflow_run", Native: "workflow_run:completed", Title: "octocat/hello: test success", URL: "https://github.com/octocat/hello/actions/runs/289782451", OccurredAt: at}},
	} {
		test.want.Provider, test.want.Key = "github", guid
		for how, body := range map[string]string{"json": test.body, "form": "payload=" + url.QueryEscape(test.body)} {
			p := hear(t, test.kind, body)
			if p.ID != guid || p.Signed || p.Account != "583231" || len(p.Events) != 1 || p.Lifecycle != "" {
				t.Fatalf("%s as %s: %+v", test.kind, how, p)
			}
			got := p.Events[0]
			got.Context = nil
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("%s as %s (-want +got):\n%s", test.kind, how, d)
			}
		}
	}
}

func TestContext(t *testing.T) {
	var got any
	if err := json.Unmarshal(heard(t, "push", pushEvent).Context, &got); err != nil {
		t.Fatal(err)
	}
	commit := map[string]any{"id": "6dcb09b5b57875f334f61aebed695e2e4193db5e", "message": "Mend it\n\nIn full.", "author": map[string]any{"name": "The Octocat", "username": "octocat"}, "url": "https://github.com/octocat/hello/commit/6d"}
	want := any(map[string]any{
		"repository": map[string]any{"full_name": "octocat/hello", "private": false, "default_branch": "trunk", "html_url": "https://github.com/octocat/hello", "pushed_at": "2026-10-26T08:00:00Z"},
		"sender":     map[string]any{"login": "octocat", "type": "User"},
		"branch":     "fix/it",
		"push": map[string]any{
			"ref": "refs/heads/fix/it", "before": "c3", "after": "6d", "forced": true, "compare": "https://github.com/octocat/hello/compare/c3...6d",
			"head_commit": commit, "commits": []any{commit},
		},
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestLifecycle(t *testing.T) {
	for action, want := range map[string]event.Lifecycle{
		"created": event.Installed, "deleted": event.Uninstalled, "suspend": event.Suspended, "unsuspend": event.Unsuspended, "new_permissions_accepted": "",
	} {
		p := hear(t, "installation", strings.Replace(installed, "created", action, 1))
		if p.Lifecycle != want || p.Account != "583231" || len(p.Events) != 0 {
			t.Errorf("%s: %+v", action, p)
		}
	}
}

// TestWhoseADeliveryIs: whose the installation is, as integrations of it have it,
// and nobody's without one.
func TestWhoseADeliveryIs(t *testing.T) {
	const server = "https://hub.example/api/v3"
	owner := `"owner":` + userJSON
	for name, test := range map[string]struct{ kind, body, want string }{
		"a repository":                 {"issues", issueEvent, "583231"},
		"a push":                       {"push", pushEvent, "583231"},
		"an installation":              {"installation", installed, "583231"},
		"at a server of one's own":     {"issues", strings.ReplaceAll(issueEvent, "https://api.github.com", server), "hub.example/api/v3#583231"},
		"installed at such a server":   {"installation", strings.ReplaceAll(installed, "https://api.github.com", server), "hub.example/api/v3#583231"},
		"no installation":              {"issues", strings.Replace(issueEvent, `"installation":`, `"x":`, 1), ""},
		"an installation that is null": {"issues", strings.Replace(issueEvent, `"installation":{"id":4711,"node_id":"MDIz"}`, `"installation":null`, 1), ""},
		"an organization":              {"member", `{"organization":{"id":9,"login":"o","url":"https://api.github.com/orgs/o"},` + senderJSON + `}`, "9"},
		"nobody":                       {"ping", `{` + senderJSON + `}`, ""},
		"a repository before one":      {"issues", strings.Replace(issueEvent, `"issue":`, `"organization":{"id":9},"issue":`, 1), "583231"},
		"an owner without id":          {"issues", strings.Replace(issueEvent, owner, `"owner":{"login":"octocat"}`, 1), ""},
	} {
		if got := hear(t, test.kind, test.body).Account; got != test.want {
			t.Errorf("%s: of %q, not %q", name, got, test.want)
		}
	}
}

// TestWhatIsGone: GitHub writes null for whom and what it does not know any
// more.
func TestWhatIsGone(t *testing.T) {
	sender := `"sender":` + userJSON
	e := heard(t, "issues", strings.NewReplacer(`"label":{"id":208045946,"name":"urgent"}`, `"label":null,"assignee":null`, sender, `"sender":null`).Replace(issueEvent))
	if e.Title != "octocat/hello#7: It is broken" || strings.Contains(string(e.Context), "urgent") {
		t.Errorf("got %q, %s", e.Title, e.Context)
	}
}

// TestPullRequestsAsIssues: some of what happens to a pull request is told as of
// an issue.
func TestPullRequestsAsIssues(t *testing.T) {
	e := heard(t, "issues", strings.Replace(issueEvent, issueJSON, asPull(issueJSON), 1))
	if text := string(e.Context); !strings.Contains(text, `"is_pull_request":true`) || strings.Contains(text, "api.github.com") {
		t.Errorf("got %s", text)
	}
}

// TestWhatIsNoTrigger is no error, and no event.
func TestWhatIsNoTrigger(t *testing.T) {
	for kind, body := range map[string]string{
		"ping":          `{"zen":"Design for failure.","hook_id":1,` + aboutJSON + `}`,
		"issue_comment": strings.Replace(issueEvent, `"label":{`, `"comment":{`, 1),
		"push":          strings.Replace(pushEvent, `"deleted":false`, `"deleted":true`, 1),
	} {
		if p := hear(t, kind, body); len(p.Events) != 0 || p.Account != "583231" || p.Lifecycle != "" {
			t.Errorf("%s: %+v", kind, p)
		}
	}
}

// TestTheHeaderIsNotSigned has a signed body come again under the name of
// another event.
func TestTheHeaderIsNotSigned(t *testing.T) {
	deleted := strings.Replace(issueEvent, "labeled", "deleted", 1)
	organization := `{"action":"deleted","organization":{"login":"o"},` + senderJSON + `}`
	whole := strings.Replace(installed, `"created"`, `"deleted"`, 1)
	for name, test := range map[string]struct{ kind, body string }{
		"an issue's deletion for an installation's":        {"installation", deleted},
		"an organization's deletion for an installation's": {"installation", organization},
		"what has a repository for an installation's":      {"installation", strings.Replace(whole, `"requester":null`, pushRepoJSON, 1)},
		"an installation's deletion for an issue's":        {"issues", whole},
		"a comment for an issue":                           {"issues", strings.Replace(issueEvent, `"label":{`, `"comment":{`, 1)},
		"a review for a pull request":                      {"pull_request", strings.Replace(pullEvent, `"number":9,"pull`, `"review":{},"pull`, 1)},
		"a comment of a review for a pull request":         {"pull_request", strings.Replace(pullEvent, `"number":9,"pull`, `"comment":{},"pull`, 1)},
		"a thread for a pull request":                      {"pull_request", strings.Replace(pullEvent, `"number":9,"pull`, `"thread":{},"pull`, 1)},
		"a pull request for an issue":                      {"issues", pullEvent},
		"a pull request's commits for a push":              {"push", pullEvent},
		"a new branch for a push":                          {"push", `{"ref":"fix","ref_type":"branch","master_branch":"trunk",` + aboutJSON + `}`},
		"a deployment for a run of a workflow":             {"workflow_run", strings.Replace(runOfFlow, `"workflow":{`, `"deployment":{`, 1)},
		"a review of a deployment for a run of a workflow": {"workflow_run", strings.Replace(runOfFlow, `"workflow":{`, `"reviewers":[],"x":{`, 1)},
		"a deployment's state for a check":                 {"check_run", strings.Replace(runEvent, `"action":"created",`, `"action":"created","deployment":{},`, 1)},
		"a suite for a check":                              {"check_run", suiteEvent},
		"a check for a suite":                              {"check_suite", runEvent},
		"an event without a repository":                    {"issues", `{"action":"opened","issue":` + issueJSON + `,` + senderJSON + `}`},
		"an issue that is null":                            {"issues", `{"action":"opened","issue":null,` + aboutJSON + `}`},
		"a form with more than a payload":                  {"issues", "payload=" + url.QueryEscape(issueEvent) + "&payload=" + url.QueryEscape(deleted)},
		"a form that ends within a character":              {"issues", "payload=%7"},
		"a form in a text of a body that is none":          {"issues", `{"x":"&payload=` + url.QueryEscape(issueEvent)},
		"no JSON":                              {"issues", issueEvent[:len(issueEvent)-1]},
		"more than JSON":                       {"issues", issueEvent + "{}"},
		"nothing":                              {"issues", ""},
		"null":                                 {"issues", "null"},
		"a list":                               {"issues", "[]"},
		"what is nested too deeply":            {"issues", strings.Replace(issueEvent, `{`, `{"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`,`, 1)},
		"a number for a title":                 {"issues", strings.Replace(issueEvent, `"title":"It is broken"`, `"title":1`, 1)},
		"an installation that is no number":    {"issues", strings.Replace(issueEvent, `"id":4711`, `"id":"../1"`, 1)},
		"names that are longer than a context": {"push", strings.Replace(pushEvent, "refs/heads/fix", "refs/heads/"+strings.Repeat("x", 70<<10), 1)},
		"no event":                             {"", issueEvent},
	} {
		if p, err := github.Triggers().Webhook.Parse(delivery(test.kind, test.body)); err == nil || len(p.Events) != 0 || p.Lifecycle != "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	d := delivery("issues", issueEvent)
	d.Header.Add("X-GitHub-Event", "issues")
	if p, err := github.Triggers().Webhook.Parse(d); err == nil {
		t.Errorf("two headers: %+v", p)
	}
	d = delivery("issues", issueEvent)
	d.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if _, err := github.Triggers().Webhook.Parse(d); err != nil {
		t.Errorf("the type of a body is what it says, not what an unsigned header says: %v", err)
	}
}

// TestKeyWithoutID: an event without a GUID, or with one that nobody can keep, has
// no key: the same body may mean that the same happened again.
func TestKeyWithoutID(t *testing.T) {
	for _, ids := range [][]string{nil, {""}, {guid, guid}, {strings.Repeat("x", 101)}, {"a\nb"}, {"ä"}} {
		d := delivery("issues", issueEvent)
		d.Header["X-Github-Delivery"] = ids
		p, err := github.Triggers().Webhook.Parse(d)
		if err != nil || p.ID != "" || p.Signed || len(p.Events) != 1 || p.Events[0].Key != "" {
			t.Errorf("%q: %+v, %v", ids, p, err)
		}
	}
}
