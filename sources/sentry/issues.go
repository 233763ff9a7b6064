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
		pageParams
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
	setParam(q, "project", p.Project)
	setParam(q, "sort", p.Sort)
	q["collapse"] = []string{"stats"} // skip hourly counts
	missing := fmt.Sprintf("There is no organization %q that this connection sees; check organization_slug.", org)
	if p.Project != "" {
		missing = fmt.Sprintf("There is no project %q in the organization %q that this connection sees; check project_slug, or leave it out.", p.Project, org)
	}
	return list(ctx, c, request{path: []string{"organizations", org, "issues"}, query: q, scope: "event:read", missing: missing}, compactIssue)
}

// values returns the query of a page. The name of the page size parameter
// varies by endpoint.
func (p pageParams) values(size string) url.Values {
	q := url.Values{size: {"25"}}
	if p.Limit != nil {
		q.Set(size, p.Limit.String())
	}
	if p.Query != nil {
		q.Set("query", *p.Query) // an empty query differs from the default
	}
	setParam(q, "environment", p.Environment)
	setParam(q, "statsPeriod", p.Period)
	setParam(q, "cursor", p.Cursor)
	return q
}

func setParam(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// list returns a page of a list, with its items mapped by f.
func list(ctx context.Context, c *sources.Conn, a request, f func(object) object) (json.RawMessage, error) {
	var page []any
	h, err := send(ctx, c, a, &page)
	if err != nil {
		return nil, err
	}
	s := &compactor{}
	answer := object{"items": s.first(page, len(page), f)}
	putNonEmpty(answer, "next_cursor", nextCursor(h))
	return s.encode(answer)
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
		pageParams
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	at, err := resolveIssue(ctx, c, p.target)
	if err != nil {
		return nil, err
	}
	q := url.Values{"collapse": {"stats"}}
	setParam(q, "environment", p.Environment)
	var issue object
	if _, err := send(ctx, c, request{path: at.path(), query: q, scope: "event:read", missing: at.missing()}, &issue); err != nil {
		return nil, err
	}
	s := &compactor{}
	return s.encode(s.fullIssue(issue))
}

// issueRef identifies an issue. Requested is the ID or short ID in the params.
type issueRef struct{ organization, id, requested string }

func (p issueRef) path(more ...string) []string {
	return append([]string{"organizations", p.organization, "issues", p.id}, more...)
}

func (p issueRef) missing() string {
	return fmt.Sprintf("There is no issue %q in the organization %q that this connection sees; list the issues to see their ids.", p.requested, p.organization)
}

// resolveIssue returns the issue of a call. Sentry's paths accept numeric IDs
// only, so short IDs are looked up.
func resolveIssue(ctx context.Context, c *sources.Conn, t target) (issueRef, error) {
	org, err := organization(c, t.Organization)
	if err != nil {
		return issueRef{}, err
	}
	p := issueRef{organization: org, id: t.Issue, requested: t.Issue}
	if strings.Trim(t.Issue, "0123456789") == "" {
		return p, nil
	}
	var found struct {
		ID string `json:"groupId"`
	}
	if _, err := send(ctx, c, request{path: []string{"organizations", org, "shortids", t.Issue}, scope: "event:read", missing: p.missing()}, &found); err != nil {
		return issueRef{}, err
	}
	if p.id = found.ID; p.id == "" {
		return issueRef{}, invalidResponse(c, nil)
	}
	return p, nil
}

// compactIssue returns an issue as in lists.
func compactIssue(in object) object {
	out := pick(in, "id", "shortId", "title", "culprit", "level", "status", "substatus", "statusDetails", "priority",
		"platform", "issueType", "isUnhandled", "count", "userCount", "firstSeen", "lastSeen", "permalink")
	putNonEmpty(out, "project", pick(asObject(in["project"]), "id", "slug"))
	putNonEmpty(out, "assignedTo", pick(asObject(in["assignedTo"]), "type", "id", "name", "email"))
	putNonEmpty(out, "metadata", pick(asObject(in["metadata"]), "type", "value", "filename", "function"))
	return out
}

// fullIssue returns the result of get_issue.
func (s *compactor) fullIssue(in object) object {
	out := compactIssue(in)
	for name, v := range pick(in, "hasSeen", "isBookmarked", "numComments", "userReportCount", "annotations") {
		out[name] = v
	}
	putNonEmpty(out, "firstRelease", asObject(in["firstRelease"])["version"])
	putNonEmpty(out, "lastRelease", asObject(in["lastRelease"])["version"])
	putNonEmpty(out, "tags", s.first(in["tags"], 30, func(tag object) object {
		t := pick(tag, "key", "totalValues")
		putNonEmpty(t, "topValues", s.first(tag["topValues"], 5, func(v object) object { return pick(v, "value", "count") }))
		return t
	}))
	putNonEmpty(out, "activity", s.first(in["activity"], 20, func(a object) object {
		t := pick(a, "type", "dateCreated", "data")
		putNonEmpty(t, "user", asObject(a["user"])["name"])
		return t
	}))
	return out
}
