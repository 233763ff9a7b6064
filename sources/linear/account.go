package linear

import (
	"cmp"
	"context"
	"net/url"

	"sallyport/sources"
)

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
	data, err := do(ctx, c, operation{"Metadata", metadataFilter(q.Get("team")), true})
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

// metadataFilter returns the variables of the Metadata query. Workspace labels
// apply to every team.
func metadataFilter(team string) inputObject {
	if team == "" {
		return inputObject{}
	}
	filter := teamFilter(team)
	return inputObject{
		"states":   inputObject{"team": filter},
		"labels":   inputObject{"or": []inputObject{{"team": filter}, {"team": inputObject{"null": true}}}},
		"projects": inputObject{"accessibleTeams": inputObject{"some": filter}},
	}
}
