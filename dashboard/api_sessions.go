package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/api"
)

const maxSessionTTL = 365 * 24 * time.Hour

func (s *Server) sessionRoutes() {
	handleCoded(s, api.CreateSession, func(ctx context.Context, p *Principal, in *api.CreateSessionInput) (out *coded[api.MintedSession], err error) {
		if in.Body.IdempotencyKey, err = oneKey(in.Body.IdempotencyKey, in.Key); err != nil {
			return nil, err
		}
		return s.mint(ctx, p, in.Body)
	})
	handle(s, api.ListSessions, func(ctx context.Context, p *Principal, in *api.ListSessionsInput) (api.List[api.SessionView], error) {
		page, err := s.listSessions(ctx, p, in)
		return pageOf(page, viewSession), err
	})
	handle(s, api.GetSession, func(ctx context.Context, p *Principal, in *api.ByID) (api.SessionView, error) {
		session, err := s.session(ctx, p.Organization, in.ID)
		if err != nil {
			return api.SessionView{}, err
		}
		return s.seenSession(ctx, p, session)
	})
	handleNone(s, api.RevokeSession, func(ctx context.Context, p *Principal, in *api.ByID) error {
		return s.revoke(ctx, p, in.ID)
	})
	s.lifeRoutes()
}

// session returns a session of the organization.
func (s *Server) session(ctx context.Context, organization, id string) (action.Session, error) {
	session, err := s.Sessions.Session(ctx, id)
	if err == nil && session.Organization != organization {
		return action.Session{}, action.NewError("session_not_found")
	}
	return session, err
}

// listSessions leaves out of their connections what is private to others.
func (s *Server) listSessions(ctx context.Context, p *Principal, in *api.ListSessionsInput) (action.Page[action.Session], error) {
	f := action.SessionFilter{Organization: p.Organization, Live: in.State == "live", Ended: in.State == "ended", Limit: in.Limit, Cursor: in.Cursor}
	if status := action.SessionStatus(in.State); status.Valid() {
		f.Status = status
	}
	page, err := s.Sessions.ListSessions(ctx, f)
	if err != nil {
		return page, err
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.viewer())
	for i := range page.Items {
		onlySeen(&page.Items[i], all)
	}
	return page, err
}

func (s *Server) revoke(ctx context.Context, p *Principal, id string) error {
	withdrew, err := s.Sessions.RevokeSession(ctx, p.Organization, id)
	if err != nil {
		return err
	}
	s.Log.InfoContext(ctx, "session revoked", "session", id, "by", p.By(), "withdrew", len(withdrew))
	s.sessionEnded(p.Organization, id, withdrew)
	return nil
}

// sessionEnded tells of a session that ended, and of the calls that were
// withdrawn with it.
func (s *Server) sessionEnded(organization, id string, withdrew []action.Invocation) {
	s.hint(action.HintSession, organization, id)
	s.Withdrew(withdrew)
}

func same[T any](v T) T { return v }

func (s *Server) mint(ctx context.Context, p *Principal, n api.NewSession) (*coded[api.MintedSession], error) {
	if err := mintable(p, n); err != nil {
		return nil, err
	}
	once := newSessionOnce(n, p)
	if once.Key != "" {
		session, found, err := s.Sessions.SessionOnce(ctx, p.Organization, once)
		if err != nil {
			return nil, err
		}
		if found {
			if err := session.Live(s.now()); err != nil {
				return nil, action.Errorf(action.ErrConflict, "session_ended", "The session %s of this idempotency key has ended; use another key for a new one.", session.ID)
			}
			return s.handOut(&session, http.StatusOK), nil
		}
	}
	session, err := s.wish(ctx, p, n)
	if err != nil {
		return nil, err
	}
	session, existed, err := s.Sessions.MakeSession(ctx, session, once)
	switch {
	case err != nil:
		return nil, err
	case existed:
		return s.handOut(&session, http.StatusOK), nil
	}
	s.Log.InfoContext(ctx, "session minted", "session", session.ID, "connections", session.Connections, "left_out", len(session.LeftOut), "by", p.By())
	s.hint(action.HintSession, p.Organization, session.ID)
	return s.handOut(&session, http.StatusCreated), nil
}

// wish is the session that is to be.
func (s *Server) wish(ctx context.Context, p *Principal, n api.NewSession) (session action.Session, err error) {
	if n.Automation, err = s.automationID(ctx, p, n.Automation, "/automation"); err != nil {
		return session, err
	}
	if session, err = s.newSession(p, n); err != nil {
		return session, err
	}
	ids, err := s.connections(ctx, p, n)
	if err != nil {
		return session, err
	}
	session.Connections, session.LeftOut, err = s.working(ctx, p, ids)
	return session, err
}

// handOut answers a session with its token, which is made of its id.
func (s *Server) handOut(session *action.Session, status int) *coded[api.MintedSession] {
	return &coded[api.MintedSession]{Status: status, Body: api.MintedSession{
		SessionID: session.ID, Token: s.Tokens.Mint(session.ID), MCPURL: s.MCPURL, ExpiresAt: session.ExpiresAt,
		Status: session.Status, LeftOut: nonNil(session.LeftOut),
	}}
}

// mintable keeps what opens ceilings and overrides to those who decide.
func mintable(p *Principal, n api.NewSession) error {
	if p.Role.Decides() {
		return nil
	}
	for field, v := range map[string]string{"/group": n.Group, "/task": n.Task, "/automation": n.Automation, "/event_id": n.Event} {
		if v != "" {
			return action.Errorf(action.ErrForbidden, "role_required",
				"A member mints plain sessions; leave out group, task, automation and event_id, or ask an owner or admin.").WithField(field)
		}
	}
	return nil
}

func (s *Server) newSession(p *Principal, n api.NewSession) (action.Session, error) {
	kind, typ := n.Kind, n.Type
	if n.Automation != "" {
		kind, typ = cmp.Or(kind, action.Unattended), cmp.Or(typ, action.TypeAutomation)
	}
	ttl, err := s.ttl(n.TTL)
	if err != nil {
		return action.Session{}, err
	}
	idle, err := idleTimeout(n.Idle)
	if err != nil {
		return action.Session{}, err
	}
	model, err := canonicalModel(n.Model)
	if err != nil {
		return action.Session{}, err
	}
	now := s.now()
	expires := now.Add(ttl)
	return action.Session{
		ID: newID(), Organization: p.Organization, Kind: cmp.Or(kind, action.Interactive), Type: cmp.Or(typ, action.TypeCoding),
		Automation: n.Automation, Group: n.Group, Task: n.Task, Event: n.Event, Title: n.Title,
		Prompt: n.Prompt, Tools: n.Tools, Model: model, IdleTimeout: idle, Status: action.SessionPending,
		CreatedBy: p.By(), CreatedAt: now, ExpiresAt: &expires,
	}, nil
}

func (s *Server) ttl(text string) (time.Duration, error) {
	if text == "" {
		return s.SessionTTL, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxSessionTTL {
		return 0, invalid("/ttl", "ttl must be a duration above zero and up to 8760h, such as 8h or 90m.")
	}
	return d, nil
}

func invalid(field, message string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid_field", Field: field, Message: message}
}
