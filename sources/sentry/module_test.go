package sentry_test

import (
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/action"
	"sallyport/sources/sentry"
)

func check(schema json.RawMessage, params string) error {
	var s, p any
	if err := json.Unmarshal(schema, &s); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///s", s); err != nil {
		return err
	}
	compiled, err := c.Compile("mem:///s")
	if err != nil {
		return err
	}
	return compiled.Validate(p)
}

func TestExamplesFit(t *testing.T) {
	for _, a := range sentry.Module().Actions {
		if len(a.Examples) == 0 {
			t.Errorf("%s has no example", a.Name)
		}
		for _, e := range a.Examples {
			if err := check(a.Input, string(e.Params)); err != nil {
				t.Errorf("%s: %s: %v", a.Name, e.Params, err)
			}
		}
	}
}

func TestParamsThatDoNotFit(t *testing.T) {
	for _, c := range []struct{ action, params string }{
		{"list_issues", `{"limit": 51}`},
		{"list_issues", `{"limit": 0}`},
		{"list_issues", `{"statsPeriod": "24 hours"}`},
		{"list_issues", `{"sort": "oldest"}`},
		{"list_issues", `{"unknown": 1}`},
		{"get_issue", `{}`},
		{"get_issue", `{"issue_id": "../../projects"}`},
		{"get_issue", `{"issue_id": ""}`},
		{"get_event", `{"issue_id": "1"}`},
		{"get_event", `{"issue_id": "1", "event_id": "newest"}`},
		{"update_issue", `{"issue_id": "1", "status": "muted"}`},
		{"update_issue", `{"issue_id": "1", "discard": true}`},
		{"update_issue", `{"issue_id": "1", "statusDetails": {}}`},
		{"update_issue", `{"issue_id": "1", "statusDetails": {"ignoreWindow": 10081}}`},
		{"update_issue", `{"issue_id": "1", "priority": "urgent"}`},
	} {
		for _, a := range sentry.Module().Actions {
			if a.Name == c.action && check(a.Input, c.params) == nil {
				t.Errorf("%s takes %s", c.action, c.params)
			}
		}
	}
}

func TestChoose(t *testing.T) {
	of := func(settings string) action.Integration {
		return action.Integration{Settings: json.RawMessage(settings)}
	}
	both := []action.Integration{of(acme), of(`{"organization":"beta"}`), {}}
	for _, c := range []struct {
		params string
		among  []action.Integration
		want   int
	}{
		{`{"organization_slug":"beta"}`, both, 1},
		{`{"organization_slug":"ACME"}`, both, 0},
		{`{"organization_slug":"gamma"}`, both, -1},
		{`{}`, both, -1},
		{`{"organization_slug":"acme"}`, []action.Integration{of(acme), of(acme)}, -1},
	} {
		if got := sentry.Module().Choose(json.RawMessage(c.params), c.among); got != c.want {
			t.Errorf("%s: got %d, want %d", c.params, got, c.want)
		}
	}
}

func TestSummaries(t *testing.T) {
	for _, c := range []struct{ action, params, want string }{
		{
			"update_issue", `{"priority":"high","issue_id":"WEB-1A","statusDetails":{"inRelease":"1.4.3"},"status":"resolved","assignedTo":"","hasSeen":true,"isBookmarked":false}`,
			`Change Sentry issue WEB-1A: status "resolved", statusDetails {"inRelease":"1.4.3"}, assignedTo "", priority "high", hasSeen true, isBookmarked false`,
		},
		{
			"update_issue", `{"issue_id":"1","organization_slug":"acme: status \u202ex","hasSeen":true}`,
			`Change Sentry issue 1 of "acme: status  x": hasSeen true`,
		},
		{"list_issues", `{}`, `List Sentry issues`},
		{"list_issues", `{"organization_slug":"acme","query":"is:\"x\"","limit":5}`, `List Sentry issues of acme: query "is:\"x\"", limit 5`},
		{"get_issue", `{"issue_id":"WEB-1A"}`, `Read Sentry issue WEB-1A`},
		{"list_issue_events", `{"issue_id":"1","query":"a"}`, `List the events of Sentry issue 1: query "a"`},
		{"get_event", `{"issue_id":"1","event_id":"latest"}`, `Read an event of Sentry issue 1: event_id "latest"`},
		{"get_event", `[]`, `Read an event of something at Sentry`},
	} {
		for _, a := range sentry.Module().Actions {
			if a.Name != c.action {
				continue
			}
			if got := a.Summarize(json.RawMessage(c.params)); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", a.Name, got, c.want)
			}
		}
	}
}
