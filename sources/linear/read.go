package linear

import (
	"cmp"
	"context"
	"encoding/json"
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

func listIssues(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var p listParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	data, err := do(ctx, c, operation{"ListIssues", p.variables(), true})
	if err != nil {
		return nil, err
	}
	return reencodeField[page[issue]](data, "issues")
}

func (p listParams) variables() inputObject {
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
	return v
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

func getIssue(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		IssueID       string `json:"issueId"`
		CommentsAfter string `json:"commentsAfter"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
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

// reencodeField returns one field of the data, normalized through T.
func reencodeField[T any](data json.RawMessage, name string) (json.RawMessage, error) {
	v, err := decodeField[T](data, name)
	if err != nil {
		return nil, err
	}
	return sources.Encode(v)
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
