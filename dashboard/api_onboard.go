package dashboard

import (
	"context"
	"fmt"
	"slices"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) onboardRoutes() {
	handle(s, api.OnboardTools, func(ctx context.Context, p *Principal, in *api.ByRefWith[api.Onboarding]) (api.List[api.ReviewView], error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.List[api.ReviewView]{}, err
		}
		list, err := s.onboard(ctx, p, c, in.Body.Tools)
		return listOf(s.viewReviews(ctx, c, list)), err
	})
}

// onboard checks what it can name, and leaves the rest to the transaction.
func (s *Server) onboard(ctx context.Context, p *Principal, c action.Connector, tools []api.OnboardedTool) ([]action.ToolReview, error) {
	list, err := s.Policy.ListReviews(ctx, p.Organization, c.ID)
	if err != nil {
		return nil, err
	}
	seen, modes, named := map[string]action.ToolHashes{}, map[string]action.Mode{}, map[string]bool{}
	for i, t := range tools {
		if named[t.Tool] {
			return nil, invalid(fmt.Sprintf("/tools/%d/tool", i), "A tool is named twice; name it once, with one mode.")
		}
		named[t.Tool] = true
		if t.Mode != "" {
			modes[t.Tool] = t.Mode
		}
		if beside(t.Tool) {
			continue
		}
		if err := asSeen(list, t.SeenTool); err != nil {
			return nil, placed(err, fmt.Sprintf("/tools/%d", i))
		}
		seen[t.Tool] = action.ToolHashes{Behaviour: t.Behaviour, Text: t.Text}
	}
	if list, err = s.Policy.OnboardTools(ctx, p.Organization, c.ID, seen, modes, p.By()); err != nil {
		return nil, err
	}
	s.changed(ctx, p, "tools decided about", "connector", c.ID, "tools", len(seen), "modes", len(modes))
	return list, nil
}

// beside reports whether an action of a connector is no tool, and so has
// nothing to review.
func beside(name string) bool { return name == action.ActionRead || name == action.ActionPrompt }

// asSeen refuses a tool that is not there as it was seen.
func asSeen(list []action.ToolReview, t api.SeenTool) error {
	i := slices.IndexFunc(list, func(r action.ToolReview) bool { return r.Tool == t.Tool && r.Current != nil })
	if i < 0 {
		return &action.Error{Kind: action.ErrNotFound, Code: "tool_not_found", Field: "/tools", Message: fmt.Sprintf("The connector lists no tool %q; look at its list again.", plain(t.Tool))}
	}
	if list[i].Current.ToolHashes != (action.ToolHashes{Behaviour: t.Behaviour, Text: t.Text}) {
		return &action.Error{Kind: action.ErrConflict, Code: "tool_changed", Field: "/tools", Message: fmt.Sprintf("The tool %q is not as you saw it; look again before you decide about it.", plain(t.Tool))}
	}
	return nil
}
