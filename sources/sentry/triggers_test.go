package sentry_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sallyport/ingest/event"
	"sallyport/sources/sentry"
)

func TestFilters(t *testing.T) {
	bare := strings.NewReplacer(`"environment":"production",`, "", `"level":"error",`, "", `["environment","production"],["level","error"]`, `{"key":"environment","value":"staging"},{"key":"level","value":"fatal"}`).Replace(errorHook)
	odd := strings.NewReplacer(`"level":"error",`, `"level":"sample",`, `"environment":"production",`, "", `["environment","production"],`, "").Replace(errorHook)
	for _, test := range []struct {
		resource, body, config string
		passes                 bool
	}{
		{"issue", issueHook, ``, true},
		{"issue", issueHook, `{}`, true},
		{"issue", issueHook, `{"actions":[],"projects":[]}`, true},
		{"issue", issueHook, `{"actions":["resolved","created"]}`, true},
		{"issue", issueHook, `{"actions":["resolved"]}`, false},
		{"issue", issueHook, `{"projects":["other","Front-End"]}`, true},
		{"issue", issueHook, `{"projects":["1"]}`, true},
		{"issue", issueHook, `{"projects":["front","11","Front End"]}`, false},
		{"issue", issueHook, `{"minimum_level":"info"}`, true},
		{"issue", issueHook, `{"minimum_level":"warning"}`, true},
		{"issue", issueHook, `{"minimum_level":"error"}`, false},
		{"issue", strings.Replace(issueHook, `"project":{"id":"1"`, `"project":{"id":1`, 1), `{"projects":["1"]}`, true},
		{"event_alert", alertHook, `{"projects":["front-end"],"environments":["staging","production"],"minimum_level":"error"}`, true},
		{"event_alert", alertHook, `{"environments":["staging"]}`, false},
		{"event_alert", alertHook, `{"minimum_level":"fatal"}`, false},
		{"error", errorHook, `{"projects":["1"]}`, true},
		{"error", errorHook, `{"projects":["test-org"]}`, false},
		{"error", bare, `{"environments":["staging"],"minimum_level":"fatal"}`, true}, // its tags say so
		{"error", odd, `{"minimum_level":"debug"}`, false},
		{"error", odd, `{"environments":["production"]}`, false},
		{"error", odd, `{}`, true},
		{"error", errorHook, `{"projects":"front-end"}`, false}, // it cannot be read
	} {
		e := heard(t, test.resource, test.body)
		if got := triggerOf(t, e.Type).Matches(&e, json.RawMessage(test.config)); got != test.passes {
			t.Errorf("%s with %s: %v", test.resource, test.config, got)
		}
	}
	e := heard(t, "issue", issueHook)
	if triggerOf(t, "issue").Matches(&e, json.RawMessage(`{"minimum_level":"loud"}`)) {
		t.Error("a level that nobody knows lets everything pass")
	}
	if e.Context = json.RawMessage(`[]`); triggerOf(t, "issue").Matches(&e, nil) {
		t.Error("a context that cannot be read passes")
	}
}

// TestWhoDidIt: agents that act as an integration, or as a user of their own, do not
// start themselves.
func TestWhoDidIt(t *testing.T) {
	resolved := strings.Replace(issueHook, "created", "resolved", 1)
	by := func(actor string) string {
		return strings.Replace(resolved, `{"id":"sentry","name":"Sentry","type":"application"}`, actor, 1)
	}
	for _, test := range []struct {
		resource, body, config string
		passes                 bool
	}{
		{"issue", resolved, `{}`, true}, // Sentry itself
		{"issue", by(`{"id":7,"name":"Ada","type":"user"}`), `{}`, true},
		{"issue", by(`{"id":7,"name":"Ada","type":"user"}`), `{"ignore_actors":["ada"]}`, false},
		{"issue", by(`{"id":7,"name":"Ada","type":"user"}`), `{"ignore_actors":["7"]}`, false},
		{"issue", by(`{"id":7,"name":"Ada","type":"user"}`), `{"ignore_actors":["8"]}`, true},
		{"issue", by(`{"id":9,"name":"Gate","type":"application"}`), `{}`, false},
		{"issue", by(`{"id":9,"name":"Gate","type":"application"}`), `{"bots":true}`, true},
		{"issue", by(`{"id":9,"name":"Gate","type":"application"}`), `{"bots":true,"ignore_actors":["Gate"]}`, false},
		{"issue", by(`null`), `{"ignore_actors":["7"]}`, true},
		{"error", errorHook, `{}`, true},
	} {
		e := heard(t, test.resource, test.body)
		if got := triggerOf(t, e.Type).Matches(&e, json.RawMessage(test.config)); got != test.passes {
			t.Errorf("%s with %s: %v", e.Context, test.config, got)
		}
		if err := check(triggerOf(t, e.Type).Config, test.config); err != nil {
			t.Errorf("its schema refuses %s: %v", test.config, err)
		}
	}
}

func triggerOf(t *testing.T, id string) event.Type {
	t.Helper()
	for _, one := range sentry.Triggers().Types {
		if one.ID == id {
			return one
		}
	}
	t.Fatalf("there is no trigger %s", id)
	return event.Type{}
}

// TestLargeEvents: whatever fills an event, a filter still finds what it reads.
func TestLargeEvents(t *testing.T) {
	long := strings.Repeat(`\u0001`, 4000)
	frame := `{"filename":"` + long + `","module":"` + long + `","function":"` + long + `","in_app":true,"context_line":"` + long + `"},`
	var tags strings.Builder
	for i := range 60 {
		fmt.Fprintf(&tags, `["%d%s","%s"],`, i, long, long)
	}
	body := strings.NewReplacer(`"frames":[`, `"frames":[`+strings.Repeat(frame, 20), `"tags":[`, `"tags":[`+tags.String(), `"inner"`, `"`+long+`"`, `"culprit":"`, `"culprit":"`+long).Replace(alertHook)
	e := heard(t, "event_alert", body)
	var context struct {
		Cut    bool  `json:"_truncated"`
		Frames []any `json:"frames"`
	}
	if err := json.Unmarshal(e.Context, &context); err != nil || !context.Cut || len(context.Frames) > 10 || len(e.Context) > 64<<10 {
		t.Errorf("%d bytes, marked %v, %d frames, %v", len(e.Context), context.Cut, len(context.Frames), err)
	}
	if !triggerOf(t, e.Type).Matches(&e, json.RawMessage(`{"projects":["front-end"],"environments":["production"],"minimum_level":"error"}`)) {
		t.Error("it does not pass any more")
	}
	many := strings.Replace(alertHook, `"frames":[`, `"frames":[`+strings.Repeat(`{"filename":"old.js"},`, 20), 1)
	if e = heard(t, "event_alert", many); strings.Count(string(e.Context), "old.js") != 8 || !strings.Contains(string(e.Context), "_truncated") {
		t.Errorf("not the last ten frames: %s", e.Context)
	}
}

func FuzzParse(f *testing.F) {
	for resource, body := range map[string]string{"event_alert": alertHook, "error": errorHook, "issue": issueHook, "installation": installHook} {
		f.Add(resource, requestID, []byte(body))
	}
	f.Add("error", "", []byte(`{"action":"created","data":{"error":{"tags":[1,[],["a"],[1,2],["a",{"b":1}]],"exception":{"values":[null,{"stacktrace":{"frames":[null,1]}}]},"datetime":1}}}`))
	f.Add("error", "", []byte(`{"action":"created","data":{"error":{"threads":{"values":[{"crashed":true}]},"project":{},"url":"/api/0/projects//"}}}`))
	f.Add("issue", "", []byte(`{"action":"created","data":{"issue":{"project":[],"level":9,"firstSeen":"0000-01-01T00:00:00Z"}}}`))
	f.Add("installation", "", []byte(`{"action":[],"data":{"installation":{"uuid":1}},"installation":{"uuid":1}}`))
	f.Fuzz(func(t *testing.T, resource, id string, body []byte) {
		d := hook(resource, string(body))
		d.Header["Request-Id"] = []string{id}
		p, err := sentry.Triggers().Webhook.Parse(d)
		if err != nil {
			return
		}
		for _, e := range p.Events {
			sound(t, e)
		}
	})
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
	unseen := func(r rune) bool { return !strconv.IsPrint(r) }
	if strings.ContainsFunc(e.Title, unseen) || len([]rune(e.Title)) > 301 {
		t.Errorf("its title is %q", e.Title)
	}
	if e.URL != "" && !strings.HasPrefix(e.URL, "http") {
		t.Errorf("it links to %q", e.URL)
	}
	if _, err := e.OccurredAt.MarshalJSON(); err != nil {
		t.Error(err)
	}
	triggerOf(t, e.Type).Matches(&e, json.RawMessage(`{"projects":["x"]}`))
}
