package dashboard

import (
	"context"
	"slices"

	"sallyport/action"
	agents "sallyport/internal/agent"
	"sallyport/internal/guide"
)

// GuideView is a guide to actions, for agents.
type GuideView struct {
	Source   string `json:"source_id,omitempty" doc:"Absent: the guide is of the whole session." example:"linear"`
	Title    string `json:"title" example:"Linear"`
	Markdown string `json:"markdown" doc:"Texts of connected servers stand in fences and are marked as theirs."`
}

// PromptView is a system prompt.
type PromptView struct {
	Type action.SessionType `json:"type" enum:"coding,setup,automation"`
	Own  bool               `json:"own" doc:"It is the session's own one, and not that of its type."`
	Text string             `json:"text"`
}

// OfAction picks one action of a guide.
type OfAction struct {
	Action string `query:"action" maxLength:"200" doc:"Only this one: its name at the source, or that of its tool." example:"create_issue"`
}

func (s *Server) guideRoutes() {
	const doc = "Written from the list of what is allowed now: each action with what becomes of a call, its params as a table and an example. " +
		"Texts are bounded; what is left out is listed, with how to get it."
	register(s, route{
		method: "GET", path: actionsPath + "/guide", tag: "actions", summary: "Explain all actions of the session", doc: doc,
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		OfAction
	},
	) (*body[GuideView], error) {
		g, err := s.guide(ctx, p, in.Session, "", in.Action)
		return bodyOf(g), err
	})
	register(s, route{
		method: "GET", path: actionsPath + "/guide/{source}", tag: "actions", summary: "Explain the actions of a source", doc: doc,
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		OfAction
		Source string `path:"source" maxLength:"200" doc:"Its id, or what people call it." example:"linear"`
	},
	) (*body[GuideView], error) {
		g, err := s.guide(ctx, p, in.Session, in.Source, in.Action)
		return bodyOf(g), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/sessions/{session}/prompt", tag: "actions", summary: "Read the session's system prompt",
		doc: "That of its type, or its own one with what an agent of the type must be told in any case. It names only tools that the session has.",
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		Type action.SessionType `query:"type" enum:"coding,setup,automation" doc:"Absent: the session's."`
	},
	) (*body[PromptView], error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return nil, err
		}
		v, err := s.prompt(ctx, &session, in.Type)
		return bodyOf(v), err
	})
}

func (s *Server) guide(ctx context.Context, p *Principal, id, source, name string) (GuideView, error) {
	session, err := s.sessionOf(ctx, p, id)
	if err != nil {
		return GuideView{}, err
	}
	list, _, err := s.Gate.Available(ctx, &session)
	if err != nil {
		return GuideView{}, err
	}
	if known, _, err := s.source(ctx, p.Organization, source); err == nil && source != "" {
		source = known
	}
	g, err := guide.Of(list, source, name, s.has(&session, list))
	return GuideView{g.Source, g.Title, g.Markdown}, err
}

// has tells which tools the session's agent has.
func (s *Server) has(session *action.Session, list []action.Available) func(tool string) bool {
	var own []string
	if s.AgentTools != nil {
		own = s.AgentTools(session)
	}
	return func(tool string) bool {
		return slices.Contains(own, tool) || slices.ContainsFunc(list, func(a action.Available) bool { return a.Tool == tool })
	}
}

// prompt is that of a type as the session's agent gets it; an empty type is the
// session's.
func (s *Server) prompt(ctx context.Context, session *action.Session, t action.SessionType) (PromptView, error) {
	list, _, err := s.Gate.Available(ctx, session)
	if err != nil {
		return PromptView{}, err
	}
	text, own := agents.ForSession(session, t, s.has(session, list))
	return PromptView{or(t, session.Type), own, text}, nil
}
