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
	return nil, &sources.Refusal{Code: "not_done", Status: 200, Message: "Linear took the request and says that it was not done; look at the issue with get_issue before calling again."}
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
