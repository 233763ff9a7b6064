// Package linear implements the Linear module: issues of a workspace, over the
// GraphQL API.
//
// Agent input is passed as GraphQL variables only. Creating an issue or a
// comment is idempotent under retries, because the client chooses its ID. A
// call succeeds only if Linear says so, whatever the HTTP status. An issue is
// returned in at most 60 KiB, with a marker where it is truncated. Triggers
// receive changes by webhook, or by polling for issues. The module keeps no
// state.
package linear

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"net/url"

	"sallyport/action"
	"sallyport/sources"
)

//go:embed guide.md
var guide string

// Module returns the Linear module.
func Module() *sources.Module {
	return &sources.Module{
		ID:        "linear",
		Workspace: true,
		Title:     "Linear",
		About:     "Reads, creates and changes issues of a Linear workspace, and comments on them.",
		Guide:     guide,
		BaseURL:   "https://api.linear.app",
		Needs: []sources.Need{
			{
				Kind: action.KindOAuth2, Users: true, Preset: "linear", Scopes: []string{"read", "write"},
				Hint: "Sign in at Linear as somebody who may see the teams that agents are to work in.",
			},
			{
				Kind: action.KindAPIKey, Users: true,
				Hint: "Make a personal API key in Linear under Settings, Security & access; it acts as the person who made it.",
			},
		},
		Actions:  []sources.ModuleAction{listAction(), getAction(), createAction(), updateAction(), commentAction()},
		Account:  account,
		Metadata: metadata,
		Poll:     poll,
	}
}

// account returns the workspace of the credential. An organization has one
// integration per workspace.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	data, err := do(ctx, c, operation{"Viewer", inputObject{}, true})
	if err != nil {
		return sources.Account{}, err
	}
	workspace, err := decodeField[struct{ ID, Name, URLKey string }](data, "organization")
	return sources.Account{ID: workspace.ID, Name: cmp.Or(workspace.Name, workspace.URLKey)}, err
}

// metadata returns the options for forms. With a team (ID or key) in the query,
// they are limited to that team's issues.
func metadata(ctx context.Context, c *sources.Conn, q url.Values) (any, error) {
	variables := inputObject{}
	if team := q.Get("team"); team != "" {
		filter := teamFilter(team)
		variables = inputObject{
			"states":   inputObject{"team": filter},
			"labels":   inputObject{"or": []inputObject{{"team": filter}, {"team": inputObject{"null": true}}}}, // those of the workspace apply to every team
			"projects": inputObject{"accessibleTeams": inputObject{"some": filter}},
		}
	}
	data, err := do(ctx, c, operation{"Metadata", variables, true})
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	var more []string
	for _, name := range []string{"teams", "states", "labels", "users", "projects"} {
		p, err := decodeField[page[map[string]any]](data, name)
		if err != nil {
			return nil, err
		}
		if out[name] = p.Items; p.NextCursor != nil {
			more = append(more, name)
		}
	}
	out["incomplete"] = append([]string{}, more...)
	return out, nil
}

func listAction() sources.ModuleAction {
	return sources.ModuleAction{
		Name:        "list_issues",
		Title:       "List issues",
		Description: "Lists the issues of the Linear workspace that match all filters, newest first. Returns {items, next_cursor}; get_issue returns descriptions and comments.",
		Risk:        action.RiskRead,
		Idempotent:  true,
		Input: json.RawMessage(`{
			"type": "object",
			"additionalProperties": false,
			"properties": {
				"teamId": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Only issues of this team: its ID, or its key such as ENG."},
				"projectId": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$", "description": "Only issues of this project: its ID."},
				"state": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Only issues in this state: its name (In Progress), type (triage, backlog, unstarted, started, completed, canceled, duplicate) or ID."},
				"assignee": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Only issues assigned to this user: me (the owner of the credential), an email address, a name or an ID; none for unassigned issues."},
				"label": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Only issues with this label: its name or ID."},
				"priority": {"type": "integer", "minimum": 0, "maximum": 4, "description": "0 none, 1 urgent, 2 high, 3 medium, 4 low."},
				"query": {"type": "string", "minLength": 1, "maxLength": 300, "description": "Only issues with this text in the title or description; case is ignored."},
				"updatedAfter": {"type": "string", "pattern": "^([0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+(Z|[+-][0-9:]+))?|-P[0-9A-Z]+)$", "description": "Only issues changed since an ISO 8601 time (2026-11-01T00:00:00Z) or a duration before now (-P7D)."},
				"includeArchived": {"type": "boolean", "description": "Whether to include archived issues."},
				"orderBy": {"enum": ["createdAt", "updatedAt"], "description": "Sort by this time, newest first. Default: createdAt."},
				"first": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Maximum number. Default: 25."},
				"after": {"type": "string", "minLength": 1, "maxLength": 300, "description": "next_cursor of the previous result, with the same filters."}
			}
		}`),
		Summarize: summarizeList,
		Examples: []sources.Example{
			{Note: "A team's issues in progress", Params: json.RawMessage(`{"teamId":"ENG","state":"started","first":20}`)},
			{Note: "Changes of this week on a topic", Params: json.RawMessage(`{"query":"login","updatedAfter":"-P7D","orderBy":"updatedAt"}`)},
			{Note: "Your own urgent bugs", Params: json.RawMessage(`{"assignee":"me","label":"Bug","priority":1}`)},
		},
		Run: sources.Handler(listIssues),
	}
}

func getAction() sources.ModuleAction {
	return sources.ModuleAction{
		Name:        "get_issue",
		Title:       "Get an issue",
		Description: "Returns one Linear issue with description, sub-issues, attachments, comments (50 per page, oldest first within a page; comments.next_cursor leads to earlier ones) and the states that it can move to. Long texts are truncated and marked with _truncated.",
		Risk:        action.RiskRead,
		Idempotent:  true,
		Input: json.RawMessage(`{
			"type": "object",
			"required": ["issueId"],
			"additionalProperties": false,
			"properties": {
				"issueId": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The issue's identifier, such as ENG-123, or its ID."},
				"commentsAfter": {"type": "string", "minLength": 1, "maxLength": 300, "description": "comments.next_cursor of the previous result."}
			}
		}`),
		Summarize: summarizeGet,
		Examples:  []sources.Example{{Note: "By identifier", Params: json.RawMessage(`{"issueId":"ENG-123"}`)}},
		Run:       sources.Handler(getIssue),
	}
}

func createAction() sources.ModuleAction {
	return sources.ModuleAction{
		Name:        "create_issue",
		Title:       "Create an issue",
		Description: "Creates a Linear issue and returns it with its identifier and URL. A repeated call creates another issue: first check with list_issues that it does not exist yet.",
		Risk:        action.RiskWrite,
		AsUser:      true,
		Input: json.RawMessage(`{
			"type": "object",
			"required": ["teamId", "title"],
			"additionalProperties": false,
			"properties": {
				"teamId": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The team's ID, or its key such as ENG."},
				"title": {"type": "string", "minLength": 1, "maxLength": 512, "description": "One line."},
				"description": {"type": "string", "maxLength": 100000, "description": "Markdown."},
				"stateId": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$", "description": "A state of this team. Default: the team's default state."},
				"assigneeId": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$", "description": "A user's ID. Default: unassigned."},
				"priority": {"type": "integer", "minimum": 0, "maximum": 4, "description": "0 none, 1 urgent, 2 high, 3 medium, 4 low."},
				"labelIds": {"type": "array", "maxItems": 50, "uniqueItems": true, "items": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$"}, "description": "IDs of labels of this team or the workspace."},
				"projectId": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$", "description": "A project's id."}
			}
		}`),
		Summarize: summarizeCreate,
		Examples: []sources.Example{
			{Note: "Only required fields", Params: json.RawMessage(`{"teamId":"ENG","title":"Login fails after a password reset"}`)},
			{Note: "All fields", Params: json.RawMessage(`{"teamId":"9cfb482a-81e3-4154-b5b9-2c805e70a02d","title":"Login fails after a password reset","description":"1. Reset the password\n2. Log in\n\nThe answer is 500.","priority":2,"labelIds":["0f2a7b1c-5d3e-4c6f-8a9b-1c2d3e4f5a6b"]}`)},
		},
		Run: createIssue,
	}
}

func updateAction() sources.ModuleAction {
	return sources.ModuleAction{
		Name:        "update_issue",
		Title:       "Change an issue",
		Description: "Changes a Linear issue and returns it. Fields that you leave out stay unchanged.",
		Risk:        action.RiskWrite,
		Idempotent:  true,
		AsUser:      true,
		Input: json.RawMessage(`{
			"type": "object",
			"required": ["issueId"],
			"minProperties": 2,
			"additionalProperties": false,
			"properties": {
				"issueId": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The issue's identifier, such as ENG-123, or its ID."},
				"title": {"type": "string", "minLength": 1, "maxLength": 512, "description": "One line."},
				"description": {"type": "string", "maxLength": 100000, "description": "Markdown; replaces the whole description."},
				"stateId": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$", "description": "A state of the issue's team; get_issue lists them."},
				"assigneeId": {"type": ["string", "null"], "pattern": "^[0-9a-fA-F-]{36}$", "description": "A user's ID; null to unassign."},
				"priority": {"type": "integer", "minimum": 0, "maximum": 4, "description": "0 none, 1 urgent, 2 high, 3 medium, 4 low."},
				"projectId": {"type": ["string", "null"], "pattern": "^[0-9a-fA-F-]{36}$", "description": "A project's ID; null removes the issue from its project."},
				"addedLabelIds": {"type": "array", "minItems": 1, "maxItems": 50, "uniqueItems": true, "items": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$"}, "description": "IDs of labels to add; other labels stay."},
				"removedLabelIds": {"type": "array", "minItems": 1, "maxItems": 50, "uniqueItems": true, "items": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$"}, "description": "IDs of labels to remove."}
			}
		}`),
		Summarize: summarizeUpdate,
		Examples: []sources.Example{
			{Note: "Move it to another state", Params: json.RawMessage(`{"issueId":"ENG-123","stateId":"3a1c2f6e-7b8d-4e9f-a0b1-c2d3e4f5a6b7"}`)},
			{Note: "Unassign it and swap labels", Params: json.RawMessage(`{"issueId":"ENG-123","assigneeId":null,"addedLabelIds":["0f2a7b1c-5d3e-4c6f-8a9b-1c2d3e4f5a6b"],"removedLabelIds":["1e3b8c2d-6f4a-4d7e-9b0c-2d3e4f5a6b7c"]}`)},
		},
		Run: updateIssue,
	}
}

func commentAction() sources.ModuleAction {
	return sources.ModuleAction{
		Name:        "add_comment",
		Title:       "Comment on an issue",
		Description: "Adds a comment to a Linear issue and returns its ID and URL. A repeated call adds another comment.",
		Risk:        action.RiskWrite,
		AsUser:      true,
		Input: json.RawMessage(`{
			"type": "object",
			"required": ["issueId", "body"],
			"additionalProperties": false,
			"properties": {
				"issueId": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The issue's identifier, such as ENG-123, or its ID."},
				"body": {"type": "string", "minLength": 1, "maxLength": 100000, "pattern": "\\S", "description": "Markdown."},
				"parentId": {"type": "string", "pattern": "^[0-9a-fA-F-]{36}$", "description": "The ID of the comment to reply to. Default: a new thread."}
			}
		}`),
		Summarize: summarizeComment,
		Examples:  []sources.Example{{Note: "A finding", Params: json.RawMessage(`{"issueId":"ENG-123","body":"Reproduced on main; the fix is in review."}`)}},
		Run:       addComment,
	}
}
