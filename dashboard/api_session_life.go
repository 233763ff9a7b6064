package dashboard

import (
	"context"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
)

func viewSession(s action.Session) api.SessionView {
	v := api.SessionView{Session: s}
	switch {
	case s.IdleTimeout == action.NeverIdle:
		v.Idle = never
	case s.IdleTimeout > 0:
		v.Idle = s.IdleTimeout.String()
	}
	return v
}

func (s *Server) lifeRoutes() {
	handle(s, api.UpdateSession, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.SessionChange]) (api.SessionView, error) {
		return s.changeSession(ctx, p, in.ID, in.Body)
	})
	handle(s, api.PauseSession, func(ctx context.Context, p *Principal, in *api.ByID) (api.SessionView, error) {
		session, err := s.Sessions.PauseSession(ctx, p.Organization, in.ID)
		if err != nil {
			return api.SessionView{}, err
		}
		return s.moved(ctx, p, "pause", session)
	})
	handle(s, api.ResumeSession, func(ctx context.Context, p *Principal, in *api.ByID) (api.SessionView, error) {
		session, err := s.Sessions.ResumeSession(ctx, p.Organization, in.ID)
		if err != nil {
			return api.SessionView{}, err
		}
		return s.moved(ctx, p, "resume", session)
	})
	handle(s, api.StopSession, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.SessionEnd]) (api.SessionView, error) {
		return s.endSession(ctx, p, in.ID, in.Body, "stop", action.SessionStopped)
	})
	handle(s, api.FailSession, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.SessionEnd]) (api.SessionView, error) {
		return s.endSession(ctx, p, in.ID, in.Body, "fail", action.SessionFailed)
	})
}

// endSession stops a session or marks it as failed; word is the verb for the log.
func (s *Server) endSession(ctx context.Context, p *Principal, id string, end *api.SessionEnd, word string, as action.SessionStatus) (api.SessionView, error) {
	note := ""
	if end != nil {
		note = end.Note
	}
	session, withdrew, err := s.Sessions.EndSession(ctx, p.Organization, id, as, note)
	if err != nil {
		return api.SessionView{}, err
	}
	s.sessionEnded(p.Organization, id, withdrew)
	out, err := s.moved(ctx, p, word, session)
	if err == nil {
		out.Withdrew = len(withdrew)
	}
	return out, err
}

// moved tells of a session's new status, and answers it.
func (s *Server) moved(ctx context.Context, p *Principal, step string, session action.Session) (api.SessionView, error) {
	s.Log.InfoContext(ctx, "session changed", "session", session.ID, "step", step, "status", session.Status, "by", p.By())
	s.hint(action.HintSession, p.Organization, session.ID)
	return s.seenSession(ctx, p, session)
}

func (s *Server) changeSession(ctx context.Context, p *Principal, id string, c api.SessionChange) (api.SessionView, error) {
	if err := s.renames(ctx, p, id, c); err != nil {
		return api.SessionView{}, err
	}
	var idle *time.Duration
	if c.Idle != nil {
		d, err := idleTimeout(*c.Idle)
		if err != nil {
			return api.SessionView{}, err
		}
		idle = &d
	}
	session, err := s.Sessions.ChangeSession(ctx, p.Organization, id, c.Title, idle)
	if err != nil {
		return api.SessionView{}, err
	}
	return s.moved(ctx, p, "change", session)
}

// renames lets a member change the title of what he made.
func (s *Server) renames(ctx context.Context, p *Principal, id string, c api.SessionChange) error {
	if p.Role.Decides() {
		return nil
	}
	session, err := s.session(ctx, p.Organization, id)
	if err != nil || session.CreatedBy == p.By() && c.Idle == nil {
		return err
	}
	return action.Errorf(action.ErrForbidden, "role_required", "A member renames the sessions that he made, and changes nothing else; ask an owner or admin.")
}

// seenSession is a session without what is private to others.
func (s *Server) seenSession(ctx context.Context, p *Principal, session action.Session) (api.SessionView, error) {
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.viewer())
	onlySeen(&session, all)
	return viewSession(session), err
}

// onlySeen leaves out of a session the integrations that are not in the list.
func onlySeen(s *action.Session, all []action.Integration) {
	s.Connections = only(s.Connections, all)
	s.LeftOut = slices.DeleteFunc(slices.Clone(s.LeftOut), func(l action.LeftOut) bool {
		return !slices.ContainsFunc(all, func(in action.Integration) bool { return in.ID == l.Integration })
	})
}
