package dashboard

import (
	"cmp"
	"context"
	"slices"

	"sallyport/action"
	"sallyport/api"
	agents "sallyport/internal/agent"
	"sallyport/internal/guide"
)

func (s *Server) guideRoutes() {
	handle(s, api.GetGuide, func(ctx context.Context, p *Principal, in *api.GetGuideInput) (api.GuideView, error) {
		return s.guide(ctx, p, in.Session, "", in.Action)
	})
	handle(s, api.GetSourceGuide, func(ctx context.Context, p *Principal, in *api.GetSourceGuideInput) (api.GuideView, error) {
		return s.guide(ctx, p, in.Session, in.Source, in.Action)
	})
	handle(s, api.GetPrompt, func(ctx context.Context, p *Principal, in *api.GetPromptInput) (api.PromptView, error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return api.PromptView{}, err
		}
		return s.prompt(ctx, &session, in.Type)
	})
}

func (s *Server) guide(ctx context.Context, p *Principal, id, source, name string) (api.GuideView, error) {
	session, err := s.sessionOf(ctx, p, id)
	if err != nil {
		return api.GuideView{}, err
	}
	list, _, err := s.Gate.Available(ctx, &session)
	if err != nil {
		return api.GuideView{}, err
	}
	if known, _, err := s.source(ctx, p.Organization, source); err == nil && source != "" {
		source = known
	}
	g, err := guide.Of(list, source, name, s.has(&session, list))
	return api.GuideView{Source: g.Source, Title: g.Title, Markdown: g.Markdown}, err
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
func (s *Server) prompt(ctx context.Context, session *action.Session, t action.SessionType) (api.PromptView, error) {
	list, _, err := s.Gate.Available(ctx, session)
	if err != nil {
		return api.PromptView{}, err
	}
	text, own := agents.ForSession(session, t, s.has(session, list))
	return api.PromptView{Type: cmp.Or(t, session.Type), Own: own, Text: text}, nil
}
