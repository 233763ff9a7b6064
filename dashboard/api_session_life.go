package dashboard

import (
	"context"
	"net/http"
	"slices"
	"time"

	"sallyport/action"
)

// SessionView is a session with how long it may be idle.
type SessionView struct {
	action.Session
	Idle string `json:"idle_timeout,omitempty" doc:"After how long a silence it is stopped, or never; absent: the gateway's setting." example:"30m0s"`
	// Withdrew is told once, to whoever ends the session.
	Withdrew int `json:"withdrawn_calls,omitempty" doc:"Only in the answer that ends it: the held calls that were withdrawn."`
}

func viewSession(s action.Session) SessionView {
	v := SessionView{Session: s}
	switch {
	case s.IdleTimeout == action.NeverIdle:
		v.Idle = never
	case s.IdleTimeout > 0:
		v.Idle = s.IdleTimeout.String()
	}
	return v
}

// SessionChange is what is to be different in a session.
type SessionChange struct {
	Title *string `json:"title,omitempty" maxLength:"200" example:"Fix the login page"`
	Idle  *string `json:"idle_timeout,omitempty" maxLength:"40" doc:"After how long a silence it is stopped, such as 30m, or never; empty: the gateway's setting. Owners and admins only." example:"30m"`
}

// SessionEnd says why a session ends.
type SessionEnd struct {
	Note string `json:"note,omitempty" maxLength:"2000" doc:"Why, for people." example:"The task was given up."`
}

func (s *Server) lifeRoutes() {
	const path = "/api/v1/sessions/{id}"
	register(s, route{
		method: "PATCH", path: path, tag: "sessions", summary: "Change a session", errors: []int{http.StatusNotFound, http.StatusConflict},
		doc: "Changes what is given. A member renames the sessions that he made.",
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body SessionChange
	},
	) (*body[SessionView], error) {
		return s.changeSession(ctx, p, in.ID, in.Body)
	})
	register(s, route{
		method: "POST", path: path + "/pause", tag: "sessions", status: http.StatusOK, summary: "Pause a session",
		doc:    "It begins no calls until it is resumed. Calls that are held stay, can be joined and decided, and run when they are approved.",
		errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[SessionView], error) {
		session, err := s.SessionLife.PauseSession(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		return s.moved(ctx, p, "pause", session)
	})
	register(s, route{
		method: "POST", path: path + "/resume", tag: "sessions", status: http.StatusOK, summary: "Resume a session",
		doc:    "It begins calls again, and its idle time begins anew.",
		errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[SessionView], error) {
		session, err := s.SessionLife.ResumeSession(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		return s.moved(ctx, p, "resume", session)
	})
	register(s, route{
		method: "POST", path: path + "/stop", tag: "sessions", status: http.StatusOK, summary: "End a session that has stopped",
		doc:    "For good: its token is refused from now on, and the calls that it holds are withdrawn. What it asked for stays on record.",
		errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *SessionEnd
	},
	) (*body[SessionView], error) {
		return s.endSession(ctx, p, in.ID, in.Body, "stop", action.SessionStopped)
	})
	register(s, route{
		method: "POST", path: path + "/fail", tag: "sessions", status: http.StatusOK, summary: "End a session that has failed",
		doc:    "For good: its token is refused from now on, and the calls that it holds are withdrawn. What it asked for stays on record.",
		errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *SessionEnd
	},
	) (*body[SessionView], error) {
		return s.endSession(ctx, p, in.ID, in.Body, "fail", action.SessionFailed)
	})
}

// endSession stops a session or marks it as failed; word is the verb for the log.
func (s *Server) endSession(ctx context.Context, p *Principal, id string, end *SessionEnd, word string, as action.SessionStatus) (*body[SessionView], error) {
	note := ""
	if end != nil {
		note = end.Note
	}
	session, withdrew, err := s.SessionLife.EndSession(ctx, p.Organization, id, as, note)
	if err != nil {
		return nil, err
	}
	s.sessionEnded(p.Organization, id, withdrew)
	out, err := s.moved(ctx, p, word, session)
	if err == nil {
		out.Body.Withdrew = len(withdrew)
	}
	return out, err
}

// moved tells of a session's new status, and answers it.
func (s *Server) moved(ctx context.Context, p *Principal, step string, session action.Session) (*body[SessionView], error) {
	s.log.InfoContext(ctx, "session changed", "session", session.ID, "step", step, "status", session.Status, "by", p.By())
	s.hint(action.HintSession, p.Organization, session.ID)
	return s.seenSession(ctx, p, session)
}

func (s *Server) changeSession(ctx context.Context, p *Principal, id string, c SessionChange) (*body[SessionView], error) {
	if err := s.renames(ctx, p, id, c); err != nil {
		return nil, err
	}
	var idle *time.Duration
	if c.Idle != nil {
		d, err := idleTimeout(*c.Idle)
		if err != nil {
			return nil, err
		}
		idle = &d
	}
	session, err := s.SessionLife.ChangeSession(ctx, p.Organization, id, c.Title, idle)
	if err != nil {
		return nil, err
	}
	return s.moved(ctx, p, "change", session)
}

// renames lets a member change the title of what he made.
func (s *Server) renames(ctx context.Context, p *Principal, id string, c SessionChange) error {
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
func (s *Server) seenSession(ctx context.Context, p *Principal, session action.Session) (*body[SessionView], error) {
	all, err := s.Integrations.ListIntegrations(ctx, p.Organization, p.viewer())
	onlySeen(&session, all)
	return bodyOf(viewSession(session)), err
}

// onlySeen leaves out of a session the integrations that are not in the list.
func onlySeen(s *action.Session, all []action.Integration) {
	s.Connections = only(s.Connections, all)
	s.LeftOut = slices.DeleteFunc(slices.Clone(s.LeftOut), func(l action.LeftOut) bool {
		return !slices.ContainsFunc(all, func(in action.Integration) bool { return in.ID == l.Integration })
	})
}
