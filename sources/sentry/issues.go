package sentry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

func listIssues() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "list_issues", Title: "List issues", Risk: action.RiskRead, Idempotent: true,
		Description: "Lists issues of the organization, unresolved ones unless query says otherwise, with counts and when they were last seen.",
		Input: schema("", propOrganization,
			`"project_slug": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Only of this project: its slug, or its numeric id. Leave it out for all projects."}`,
			`"query": {"type": "string", "maxLength": 2000, "default": "is:unresolved", "description": "Sentry's issue search, such as \"is:unresolved level:error\" or words of the message. Empty: all issues."}`,
			`"sort": {"type": "string", "enum": ["date", "new", "freq", "user", "trends", "inbox", "recommended"], "default": "date", "description": "By last seen (date), first seen (new), events (freq), users (user) and so on."}`,
			propPeriod, propEnvironment, propLimit, propCursor),
		Summarize: summary("List", "project_slug", "query", "sort", "statsPeriod", "environment", "limit", "cursor"),
		Examples: []sources.Example{
			{Note: "What is new and unresolved in one project", Params: json.RawMessage(`{"project_slug": "web", "sort": "new", "limit": 10}`)},
			{Note: "Errors of production in the last day", Params: json.RawMessage(`{"query": "is:unresolved level:error", "environment": "production", "statsPeriod": "24h", "sort": "freq"}`)},
		},
		Run: runListIssues,
	}
}

func runListIssues(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		target
		page
		Project string `json:"project_slug"`
		Sort    string `json:"sort"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	org, err := organization(c, p.Organization)
	if err != nil {
		return nil, err
	}
	q := p.values("limit")
	if p.Query == nil {
		q.Set("query", "is:unresolved")
	}
	set(q, "project", p.Project)
	set(q, "sort", p.Sort)
	q["collapse"] = []string{"stats"} // hourly counts, which nobody reads here
	missing := fmt.Sprintf("There is no organization %q that this connection sees; check organization_slug.", org)
	if p.Project != "" {
		missing = fmt.Sprintf("There is no project %q in the organization %q that this connection sees; check project_slug, or leave it out.", p.Project, org)
	}
	return list(ctx, c, ask{path: []string{"organizations", org, "issues"}, query: q, scope: "event:read", missing: missing}, compactIssue)
}

// values are the query of a page; Sentry calls its size otherwise in different
// places.
func (p page) values(size string) url.Values {
	q := url.Values{size: {"25"}}
	if p.Limit != nil {
		q.Set(size, p.Limit.String())
	}
	if p.Query != nil {
		q.Set("query", *p.Query) // empty is another thing than none
	}
	set(q, "environment", p.Environment)
	set(q, "statsPeriod", p.Period)
	set(q, "cursor", p.Cursor)
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// list asks for a page and answers with its items, each made by f.
func list(ctx context.Context, c *sources.Conn, a ask, f func(object) object) (json.RawMessage, error) {
	var page []any
	h, err := send(ctx, c, a, &page)
	if err != nil {
		return nil, err
	}
	s := &shortened{}
	answer := object{"items": s.first(page, len(page), f)}
	put(answer, "next_cursor", next(h))
	return s.json(answer)
}

func getIssue() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "get_issue", Title: "Get an issue", Risk: action.RiskRead, Idempotent: true,
		Description: "Reads one issue: state, assignee, releases, tags and what was done to it lately.",
		Input:       schema(`"issue_id"`, propIssue, propOrganization, propEnvironment),
		Summarize:   summary("Read", "environment"),
		Examples:    []sources.Example{{Params: json.RawMessage(`{"issue_id": "WEB-1A"}`)}},
		Run:         runGetIssue,
	}
}

func runGetIssue(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		target
		page
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	at, err := find(ctx, c, p.target)
	if err != nil {
		return nil, err
	}
	q := url.Values{"collapse": {"stats"}}
	set(q, "environment", p.Environment)
	var issue object
	if _, err := send(ctx, c, ask{path: at.path(), query: q, scope: "event:read", missing: at.missing()}, &issue); err != nil {
		return nil, err
	}
	s := &shortened{}
	return s.json(s.wholeIssue(issue))
}

// place is an issue at Sentry.
type place struct{ organization, id, named string }

func (p place) path(more ...string) []string {
	return append([]string{"organizations", p.organization, "issues", p.id}, more...)
}

func (p place) missing() string {
	return fmt.Sprintf("There is no issue %q in the organization %q that this connection sees; list the issues to see their ids.", p.named, p.organization)
}

// find returns where the issue of a call is. Sentry's paths take numeric ids
// alone; short ones are looked up.
func find(ctx context.Context, c *sources.Conn, t target) (place, error) {
	org, err := organization(c, t.Organization)
	if err != nil {
		return place{}, err
	}
	p := place{organization: org, id: t.Issue, named: t.Issue}
	if strings.Trim(t.Issue, "0123456789") == "" {
		return p, nil
	}
	var found struct {
		ID string `json:"groupId"`
	}
	if _, err := send(ctx, c, ask{path: []string{"organizations", org, "shortids", t.Issue}, scope: "event:read", missing: p.missing()}, &found); err != nil {
		return place{}, err
	}
	if p.id = found.ID; p.id == "" {
		return place{}, notSentry(c, nil)
	}
	return p, nil
}

// compactIssue is what a list shows of an issue.
func compactIssue(in object) object {
	out := pick(in, "id", "shortId", "title", "culprit", "level", "status", "substatus", "statusDetails", "priority",
		"platform", "issueType", "isUnhandled", "count", "userCount", "firstSeen", "lastSeen", "permalink")
	put(out, "project", pick(as(in["project"]), "id", "slug"))
	put(out, "assignedTo", pick(as(in["assignedTo"]), "type", "id", "name", "email"))
	put(out, "metadata", pick(as(in["metadata"]), "type", "value", "filename", "function"))
	return out
}

// wholeIssue is what there is to know of one issue.
func (s *shortened) wholeIssue(in object) object {
	out := compactIssue(in)
	for name, v := range pick(in, "hasSeen", "isBookmarked", "numComments", "userReportCount", "annotations") {
		out[name] = v
	}
	put(out, "firstRelease", as(in["firstRelease"])["version"])
	put(out, "lastRelease", as(in["lastRelease"])["version"])
	put(out, "tags", s.first(in["tags"], 30, func(tag object) object {
		t := pick(tag, "key", "totalValues")
		put(t, "topValues", s.first(tag["topValues"], 5, func(v object) object { return pick(v, "value", "count") }))
		return t
	}))
	put(out, "activity", s.first(in["activity"], 20, func(a object) object {
		t := pick(a, "type", "dateCreated", "data")
		put(t, "user", as(a["user"])["name"])
		return t
	}))
	return out
}
