package linear

import (
	"cmp"
	"context"
	"net/url"

	"sallyport/sources"
)

// account is the workspace: one integration of an organization for each.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	data, err := ask(ctx, c, operation{"Viewer", object{}, true})
	if err != nil {
		return sources.Account{}, err
	}
	workspace, err := field[struct{ ID, Name, URLKey string }](data, "organization")
	return sources.Account{ID: workspace.ID, Name: cmp.Or(workspace.Name, workspace.URLKey)}, err
}

// metadata answers what forms offer. With a team (id or key) in the query:
// what its issues may have.
func metadata(ctx context.Context, c *sources.Conn, q url.Values) (any, error) {
	data, err := ask(ctx, c, operation{"Metadata", offers(q.Get("team")), true})
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	var more []string
	for _, name := range []string{"teams", "states", "labels", "users", "projects"} {
		p, err := field[page[map[string]any]](data, name)
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

// offers are the variables of Metadata. Labels of the workspace are every
// team's.
func offers(team string) object {
	if team == "" {
		return object{}
	}
	its := teamFilter(team)
	return object{
		"states":   object{"team": its},
		"labels":   object{"or": []object{{"team": its}, {"team": object{"null": true}}}},
		"projects": object{"accessibleTeams": object{"some": its}},
	}
}
