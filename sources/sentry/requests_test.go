package sentry_test

import (
	"fmt"
	"testing"
)

// TestRequests compares what is sent, and what agents get of the answer, with
// golden files.
func TestRequests(t *testing.T) {
	issue, event := saved(t, "answers", "issue.json"), saved(t, "answers", "event.json")
	short := answer{body: `{"organizationSlug":"acme","projectSlug":"web","groupId":"4711","group":{},"shortId":"WEB-1A"}`}
	const base = "/api/0/organizations/acme/"
	answers := map[string]answer{
		"GET " + base + "issues/":                                              {body: "[" + issue + "]"},
		"GET " + base + "issues/4711/":                                         {body: issue},
		"PUT " + base + "issues/4711/":                                         {body: issue},
		"GET " + base + "shortids/WEB-1A/":                                     short,
		"GET " + base + "issues/4711/events/":                                  {body: "[" + event + "]"},
		"GET " + base + "issues/4711/events/latest/":                           {body: event},
		"GET " + base + "issues/4711/events/0f0e0d0c0b0a09080706050403020100/": {body: event},
	}
	for _, c := range []struct{ name, action, params string }{
		{"list_issues", "list_issues", `{}`},
		{"list_issues_filtered", "list_issues", `{"organization_slug":"acme","project_slug":"web","query":"level:error & <x>","sort":"freq","statsPeriod":"24h","environment":"production","limit":50,"cursor":"0:50:0"}`},
		{"list_issues_all", "list_issues", `{"query":""}`},
		{"get_issue", "get_issue", `{"issue_id":"4711","environment":"production"}`},
		{"get_issue_short", "get_issue", `{"issue_id":"WEB-1A"}`},
		{"list_issue_events", "list_issue_events", `{"issue_id":"4711"}`},
		{"list_issue_events_filtered", "list_issue_events", `{"issue_id":"4711","query":"release:1.4.2","statsPeriod":"14d","environment":"production","limit":5,"cursor":"0:5:0"}`},
		{"get_event", "get_event", `{"issue_id":"4711","event_id":"latest","environment":"production"}`},
		{"get_event_by_id", "get_event", `{"issue_id":"4711","event_id":"0f0e0d0c0b0a09080706050403020100"}`},
		{"update_issue_resolve", "update_issue", `{"issue_id":"WEB-1A","status":"resolved","statusDetails":{"inCommit":{"commit":"abc123","repository":"acme/web"}}}`},
		{"update_issue_ignore", "update_issue", `{"issue_id":"4711","status":"ignored","statusDetails":{"ignoreDuration":1440,"ignoreCount":10,"ignoreWindow":60,"ignoreUserCount":3,"ignoreUserWindow":60}}`},
		{"update_issue_assign", "update_issue", `{"issue_id":"4711","assignedTo":"","priority":"high","hasSeen":true,"isBookmarked":false,"organization_slug":"acme"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, answers)
			got, err := run(t, s.conn(t, "", acme), c.action, c.params)
			if err != nil {
				t.Fatal(err)
			}
			for i, asked := range s.asked {
				golden(t, fmt.Sprintf("requests/%s.%d.http", c.name, i+1), asked)
			}
			golden(t, "results/"+c.action+".json", pretty(t, got))
		})
	}
}
