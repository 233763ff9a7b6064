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

// perPage is how many issues a list has where nobody says; 50 are the most.
const perPage = 25

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
	data, err := ask(ctx, c, operation{"ListIssues", p.variables(), true})
	if err != nil {
		return nil, err
	}
	return pick[page[issue]](data, "issues")
}

func (p listParams) variables() object {
	v := object{"first": min(cmp.Or(p.First, perPage), 50), "includeArchived": p.IncludeArchived}
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

// filter is an IssueFilter; all of it must be true of an issue.
func (p listParams) filter() object {
	f := object{}
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
		f["labels"] = object{"some": byIDOr(p.Label, object{"name": ignoringCase(p.Label)})}
	}
	if p.Priority != nil {
		f["priority"] = object{"eq": *p.Priority}
	}
	if p.Query != "" {
		contains := object{"containsIgnoreCase": p.Query}
		f["or"] = []object{{"title": contains}, {"description": contains}}
	}
	if p.UpdatedAfter != "" {
		f["updatedAt"] = object{"gte": p.UpdatedAfter}
	}
	return f
}

// teamFilter finds a team by its id or by its key, such as ENG.
func teamFilter(team string) object { return byIDOr(team, object{"key": ignoringCase(team)}) }

func stateFilter(state string) object {
	return byIDOr(state, object{"or": []object{
		{"name": ignoringCase(state)}, {"type": object{"eq": strings.ToLower(state)}},
	}})
}

func userFilter(user string) object {
	switch {
	case user == "me":
		return object{"isMe": object{"eq": true}}
	case user == "none":
		return object{"null": true}
	case strings.Contains(user, "@"):
		return object{"email": ignoringCase(user)}
	}
	return byIDOr(user, object{"or": []object{{"name": ignoringCase(user)}, {"displayName": ignoringCase(user)}}})
}

// object is a value of GraphQL input.
type object = map[string]any

func byID(id string) object { return object{"id": object{"eq": id}} }

func byIDOr(s string, otherwise object) object {
	if isID(s) {
		return byID(s)
	}
	return otherwise
}

func ignoringCase(s string) object { return object{"eqIgnoreCase": s} }

func isID(s string) bool { return uuid.Validate(s) == nil }

func getIssue(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		IssueID       string `json:"issueId"`
		CommentsAfter string `json:"commentsAfter"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	v := object{"id": p.IssueID}
	if p.CommentsAfter != "" {
		v["commentsAfter"] = p.CommentsAfter
	}
	data, err := ask(ctx, c, operation{"GetIssue", v, true})
	if err != nil {
		return nil, err
	}
	w, err := field[whole](data, "issue")
	if err != nil {
		return nil, err
	}
	if w.AvailableIn != nil {
		w.States, w.AvailableIn = w.AvailableIn.States, nil
	}
	slices.SortStableFunc(w.Comments.Items, func(a, b comment) int { return strings.Compare(a.CreatedAt, b.CreatedAt) })
	return w.fit()
}

// pick returns one field of the data in the shape of T.
func pick[T any](data json.RawMessage, name string) (json.RawMessage, error) {
	v, err := field[T](data, name)
	if err != nil {
		return nil, err
	}
	return sources.Encode(v)
}

func field[T any](data json.RawMessage, name string) (v T, err error) {
	var fields map[string]json.RawMessage
	if err = json.Unmarshal(data, &fields); err == nil {
		err = json.Unmarshal(fields[name], &v)
	}
	if err != nil {
		return v, uncertain(http.StatusOK, err.Error())
	}
	return v, nil
}
