package sentry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

func listIssues() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "list_issues", Title: "List issues", Risk: action.RiskRead, Idempotent: true,
		Description: "Lists issues of the organization, unresolved ones by default, with counts and the time when each was last seen.",
		Input: schema("", propOrganization,
			`"project_slug": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Only this project: its slug or numeric ID. Default: all projects."}`,
			`"query": {"type": "string", "maxLength": 2000, "default": "is:unresolved", "description": "Sentry's issue search, such as \"is:unresolved level:error\" or words of the message. Empty: all issues."}`,
			`"sort": {"type": "string", "enum": ["date", "new", "freq", "user", "trends", "inbox", "recommended"], "default": "date", "description": "Order: last seen (date), first seen (new), events (freq), users (user) and others."}`,
			propPeriod, propEnvironment, propLimit, propCursor),
		Summarize: summary("List", "project_slug", "query", "sort", "statsPeriod", "environment", "limit", "cursor"),
		Examples: []sources.Example{
			{Note: "New unresolved issues of a project", Params: json.RawMessage(`{"project_slug": "web", "sort": "new", "limit": 10}`)},
			{Note: "Errors of production in the last day", Params: json.RawMessage(`{"query": "is:unresolved level:error", "environment": "production", "statsPeriod": "24h", "sort": "freq"}`)},
		},
		Run: sources.Handler(runListIssues),
	}
}

type listParams struct {
	target
	pageParams
	Project string `json:"project_slug"`
	Sort    string `json:"sort"`
}

func runListIssues(ctx context.Context, c *sources.Conn, p listParams) (json.RawMessage, error) {
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
		Description: "Reads one issue: state, assignee, releases, tags and recent activity.",
		Input:       schema(`"issue_id"`, propIssue, propOrganization, propEnvironment),
		Summarize:   summary("Read", "environment"),
		Examples:    []sources.Example{{Params: json.RawMessage(`{"issue_id": "WEB-1A"}`)}},
		Run:         sources.Handler(runGetIssue),
	}
}

func runGetIssue(ctx context.Context, c *sources.Conn, p listParams) (json.RawMessage, error) {
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

func updateIssue() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "update_issue", Title: "Change an issue", Risk: action.RiskWrite, Idempotent: true, AsUser: true,
		Description: "Changes an issue: resolves, reopens or ignores it, assigns it, sets its priority. Fields that you leave out stay unchanged.",
		Input: schema(`"issue_id"`, propIssue, propOrganization,
			`"status": {"type": "string", "enum": ["resolved", "resolvedInNextRelease", "unresolved", "ignored"], "description": "New status; ignored is what Sentry's pages call archived."}`,
			propStatusDetails,
			`"assignedTo": {"type": "string", "maxLength": 200, "description": "Who has it: \"user:<id>\", \"team:<id>\", a username or an e-mail address. Empty: nobody."}`,
			`"priority": {"type": "string", "enum": ["low", "medium", "high"]}`,
			`"hasSeen": {"type": "boolean", "description": "Whether the connection's user has seen it."}`,
			`"isBookmarked": {"type": "boolean", "description": "Whether the connection's user has bookmarked it."}`),
		Summarize: summary("Change", mutableParams[:]...),
		Examples: []sources.Example{
			{Note: "Resolved by a release", Params: json.RawMessage(`{"issue_id": "WEB-1A", "status": "resolved", "statusDetails": {"inRelease": "1.4.3"}}`)},
			{Note: "Ignored for a day", Params: json.RawMessage(`{"issue_id": "WEB-1A", "status": "ignored", "statusDetails": {"ignoreDuration": 1440}}`)},
			{Note: "Assign it", Params: json.RawMessage(`{"issue_id": "4711", "assignedTo": "ada@example.com", "priority": "high"}`)},
		},
		Run: runUpdateIssue,
	}
}

const propStatusDetails = `"statusDetails": {
  "type": "object", "additionalProperties": false, "minProperties": 1,
  "description": "With status resolved: inRelease, inNextRelease or inCommit. With status ignored: until when.",
  "properties": {
    "inRelease": {"type": "string", "minLength": 1, "maxLength": 250, "description": "Version that resolves it, or \"latest\"."},
    "inNextRelease": {"type": "boolean"},
    "inCommit": {
      "type": "object", "additionalProperties": false, "required": ["commit", "repository"],
      "properties": {
        "commit": {"type": "string", "minLength": 1, "maxLength": 64, "description": "SHA."},
        "repository": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Its name in Sentry, such as \"acme/web\"."}
      }
    },
    "ignoreDuration": {"type": "integer", "minimum": 1, "description": "Minutes."},
    "ignoreCount": {"type": "integer", "minimum": 1, "description": "Until this number of events, within ignoreWindow if it is set."},
    "ignoreWindow": {"type": "integer", "minimum": 1, "maximum": 10080, "description": "Minutes."},
    "ignoreUserCount": {"type": "integer", "minimum": 1, "description": "Until this number of affected users, within ignoreUserWindow if it is set."},
    "ignoreUserWindow": {"type": "integer", "minimum": 1, "maximum": 10080, "description": "Minutes."}
  }
}`

// mutableParams lists the params that change an issue, in the order of
// summaries.
var mutableParams = [...]string{"status", "statusDetails", "assignedTo", "priority", "hasSeen", "isBookmarked"}

func runUpdateIssue(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var t target
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(params, &t), json.Unmarshal(params, &all)); err != nil {
		return nil, err
	}
	set := map[string]json.RawMessage{}
	for _, name := range mutableParams {
		if v, ok := all[name]; ok {
			set[name] = v
		}
	}
	if len(set) == 0 {
		return nil, refuse("nothing_to_change", "Name what is to change: "+strings.Join(mutableParams[:], ", ")+".")
	}
	at, err := resolveIssue(ctx, c, t)
	if err != nil {
		return nil, sources.AsNotExecuted(err)
	}
	body, err := sources.Encode(set)
	if err != nil {
		return nil, err
	}
	var issue object
	if _, err := send(ctx, c, request{method: http.MethodPut, path: at.path(), body: body, scope: "event:write", missing: at.missing()}, &issue); err != nil {
		return nil, err
	}
	answer := compactIssue(issue)
	for name, v := range pick(issue, "hasSeen", "isBookmarked") {
		answer[name] = v
	}
	return (&compactor{}).encode(answer)
}
