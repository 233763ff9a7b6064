package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sallyport/action"
)

// ReviewView is where a tool stands between its connector and the reviewer.
type ReviewView struct {
	Tool       string             `json:"tool" doc:"Its name at its server." example:"create_issue"`
	State      action.ReviewState `json:"state" enum:"new,reviewed,changed,removed"`
	Risk       action.Risk        `json:"risk,omitempty" doc:"Absent when it is not listed."`
	Mode       action.Mode        `json:"mode,omitempty" doc:"In a plain session; absent when it is not listed."`
	ModeSource action.Layer       `json:"mode_source,omitempty"`
	Reviewed   *Definition        `json:"reviewed" doc:"Null: it was never reviewed, or not since the connector changed."`
	Current    *Definition        `json:"current" doc:"Null: it is not listed."`
	ReviewedBy string             `json:"reviewed_by,omitempty" doc:"A user, or \"first list\" when nobody was asked."`
	ReviewedAt *time.Time         `json:"reviewed_at,omitempty"`
	SeenAt     time.Time          `json:"seen_at" doc:"First listed as it is now."`
	Changes    []Change           `json:"changes" nullable:"false" doc:"From the reviewed definition to the current one."`
}

// Definition is a tool as a connector listed it.
type Definition struct {
	_ struct{} `nullable:"true"`
	action.ToolHashes
	Definition raw `json:"definition" doc:"The server's own words."`
}

// SeenTool is a tool with the hashes that a person saw.
type SeenTool struct {
	Tool      string `json:"tool" minLength:"1" maxLength:"200" example:"create_issue"`
	Behaviour string `json:"behaviour_hash,omitempty" maxLength:"200" doc:"Absent, with text_hash: it is not listed any more, and is forgotten."`
	Text      string `json:"text_hash,omitempty" maxLength:"200"`
}

// ReviewList is all that is known of a connector's tools.
type ReviewList struct {
	List[ReviewView]
	FetchedAt *time.Time `json:"fetched_at,omitempty" doc:"When the tools were last listed; absent: never."`
	Error     string     `json:"error,omitempty" doc:"Why the server could not be asked last; the list is of the time before."`
}

// NewReview says which tools a person has looked at.
type NewReview struct {
	Tools []SeenTool `json:"tools,omitempty" minItems:"1" maxItems:"10000" nullable:"false"`
	All   bool       `json:"all,omitempty" doc:"Instead of tools: every tool as it is now; removed ones are forgotten."`
}

func (s *Server) reviewRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/connectors/{ref}/tools", tag: "connectors", summary: "List a connector's tools and their reviews",
	}, func(ctx context.Context, p *Principal, in *struct {
		ByRef
		Fresh bool `query:"fresh" doc:"Ask the server first; owners and admins only."`
	},
	) (*body[ReviewList], error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return nil, err
		}
		state, err := s.stateOf(ctx, p, c, in.Fresh)
		if err != nil {
			return nil, err
		}
		list, err := s.Reviews.ListReviews(ctx, p.Organization, c.ID)
		v := ReviewList{List: listOf(s.viewReviews(ctx, c, list)).Body, Error: state.Error}
		if !state.FetchedAt.IsZero() {
			v.FetchedAt = &state.FetchedAt
		}
		return bodyOf(v), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/connectors/{ref}/review", tag: "connectors", summary: "Take tools as reviewed", status: http.StatusOK,
		doc:    "With the hashes of what was looked at: a tool that changed since is refused, and with it all.",
		errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByRef
		Body NewReview
	},
	) (*body[List[ReviewView]], error) {
		c, err := s.connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return nil, err
		}
		list, err := s.review(ctx, p, c, in.Body)
		return listOf(s.viewReviews(ctx, c, list)), err
	})
}

// seen is what was looked at, by name; nil for all.
func (n *NewReview) seen() (map[string]action.ToolHashes, error) {
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

func (s *Server) review(ctx context.Context, p *Principal, c action.Connector, n NewReview) ([]action.ToolReview, error) {
	seen, err := n.seen()
	if err != nil {
		return nil, err
	}
	list, err := s.Reviews.ReviewTools(ctx, p.Organization, c.ID, seen, p.By())
	if e := action.Public(err); e.Code == "tool_not_found" {
		err = &action.Error{Kind: e.Kind, Code: e.Code, Field: "/tools", Message: e.Message + " GET /api/v1/connectors/" + or(c.Slug, c.ID) + "/tools is that list."}
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
		return s.Prober.State(ctx, c), nil
	}
	if err := decider.permit(p, ""); err != nil {
		return ConnectorState{}, err
	}
	return s.Prober.Probe(ctx, c)
}

func (s *Server) viewReviews(ctx context.Context, c action.Connector, list []action.ToolReview) []ReviewView {
	tools := s.Prober.State(ctx, c).Tools
	views := make([]ReviewView, len(list))
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

func viewReview(r action.ToolReview) ReviewView {
	v := ReviewView{
		Tool: r.Tool, State: r.State, Reviewed: viewVersion(r.Reviewed), Current: viewVersion(r.Current),
		ReviewedBy: r.ReviewedBy, ReviewedAt: r.ReviewedAt, SeenAt: r.SeenAt, Changes: []Change{},
	}
	if r.State == action.ToolChanged && r.Reviewed != nil && r.Current != nil {
		v.Changes = nonNil(diff(r.Reviewed.Definition, r.Current.Definition))
	}
	return v
}

func viewVersion(v *action.ToolVersion) *Definition {
	if v == nil {
		return nil
	}
	return &Definition{ToolHashes: v.ToolHashes, Definition: v.Definition}
}

// plainly decides an action in a session that nothing special is said of.
func (s *Server) plainly(ctx context.Context, a *action.Action, organization string) (action.Decision, bool) {
	plain := &action.Session{Organization: organization, Kind: action.Interactive, Type: action.TypeCoding}
	d, err := s.Decider.Decide(ctx, plain, a, nil, true)
	if err != nil {
		s.log.WarnContext(ctx, "mode of a tool is not known", "tool", a.Tool, "error", err)
	}
	return d, err == nil
}
