package github_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"sallyport/ingest/event"
	"sallyport/sources/github"
)

func TestFilters(t *testing.T) {
	fork := strings.Replace(runOfFlow, `{"id":1,"full_name":"octocat/hello","fork":false}`, `{"id":2,"full_name":"eve/hello","fork":true}`, 1)
	gone := strings.Replace(runOfFlow, `{"id":1,"full_name":"octocat/hello","fork":false}`, `null`, 1)
	tag := strings.Replace(pushEvent, "refs/heads/", "refs/tags/", 1)
	for _, test := range []struct {
		kind, body, config string
		passes             bool
	}{
		{"issues", issueEvent, ``, true},
		{"issues", issueEvent, `{}`, true},
		{"issues", issueEvent, `{"actions":[],"repositories":[],"labels":[]}`, true},
		{"issues", issueEvent, `{"actions":["opened","labeled"]}`, true},
		{"issues", issueEvent, `{"actions":["opened"]}`, false},
		{"issues", issueEvent, `{"repositories":["octocat/other","Octocat/Hello"]}`, true},
		{"issues", issueEvent, `{"repositories":["octocat/*"]}`, true},
		{"issues", issueEvent, `{"repositories":["octo/*","octocat/hell"]}`, false},
		{"issues", issueEvent, `{"labels":["BUG"]}`, true},
		{"issues", issueEvent, `{"labels":["mere text"]}`, true},
		{"issues", issueEvent, `{"labels":["urgent"]}`, true}, // which was just put on, or taken off
		{"issues", issueEvent, `{"labels":["bugs","bu"]}`, false},
		{"issues", issueEvent, `{"actions":["labeled"],"labels":["other"]}`, false},
		{"pull_request", pullEvent, `{"branches":["trunk"]}`, true},
		{"pull_request", pullEvent, `{"branches":["fix/it"]}`, false}, // its base counts
		{"pull_request", pullEvent, `{"labels":["bug"]}`, false},
		{"push", pushEvent, `{"branches":["fix/*"]}`, true},
		{"push", pushEvent, `{"branches":["fix"]}`, false},
		{"push", pushEvent, `{"branches":["FIX/it"]}`, false},
		{"push", tag, `{}`, true},
		{"push", tag, `{"branches":["*"]}`, false},
		{"check_suite", suiteEvent, `{"conclusions":["failure"],"branches":["changes"]}`, true},
		{"check_suite", suiteEvent, `{"conclusions":["success"]}`, false},
		{"check_run", runEvent, `{"branches":["changes"]}`, true},
		{"check_run", runEvent, `{"conclusions":["failure","success"]}`, false}, // its suite ended so, not it
		{"workflow_run", runOfFlow, `{"conclusions":["success"],"branches":["trunk"],"actions":["completed"]}`, true},
		{"workflow_run", runOfFlow, `{"conclusions":["failure"]}`, false},
		{"workflow_run", fork, `{"branches":["trunk"]}`, false},
		{"workflow_run", fork, `{"branches":["eve:trunk"]}`, true},
		{"workflow_run", gone, `{"branches":["*"]}`, false},
		{"workflow_run", gone, `{}`, true},
		{"issues", issueEvent, `{"actions":"opened"}`, false}, // it cannot be read
	} {
		e := heard(t, test.kind, test.body)
		trigger := triggerOf(t, e.Type)
		if got := trigger.Matches(&e, json.RawMessage(test.config)); got != test.passes {
			t.Errorf("%s with %s: %v", test.kind, test.config, got)
		}
		if test.config != "" && strings.Contains(test.config, "[") {
			if err := fits(t, trigger.Config, test.config); err != nil {
				t.Errorf("%s: its schema refuses %s: %v", test.kind, test.config, err)
			}
		}
	}
	if e := (event.Event{Context: json.RawMessage(`[]`)}); triggerOf(t, "push").Matches(&e, nil) {
		t.Error("a context that cannot be read passes")
	}
}

// TestSenders: agents that act as an app, or as a user of their own, do not start
// themselves.
func TestSenders(t *testing.T) {
	bot := func(body string) string { return strings.Replace(body, `"type":"User"`, `"type":"Bot"`, -1) }
	by := func(login, body string) string {
		return bot(strings.Replace(body, `"sender":{"login":"octocat"`, `"sender":{"login":"`+login+`"`, 1))
	}
	for _, test := range []struct {
		kind, body, config string
		passes             bool
	}{
		{"issues", bot(issueEvent), `{}`, false},
		{"issues", bot(issueEvent), `{"bots":false}`, false},
		{"issues", bot(issueEvent), `{"bots":true}`, true},
		{"issues", bot(issueEvent), `{"bots":true,"ignore_senders":["octocat"]}`, false},
		{"issues", issueEvent, `{"ignore_senders":["x","OctoCat"]}`, false},
		{"issues", issueEvent, `{"ignore_senders":["octo","dependabot[bot]"]}`, true},
		{"issues", strings.Replace(issueEvent, `"sender":`+userJSON, `"sender":null`, 1), `{"ignore_senders":["octocat"]}`, true},
		{"pull_request", bot(pullEvent), `{}`, false},
		{"push", bot(pushEvent), `{}`, false},
		{"push", bot(pushEvent), `{"bots":true}`, true},
		{"workflow_run", bot(runOfFlow), `{}`, true},
		{"push", by("github-merge-queue[bot]", pushEvent), `{}`, true},
		{"push", by("github-merge-queue[bot]", pushEvent), `{"ignore_senders":["github-merge-queue[bot]"]}`, false},
		{"push", by("other-merge-queue[bot]", pushEvent), `{}`, false},
		{"pull_request", by("github-merge-queue[bot]", pullEvent), `{}`, false},
		{"check_suite", bot(suiteEvent), `{}`, true},
		{"check_run", bot(runEvent), `{}`, true},
		{"check_run", bot(runEvent), `{"ignore_senders":["octocat"]}`, false},
	} {
		e := heard(t, test.kind, test.body)
		trigger := triggerOf(t, e.Type)
		if got := trigger.Matches(&e, json.RawMessage(test.config)); got != test.passes {
			t.Errorf("%s with %s: %v", test.kind, test.config, got)
		}
		if err := fits(t, trigger.Config, test.config); err != nil {
			t.Errorf("%s: its schema refuses %s: %v", test.kind, test.config, err)
		}
	}
}

func triggerOf(t *testing.T, id string) event.Type {
	t.Helper()
	for _, one := range github.Triggers().Types {
		if one.ID == id {
			return one
		}
	}
	t.Fatalf("there is no trigger %s", id)
	return event.Type{}
}

func TestConfigsAreStrict(t *testing.T) {
	for _, one := range github.Triggers().Types {
		if one.Title == "" || one.Description == "" {
			t.Errorf("%s has no title or description", one.ID)
		}
		if err := fits(t, one.Config, `{}`); err != nil {
			t.Errorf("%s: %v", one.ID, err)
		}
		for _, config := range []string{`[]`, `{"other":1}`, `{"actions":["open"]}`, `{"repositories":["hello"]}`, `{"conclusions":["fine"]}`, `{"branches":[""]}`, `{"ignore_senders":["a b"]}`, `{"bots":1}`} {
			if fits(t, one.Config, config) == nil {
				t.Errorf("%s takes %s", one.ID, config)
			}
		}
	}
}

// TestLongTexts are cut, and a filter still finds what it reads.
func TestLongTexts(t *testing.T) {
	commits := strings.Repeat(commitJSON+",", 50) + strings.Replace(commitJSON, "In full.", strings.Repeat("\\u0001", 9000), 1)
	for kind, body := range map[string]string{
		"issues":       strings.Replace(issueEvent, "Since Monday.", strings.Repeat("\\u0001", 80<<10), 1),
		"pull_request": strings.Replace(pullEvent, `"body":null`, `"body":"`+strings.Repeat("ä", 80<<10)+`"`, 1),
		"push":         strings.Replace(pushEvent, `"commits":[`+commitJSON, `"commits":[`+commits, 1),
		"check_run":    strings.Replace(runEvent, `"summary":null`, `"summary":"`+strings.Repeat("x", 80<<10)+`"`, 1),
		"check_suite":  strings.Replace(suiteEvent, `[{"number":2,`, `[`+strings.Repeat(`{"number":3},`, 50)+`{"number":2,`, 1),
	} {
		e := heard(t, kind, body)
		var context struct {
			Cut  bool `json:"_truncated"`
			Push struct {
				Commits []struct{ Message string }
			}
		}
		if err := json.Unmarshal(e.Context, &context); err != nil || !context.Cut || len(e.Context) > 64<<10 {
			t.Errorf("%s: %d bytes, marked %v, %v", kind, len(e.Context), context.Cut, err)
		}
		if n := len(context.Push.Commits); kind == "push" && (n != 20 || !strings.Contains(context.Push.Commits[19].Message, "\x01")) {
			t.Errorf("of a push %d commits are left, and not the last ones", n)
		}
		if !triggerOf(t, e.Type).Matches(&e, json.RawMessage(`{"repositories":["octocat/hello"]}`)) {
			t.Errorf("%s does not pass any more", kind)
		}
	}
}

func TestForeignTexts(t *testing.T) {
	body := strings.Replace(issueEvent, "It is broken", `\u202e\u0007\nWorse`+strings.Repeat("x", 400), 1)
	for _, link := range []string{"javascript:alert(1)", "https://user:pass@github.com/x", "/relative", "https:opaque", "https://h/" + strings.Repeat("x", 2000), "%zz"} {
		e := heard(t, "issues", strings.Replace(body, `"html_url":"https://github.com/octocat/hello/issues/7"`, `"html_url":`+strconv.Quote(link), 1))
		if e.URL != "" {
			t.Errorf("links to %s", e.URL)
		}
		if !strings.HasPrefix(e.Title, "octocat/hello#7:    Worsexx") || len([]rune(e.Title)) > 301 {
			t.Errorf("the title is %q", e.Title)
		}
	}
}

func FuzzParse(f *testing.F) {
	for kind, body := range map[string]string{
		"issues": issueEvent, "pull_request": pullEvent, "push": pushEvent, "check_suite": suiteEvent, "check_run": runEvent,
		"workflow_run": runOfFlow, "installation": installed,
	} {
		f.Add(kind, guid, []byte(body))
		f.Add(kind, "", []byte("payload="+url.QueryEscape(body)))
	}
	f.Add("issues", "", []byte(`{"action":1,"issue":[],"repository":{},"sender":{}}`))
	f.Add("push", "", []byte(`{"ref":"x","before":"x","after":"x","repository":{"pushed_at":99999999999999},"sender":{}}`))
	f.Add("check_run", "", []byte(`{"action":"x","check_run":{"check_suite":{"check_suite":{}},"started_at":"0000-01-01T00:00:00Z"},"repository":{},"sender":{}}`))
	f.Fuzz(func(t *testing.T, kind, id string, body []byte) {
		d := &event.Delivery{Header: headers(kind, id), Body: body}
		p, err := github.Triggers().Webhook.Parse(d)
		if err != nil {
			return
		}
		for _, e := range p.Events {
			sound(t, e)
		}
	})
}

func headers(kind, id string) map[string][]string {
	return map[string][]string{"X-Github-Event": {kind}, "X-Github-Delivery": {id}}
}

// sound checks what holds of every event.
func sound(t *testing.T, e event.Event) {
	t.Helper()
	var context map[string]any
	if err := json.Unmarshal(e.Context, &context); err != nil || len(e.Context) > 64<<10 {
		t.Errorf("its context is %.200s: %v", e.Context, err)
	}
	if len(e.Key) > 100 {
		t.Errorf("its key is %q", e.Key)
	}
	if !printable(e.Title) || len([]rune(e.Title)) > 301 {
		t.Errorf("its title is %q", e.Title)
	}
	if e.URL != "" && !strings.HasPrefix(e.URL, "http") {
		t.Errorf("it links to %q", e.URL)
	}
	if _, err := e.OccurredAt.MarshalJSON(); err != nil {
		t.Error(err)
	}
	triggerOf(t, e.Type).Matches(&e, json.RawMessage(fmt.Sprintf(`{"branches":[%q]}`, e.Title)))
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}
