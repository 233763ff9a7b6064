package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"sallyport/action"
)

// Onboarding is what a person decides of a connector's tools after looking at
// them.
type Onboarding struct {
	Tools []OnboardedTool `json:"tools" minItems:"1" maxItems:"10000" nullable:"false"`
}

// OnboardedTool is one tool, as it was seen, with the mode that it gets. The
// actions resources/read and prompts/get have no hashes.
type OnboardedTool struct {
	SeenTool
	Mode action.Mode `json:"mode,omitempty" enum:"allow,require_approval,deny" doc:"For the organization; absent: what policy says stays."`
}

const onboardDoc = "Sets the modes and takes the tools as reviewed, with the hashes of what was looked at. When a tool is another by now, nothing changes (409). " +
	"Modes are set before anything counts as reviewed, the strict ones first: what breaks in the middle leaves no tool more open than it was, or than was asked."

func (s *Server) onboardRoutes() {
	register(s, route{
		method: "POST", path: "/api/v1/connectors/{ref}/onboard", tag: "connectors", status: http.StatusOK, summary: "Decide about tools and take them as reviewed",
		doc: onboardDoc, errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByRef
		Body Onboarding
	},
	) (*body[List[ReviewView]], error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return nil, err
		}
		list, err := s.onboard(ctx, p, c, in.Body.Tools)
		return listOf(s.viewReviews(ctx, c, list)), err
	})
}

// onboard is several transactions. They stand in the order that is never more
// open than was asked: an unreviewed tool asks at least, whatever its mode.
func (s *Server) onboard(ctx context.Context, p *Principal, c action.Connector, tools []OnboardedTool) ([]action.ToolReview, error) {
	list, err := s.Reviews.ListReviews(ctx, p.Organization, c.ID)
	if err != nil {
		return nil, err
	}
	var seen []SeenTool
	named := map[string]bool{}
	for i, t := range tools {
		if named[t.Tool] {
			return nil, invalid(fmt.Sprintf("/tools/%d/tool", i), "A tool is named twice; name it once, with one mode.")
		}
		named[t.Tool] = true
		if beside(t.Tool) {
			continue
		}
		if err := asSeen(list, t.SeenTool); err != nil {
			return nil, placed(err, fmt.Sprintf("/tools/%d", i))
		}
		seen = append(seen, t.SeenTool)
	}
	if err := s.setModes(ctx, p, c, tools); err != nil || len(seen) == 0 {
		return list, err
	}
	return s.review(ctx, p, c, NewReview{Tools: seen})
}

// beside reports whether an action of a connector is no tool, and so has
// nothing to review.
func beside(name string) bool { return name == action.ActionRead || name == action.ActionPrompt }

// asSeen refuses a tool that is not there as it was seen.
func asSeen(list []action.ToolReview, t SeenTool) error {
	i := slices.IndexFunc(list, func(r action.ToolReview) bool { return r.Tool == t.Tool && r.Current != nil })
	if i < 0 {
		return &action.Error{Kind: action.ErrNotFound, Code: "tool_not_found", Field: "/tools", Message: fmt.Sprintf("The connector lists no tool %q; look at its list again.", plain(t.Tool))}
	}
	if list[i].Current.ToolHashes != (action.ToolHashes{Behaviour: t.Behaviour, Text: t.Text}) {
		return &action.Error{Kind: action.ErrConflict, Code: "tool_changed", Field: "/tools", Message: fmt.Sprintf("The tool %q is not as you saw it; look again before you decide about it.", plain(t.Tool))}
	}
	return nil
}

// setModes sets those that are wished, the strict ones first.
func (s *Server) setModes(ctx context.Context, p *Principal, c action.Connector, tools []OnboardedTool) error {
	defer s.hint(action.HintPolicy, p.Organization, "")
	for _, mode := range []action.Mode{action.ModeDeny, action.ModeRequireApproval, action.ModeAllow} {
		for _, t := range tools {
			if t.Mode != mode {
				continue
			}
			key := action.Key{Source: c.Source(), Action: t.Tool}
			if err := s.Overrides.SetOverride(ctx, action.Override{Organization: c.Organization, Key: key, Mode: mode, UpdatedBy: p.By()}); err != nil {
				return err
			}
			s.log.InfoContext(ctx, "policy set", "key", key.String(), "mode", mode, "by", p.By())
		}
	}
	return nil
}
