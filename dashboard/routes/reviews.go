package routes

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

func (s *handlers) reviewRoutes() {
	dashboard.Handle(s.Server, api.ListTools, func(ctx context.Context, p *dashboard.Principal, in *api.ListToolsInput) (api.ReviewList, error) {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.ReviewList{}, err
		}
		state := s.Connectors.State(ctx, c)
		if in.Fresh { // contacts the server, which is reserved for owners and admins
			if err := dashboard.Permit(api.Decider, p, ""); err != nil {
				return api.ReviewList{}, err
			}
			if state, err = s.Connectors.Probe(ctx, c); err != nil {
				return api.ReviewList{}, err
			}
		}
		list, err := s.Policy.ListReviews(ctx, p.Organization, c.ID)
		v := api.ReviewList{List: view.ListOf(s.ViewReviews(ctx, c, list)), Error: state.Error}
		if !state.FetchedAt.IsZero() {
			v.FetchedAt = &state.FetchedAt
		}
		return v, err
	})
	dashboard.Handle(s.Server, api.ReviewTools, func(ctx context.Context, p *dashboard.Principal, in *api.ByRefWith[api.NewReview]) (api.List[api.ReviewView], error) {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.List[api.ReviewView]{}, err
		}
		list, err := s.review(ctx, p, c, in.Body)
		return view.ListOf(s.ViewReviews(ctx, c, list)), err
	})
}

// reviewedHashes returns the reviewed hashes by tool, or nil for all tools.
func reviewedHashes(n *api.NewReview) (map[string]action.ToolHashes, error) {
	if n.All == (len(n.Tools) > 0) {
		return nil, dashboard.Invalid("/tools", "Send the tools that you reviewed with their hashes, or all: true.")
	}
	if n.All {
		return nil, nil
	}
	seen := make(map[string]action.ToolHashes, len(n.Tools))
	for i, t := range n.Tools {
		const both = "Send both hashes as shown, or neither for a tool that is no longer listed."
		switch {
		case t.Behaviour == "" && t.Text != "":
			return nil, dashboard.Invalid(fmt.Sprintf("/tools/%d/behaviour_hash", i), both)
		case t.Behaviour != "" && t.Text == "":
			return nil, dashboard.Invalid(fmt.Sprintf("/tools/%d/text_hash", i), both)
		}
		seen[t.Tool] = action.ToolHashes{Behaviour: t.Behaviour, Text: t.Text}
	}
	return seen, nil
}

func (s *handlers) review(ctx context.Context, p *dashboard.Principal, c action.Connector, n api.NewReview) ([]action.ToolReview, error) {
	seen, err := reviewedHashes(&n)
	if err != nil {
		return nil, err
	}
	list, err := s.Policy.ReviewTools(ctx, p.Organization, c.ID, seen, p.By())
	if e := action.Public(err); e.Code == "tool_not_found" {
		err = &action.Error{Kind: e.Kind, Code: e.Code, Field: "/tools", Message: e.Message + " GET /api/v1/connectors/" + cmp.Or(c.Slug, c.ID) + "/tools lists them."}
	}
	if err != nil {
		return nil, err
	}
	s.policyChanged(ctx, p, "tools reviewed", "connector", c.ID, "tools", len(seen), "all", n.All)
	return list, nil
}

// onboard reports errors with their fields where it can; the transaction checks the
// rest.
func (s *handlers) onboard(ctx context.Context, p *dashboard.Principal, c action.Connector, tools []api.OnboardedTool) ([]action.ToolReview, error) {
	list, err := s.Policy.ListReviews(ctx, p.Organization, c.ID)
	if err != nil {
		return nil, err
	}
	seen, modes, named := map[string]action.ToolHashes{}, map[string]action.Mode{}, map[string]bool{}
	for i, t := range tools {
		if named[t.Tool] {
			return nil, dashboard.Invalid(fmt.Sprintf("/tools/%d/tool", i), "The tool is listed twice. List it once, with one mode.")
		}
		named[t.Tool] = true
		if t.Mode != "" {
			modes[t.Tool] = t.Mode
		}
		if isNotTool(t.Tool) {
			continue
		}
		if err := checkSeen(list, t.SeenTool); err != nil {
			return nil, view.AtField(err, fmt.Sprintf("/tools/%d", i))
		}
		seen[t.Tool] = action.ToolHashes{Behaviour: t.Behaviour, Text: t.Text}
	}
	if list, err = s.Policy.OnboardTools(ctx, p.Organization, c.ID, seen, modes, p.By()); err != nil {
		return nil, err
	}
	s.policyChanged(ctx, p, "tools onboarded", "connector", c.ID, "tools", len(seen), "modes", len(modes))
	return list, nil
}

// isNotTool reports whether an action of a connector is not a tool and needs no
// review.
func isNotTool(name string) bool { return name == action.ActionRead || name == action.ActionPrompt }

// checkSeen refuses a tool that changed since the person saw it.
func checkSeen(list []action.ToolReview, t api.SeenTool) error {
	i := slices.IndexFunc(list, func(r action.ToolReview) bool { return r.Tool == t.Tool && r.Current != nil })
	if i < 0 {
		return &action.Error{Kind: action.ErrNotFound, Code: "tool_not_found", Field: "/tools", Message: fmt.Sprintf("The connector has no tool %q. Reload its tools.", render.Plain(t.Tool))}
	}
	if list[i].Current.ToolHashes != (action.ToolHashes{Behaviour: t.Behaviour, Text: t.Text}) {
		return &action.Error{Kind: action.ErrConflict, Code: "tool_changed", Field: "/tools", Message: fmt.Sprintf("The tool %q changed since you saw it. Review it again before you decide.", render.Plain(t.Tool))}
	}
	return nil
}
