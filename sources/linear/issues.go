package linear

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"sallyport/sources"
)

// defaultPageSize is the page size of list_issues; the maximum is 50.
const defaultPageSize = 25

type listParams struct {
	TeamID          string           `json:"teamId"`
	ProjectID       string           `json:"projectId"`
	State           string           `json:"state"`
	Assignee        string           `json:"assignee"`
	Label           string           `json:"label"`
	Priority        *sources.Integer `json:"priority"`
	Query           string           `json:"query"`
	UpdatedAfter    string           `json:"updatedAfter"`
	IncludeArchived bool             `json:"includeArchived"`
	OrderBy         string           `json:"orderBy"`
	First           sources.Integer  `json:"first"`
	After           string           `json:"after"`
}

func listIssues(ctx context.Context, c *sources.Conn, p listParams) (json.RawMessage, error) {
	v := inputObject{"first": min(cmp.Or(p.First, defaultPageSize), 50), "includeArchived": p.IncludeArchived}
	if p.After != "" {
		v["after"] = p.After
	}
	if p.OrderBy != "" {
		v["orderBy"] = p.OrderBy
	}
	if filter := p.filter(); len(filter) > 0 {
		v["filter"] = filter
	}
	data, err := do(ctx, c, operation{"ListIssues", v, true})
	if err != nil {
		return nil, err
	}
	issues, err := decodeField[page[issue]](data, "issues")
	if err != nil {
		return nil, err
	}
	return sources.Encode(issues)
}

// filter returns an IssueFilter with all conditions.
func (p listParams) filter() inputObject {
	f := inputObject{}
	if p.TeamID != "" {
		f["team"] = teamFilter(p.TeamID)
	}
	if p.ProjectID != "" {
		f["project"] = byID(p.ProjectID)
	}
	if p.State != "" {
		f["state"] = stateFilter(p.State)
	}
	if p.Assignee != "" {
		f["assignee"] = userFilter(p.Assignee)
	}
	if p.Label != "" {
		f["labels"] = inputObject{"some": byIDElse(p.Label, inputObject{"name": ignoringCase(p.Label)})}
	}
	if p.Priority != nil {
		f["priority"] = inputObject{"eq": *p.Priority}
	}
	if p.Query != "" {
		contains := inputObject{"containsIgnoreCase": p.Query}
		f["or"] = []inputObject{{"title": contains}, {"description": contains}}
	}
	if p.UpdatedAfter != "" {
		f["updatedAt"] = inputObject{"gte": p.UpdatedAfter}
	}
	return f
}

// teamFilter matches a team by its ID or its key, such as ENG.
func teamFilter(team string) inputObject {
	return byIDElse(team, inputObject{"key": ignoringCase(team)})
}

func stateFilter(state string) inputObject {
	return byIDElse(state, inputObject{"or": []inputObject{
		{"name": ignoringCase(state)}, {"type": inputObject{"eq": strings.ToLower(state)}},
	}})
}

func userFilter(user string) inputObject {
	switch {
	case user == "me":
		return inputObject{"isMe": inputObject{"eq": true}}
	case user == "none":
		return inputObject{"null": true}
	case strings.Contains(user, "@"):
		return inputObject{"email": ignoringCase(user)}
	}
	return byIDElse(user, inputObject{"or": []inputObject{{"name": ignoringCase(user)}, {"displayName": ignoringCase(user)}}})
}

// inputObject is a GraphQL input object.
type inputObject = map[string]any

func byID(id string) inputObject { return inputObject{"id": inputObject{"eq": id}} }

func byIDElse(s string, otherwise inputObject) inputObject {
	if isID(s) {
		return byID(s)
	}
	return otherwise
}

func ignoringCase(s string) inputObject { return inputObject{"eqIgnoreCase": s} }

func isID(s string) bool { return uuid.Validate(s) == nil }

type getParams struct {
	IssueID       string `json:"issueId"`
	CommentsAfter string `json:"commentsAfter"`
}

func getIssue(ctx context.Context, c *sources.Conn, p getParams) (json.RawMessage, error) {
	v := inputObject{"id": p.IssueID}
	if p.CommentsAfter != "" {
		v["commentsAfter"] = p.CommentsAfter
	}
	data, err := do(ctx, c, operation{"GetIssue", v, true})
	if err != nil {
		return nil, err
	}
	w, err := decodeField[fullIssue](data, "issue")
	if err != nil {
		return nil, err
	}
	if w.AvailableIn != nil {
		w.States, w.AvailableIn = w.AvailableIn.States, nil
	}
	slices.SortStableFunc(w.Comments.Items, func(a, b comment) int { return strings.Compare(a.CreatedAt, b.CreatedAt) })
	return w.fit()
}

func decodeField[T any](data json.RawMessage, name string) (v T, err error) {
	var fields map[string]json.RawMessage
	if err = json.Unmarshal(data, &fields); err == nil {
		err = json.Unmarshal(fields[name], &v)
	}
	if err != nil {
		return v, outcomeUnknown(http.StatusOK, err.Error())
	}
	return v, nil
}

// input is the input of a mutation. Params have the names of Linear's fields
// and pass unchanged, except for numbers, which are normalized.
type input map[string]any

func readInput(params json.RawMessage) (input, error) {
	var raw map[string]json.RawMessage
	err := json.Unmarshal(params, &raw)
	in := input{}
	for name, value := range raw {
		if in[name] = value; name == "priority" || name == "first" {
			var n sources.Integer
			err = cmp.Or(err, json.Unmarshal(value, &n))
			in[name] = n
		}
	}
	return in, err
}

// text returns a string param.
func (in input) text(name string) (s string) {
	raw, _ := in[name].(json.RawMessage)
	_ = json.Unmarshal(raw, &s)
	return s
}

func createIssue(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	in, err := readInput(params)
	if err != nil {
		return nil, err
	}
	if in["teamId"], err = teamID(ctx, c, in.text("teamId")); err != nil {
		return nil, err
	}
	// The client-chosen ID makes the mutation idempotent.
	id := uuid.NewString()
	in["id"] = id
	made, err := mutate(ctx, c, operation{"CreateIssue", inputObject{"input": in}, true}, "issueCreate")
	if alreadyCreated(err, "issue") {
		return fetchCreated(ctx, c, "GetIssue", id)
	}
	return made, err
}

func addComment(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	in, err := readInput(params)
	if err != nil {
		return nil, err
	}
	id := uuid.NewString()
	in["id"] = id
	made, err := mutate(ctx, c, operation{"AddComment", inputObject{"input": in}, true}, "commentCreate")
	if alreadyCreated(err, "comment") {
		return fetchCreated(ctx, c, "GetComment", id)
	}
	return made, err
}

func updateIssue(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	in, err := readInput(params)
	if err != nil {
		return nil, err
	}
	id := in.text("issueId")
	delete(in, "issueId")
	return mutate(ctx, c, operation{"UpdateIssue", inputObject{"id": id, "input": in}, true}, "issueUpdate")
}

// teamID resolves a team ID or key to the ID.
func teamID(ctx context.Context, c *sources.Conn, team string) (string, error) {
	if isID(team) {
		return team, nil
	}
	data, err := do(ctx, c, operation{"FindTeam", inputObject{"filter": teamFilter(team)}, true})
	if err != nil {
		return "", sources.AsNotExecuted(err)
	}
	teams, err := decodeField[nodes[named]](data, "teams")
	if err != nil {
		return "", sources.AsNotExecuted(err)
	}
	if len(teams) != 1 {
		return "", &sources.Refusal{Code: "no_such_team", Message: notFound("Team")}
	}
	return teams[0].ID, nil
}

// mutationPayload is the payload of a mutation, or of a query for what it
// created.
type mutationPayload struct {
	Success bool     `json:"success"`
	Issue   *issue   `json:"issue"`
	Comment *comment `json:"comment"`
}

func (p mutationPayload) encode() (json.RawMessage, error) {
	switch {
	case p.Issue != nil:
		return sources.Encode(p.Issue)
	case p.Comment != nil:
		return sources.Encode(p.Comment)
	}
	return sources.Encode(inputObject{"success": true})
}

// mutate sends a mutation and returns the result. If the response has errors
// beside a success, the mutation was applied, so the errors are ignored.
func mutate(ctx context.Context, c *sources.Conn, op operation, name string) (json.RawMessage, error) {
	data, failed := do(ctx, c, op)
	var p mutationPayload
	if data != nil {
		var err error
		if p, err = decodeField[mutationPayload](data, name); err != nil && failed == nil {
			return nil, err
		}
	}
	switch {
	case p.Success:
		return p.encode()
	case failed != nil:
		return nil, failed
	}
	return nil, &sources.Refusal{Code: "not_done", Status: 200, Message: "Linear accepted the request but reports that it was not done. Check the issue with get_issue before calling again."}
}

// alreadyCreated reports whether an earlier attempt of the same request created
// the entity and its response was lost.
func alreadyCreated(err error, kind string) bool {
	var r *sources.Refusal
	return errors.As(err, &r) && strings.HasPrefix(strings.ToLower(r.Detail)+" ", "conflict on insert of "+kind+" ")
}

// fetchCreated returns what an earlier attempt created. If it cannot be read,
// the ID alone is returned, because the entity exists.
func fetchCreated(ctx context.Context, c *sources.Conn, query, id string) (json.RawMessage, error) {
	data, err := do(ctx, c, operation{query, inputObject{"id": id}, true})
	var p mutationPayload
	if err != nil || json.Unmarshal(data, &p) != nil {
		return sources.Encode(named{ID: id})
	}
	return p.encode()
}
