package linear

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"sallyport/sources"
)

// input is what a mutation takes: our params have the names of its fields, and
// their values pass as they are, but for numbers that may be written in several ways.
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

// text returns a param that is a string.
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
	// With an id of ours the request can be repeated: Linear takes it once.
	id := uuid.NewString()
	in["id"] = id
	made, err := mutate(ctx, c, operation{"CreateIssue", object{"input": in}, true}, "issueCreate")
	if isThere(err, "issue") {
		return reread(ctx, c, "GetIssue", id)
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
	made, err := mutate(ctx, c, operation{"AddComment", object{"input": in}, true}, "commentCreate")
	if isThere(err, "comment") {
		return reread(ctx, c, "GetComment", id)
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
	return mutate(ctx, c, operation{"UpdateIssue", object{"id": id, "input": in}, true}, "issueUpdate")
}

// teamID returns the id of the team that an agent names by id or key.
func teamID(ctx context.Context, c *sources.Conn, team string) (string, error) {
	if isID(team) {
		return team, nil
	}
	data, err := ask(ctx, c, operation{"FindTeam", object{"filter": teamFilter(team)}, true})
	if err != nil {
		return "", sources.AsNotExecuted(err)
	}
	teams, err := field[nodes[named]](data, "teams")
	if err != nil {
		return "", sources.AsNotExecuted(err)
	}
	if len(teams) != 1 {
		return "", &sources.Refusal{Code: "no_such_team", Message: notFound("Team")}
	}
	return teams[0].ID, nil
}

// payload is what a mutation answers, and a query of what one made.
type payload struct {
	Success bool     `json:"success"`
	Issue   *issue   `json:"issue"`
	Comment *comment `json:"comment"`
}

func (p payload) encode() (json.RawMessage, error) {
	switch {
	case p.Issue != nil:
		return sources.Encode(p.Issue)
	case p.Comment != nil:
		return sources.Encode(p.Comment)
	}
	return sources.Encode(object{"success": true})
}

// mutate sends a mutation and returns what it made. The answer may name errors
// beside a success: then it was done, and only told of badly.
func mutate(ctx context.Context, c *sources.Conn, op operation, name string) (json.RawMessage, error) {
	data, failed := ask(ctx, c, op)
	var p payload
	if data != nil {
		var err error
		if p, err = field[payload](data, name); err != nil && failed == nil {
			return nil, err
		}
	}
	switch {
	case p.Success:
		return p.encode()
	case failed != nil:
		return nil, failed
	}
	return nil, &sources.Refusal{Code: "not_done", Status: 200, Message: "Linear took the request and says that it was not done; look at the issue with get_issue before calling again."}
}

// isThere reports whether Linear has something with our new id already: then
// an earlier attempt of the same request made it, whose answer was lost.
func isThere(err error, kind string) bool {
	var r *sources.Refusal
	return errors.As(err, &r) && strings.HasPrefix(strings.ToLower(r.Detail)+" ", "conflict on insert of "+kind+" ")
}

// reread returns what an earlier attempt made. That it cannot be read does not
// undo it.
func reread(ctx context.Context, c *sources.Conn, query, id string) (json.RawMessage, error) {
	data, err := ask(ctx, c, operation{query, object{"id": id}, true})
	var p payload
	if err != nil || json.Unmarshal(data, &p) != nil {
		return sources.Encode(named{ID: id})
	}
	return p.encode()
}
