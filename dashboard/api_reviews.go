package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) reviewRoutes() {
	handle(s, api.ListTools, func(ctx context.Context, p *Principal, in *api.ListToolsInput) (api.ReviewList, error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.ReviewList{}, err
		}
		state, err := s.stateOf(ctx, p, c, in.Fresh)
		if err != nil {
			return api.ReviewList{}, err
		}
		list, err := s.Policy.ListReviews(ctx, p.Organization, c.ID)
		v := api.ReviewList{List: listOf(s.viewReviews(ctx, c, list)), Error: state.Error}
		if !state.FetchedAt.IsZero() {
			v.FetchedAt = &state.FetchedAt
		}
		return v, err
	})
	handle(s, api.ReviewTools, func(ctx context.Context, p *Principal, in *api.ByRefWith[api.NewReview]) (api.List[api.ReviewView], error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.List[api.ReviewView]{}, err
		}
		list, err := s.review(ctx, p, c, in.Body)
		return listOf(s.viewReviews(ctx, c, list)), err
	})
}

// newReviewSeen is what was looked at, by name; nil for all.
func newReviewSeen(n *api.NewReview) (map[string]action.ToolHashes, error) {
	if n.All == (len(n.Tools) > 0) {
		return nil, invalid("/tools", "Send the tools that you looked at with their hashes, or all: true.")
	}
	if n.All {
		return nil, nil
	}
	seen := make(map[string]action.ToolHashes, len(n.Tools))
	for i, t := range n.Tools {
		const both = "Send both hashes, as they were shown; neither for a tool that is not listed any more."
		switch {
		case t.Behaviour == "" && t.Text != "":
			return nil, invalid(fmt.Sprintf("/tools/%d/behaviour_hash", i), both)
		case t.Behaviour != "" && t.Text == "":
			return nil, invalid(fmt.Sprintf("/tools/%d/text_hash", i), both)
		}
		seen[t.Tool] = action.ToolHashes{Behaviour: t.Behaviour, Text: t.Text}
	}
	return seen, nil
}

func (s *Server) review(ctx context.Context, p *Principal, c action.Connector, n api.NewReview) ([]action.ToolReview, error) {
	seen, err := newReviewSeen(&n)
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
	s.changed(ctx, p, "tools reviewed", "connector", c.ID, "tools", len(seen), "all", n.All)
	return list, nil
}

// stateOf is what is known of a connector, or with fresh what it says now. That
// asks a server, which is for those who may also ask it otherwise.
func (s *Server) stateOf(ctx context.Context, p *Principal, c action.Connector, fresh bool) (ConnectorState, error) {
	if !fresh {
		return s.Connectors.State(ctx, c), nil
	}
	if err := accessPermit(api.Decider, p, ""); err != nil {
		return ConnectorState{}, err
	}
	return s.Connectors.Probe(ctx, c)
}

func (s *Server) viewReviews(ctx context.Context, c action.Connector, list []action.ToolReview) []api.ReviewView {
	tools := s.Connectors.State(ctx, c).Tools
	views := make([]api.ReviewView, len(list))
	for i, r := range list {
		views[i] = viewReview(r)
		at := slices.IndexFunc(tools, func(a *action.Action) bool { return a.Name == r.Tool })
		if at < 0 {
			continue
		}
		views[i].Risk = tools[at].Risk
		if d, ok := s.plainly(ctx, tools[at], c.Organization); ok {
			views[i].Mode, views[i].ModeSource = d.Mode, d.Source
		}
	}
	return views
}

func viewReview(r action.ToolReview) api.ReviewView {
	v := api.ReviewView{
		Tool: r.Tool, State: r.State, Reviewed: viewVersion(r.Reviewed), Current: viewVersion(r.Current),
		ReviewedBy: r.ReviewedBy, ReviewedAt: r.ReviewedAt, SeenAt: r.SeenAt, Changes: []api.Change{},
	}
	if r.State == action.ToolChanged && r.Reviewed != nil && r.Current != nil {
		v.Changes = nonNil(diff(r.Reviewed.Definition, r.Current.Definition))
	}
	return v
}

func viewVersion(v *action.ToolVersion) *api.Definition {
	if v == nil {
		return nil
	}
	return &api.Definition{ToolHashes: v.ToolHashes, Definition: v.Definition}
}

// plainly decides an action in a session that nothing special is said of.
func (s *Server) plainly(ctx context.Context, a *action.Action, organization string) (action.Decision, bool) {
	plain := &action.Session{Organization: organization, Kind: action.Interactive, Type: action.TypeCoding}
	d, err := s.Decide(ctx, plain, a, nil, true)
	if err != nil {
		s.Log.WarnContext(ctx, "mode of a tool is not known", "tool", a.Tool, "error", err)
	}
	return d, err == nil
}
