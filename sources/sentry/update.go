package sentry

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

func updateIssue() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "update_issue", Title: "Change an issue", Risk: action.RiskWrite, Idempotent: true, AsUser: true,
		Description: "Changes an issue: resolves, reopens or ignores it, assigns it, sets its priority. What is not named stays as it is.",
		Input: schema(`"issue_id"`, propIssue, propOrganization,
			`"status": {"type": "string", "enum": ["resolved", "resolvedInNextRelease", "unresolved", "ignored"], "description": "New status; ignored is what Sentry's pages call archived."}`,
			propStatusDetails,
			`"assignedTo": {"type": "string", "maxLength": 200, "description": "Who has it: \"user:<id>\", \"team:<id>\", a username or an e-mail address. Empty: nobody."}`,
			`"priority": {"type": "string", "enum": ["low", "medium", "high"]}`,
			`"hasSeen": {"type": "boolean", "description": "Whether the connection's user has seen it."}`,
			`"isBookmarked": {"type": "boolean", "description": "Whether the connection's user has it among his bookmarks."}`),
		Summarize: summary("Change", mutableParams[:]...),
		Examples: []sources.Example{
			{Note: "Resolved by a release", Params: json.RawMessage(`{"issue_id": "WEB-1A", "status": "resolved", "statusDetails": {"inRelease": "1.4.3"}}`)},
			{Note: "Ignored for a day", Params: json.RawMessage(`{"issue_id": "WEB-1A", "status": "ignored", "statusDetails": {"ignoreDuration": 1440}}`)},
			{Note: "Somebody is to look at it", Params: json.RawMessage(`{"issue_id": "4711", "assignedTo": "ada@example.com", "priority": "high"}`)},
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
    "ignoreCount": {"type": "integer", "minimum": 1, "description": "Until so many events, within ignoreWindow where it is named."},
    "ignoreWindow": {"type": "integer", "minimum": 1, "maximum": 10080, "description": "Minutes."},
    "ignoreUserCount": {"type": "integer", "minimum": 1, "description": "Until so many users are affected, within ignoreUserWindow where it is named."},
    "ignoreUserWindow": {"type": "integer", "minimum": 1, "maximum": 10080, "description": "Minutes."}
  }
}`

// mutableParams lists the params that change an issue, in the order of
// summaries.
var mutableParams = [...]string{"status", "statusDetails", "assignedTo", "priority", "hasSeen", "isBookmarked"}

// changedParams returns the params that change the issue.
func changedParams(params json.RawMessage) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(params, &all); err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for _, name := range mutableParams {
		if v, ok := all[name]; ok {
			out[name] = v
		}
	}
	return out, nil
}

func runUpdateIssue(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var t target
	if err := json.Unmarshal(params, &t); err != nil {
		return nil, err
	}
	set, err := changedParams(params)
	if err != nil {
		return nil, err
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
