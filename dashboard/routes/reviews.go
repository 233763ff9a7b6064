package routes

import (
	"cmp"
	"context"
	"fmt"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

func (s *handlers) reviewRoutes() {
	dashboard.Handle(s.Server, api.ListTools, func(ctx context.Context, p *dashboard.Principal, in *api.ListToolsInput) (api.ReviewList, error) {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.ReviewList{}, err
		}
		state, err := s.connectorState(ctx, p, c, in.Fresh)
		if err != nil {
			return api.ReviewList{}, err
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
		return nil, dashboard.Invalid("/tools", "Send the tools that you looked at with their hashes, or all: true.")
	}
	if n.All {
		return nil, nil
	}
	seen := make(map[string]action.ToolHashes, len(n.Tools))
	for i, t := range n.Tools {
		const both = "Send both hashes, as they were shown; neither for a tool that is not listed any more."
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

// connectorState returns the cached state of a connector, or with fresh its current
// one. The latter contacts the server, so it needs the role for that.
func (s *handlers) connectorState(ctx context.Context, p *dashboard.Principal, c action.Connector, fresh bool) (dashboard.ConnectorState, error) {
	if !fresh {
		return s.Connectors.State(ctx, c), nil
	}
	if err := dashboard.Permit(api.Decider, p, ""); err != nil {
		return dashboard.ConnectorState{}, err
	}
	return s.Connectors.Probe(ctx, c)
}
