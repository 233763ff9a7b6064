package dashboard

import (
	"context"
	"net/http"
	"time"

	"sallyport/action"
)

// NewSession is a wish for a session.
type NewSession struct {
	Kind       action.SessionKind `json:"kind,omitempty" enum:"interactive,unattended" doc:"Default interactive; an automation implies unattended." example:"interactive"`
	Type       action.SessionType `json:"type,omitempty" enum:"coding,setup,automation" doc:"Default coding; automation with an automation." example:"coding"`
	Group      string             `json:"group,omitempty" maxLength:"200" doc:"Owners and admins only."`
	Task       string             `json:"task,omitempty" maxLength:"500" doc:"Owners and admins only. Fixed for the session's life."`
	Automation string             `json:"automation,omitempty" maxLength:"200" doc:"Id or name. Owners and admins only."`
	Event      string             `json:"event_id,omitempty" maxLength:"200" doc:"The inbound event that starts it; owners and admins only. Then no allow of the organization lets a write through."`
	Title      string             `json:"title,omitempty" maxLength:"200" example:"Fix the login page"`
	// Nil and empty differ; see [Server.connections].
	Connections []string `json:"connections,omitempty" maxItems:"50" nullable:"false" doc:"Integrations that its agent may use: ids, ids of providers of which there is one, names that only one has, or \"all\" alone, those that the whole organization may see, now and later. Absent: none, or what the automation is bound to." example:"linear"`
	TTL         string   `json:"ttl,omitempty" maxLength:"40" doc:"How long it lives, such as 8h or 90m; default 720h, at most 8760h." example:"8h"`

	Prompt string             `json:"prompt,omitempty" maxLength:"32768" doc:"A system prompt of its own; absent: that of its type."`
	Tools  action.ToolListing `json:"tools,omitempty" enum:"all,search" doc:"What its list of tools holds: all that it may use, or tools that find and call them; absent: the gateway's setting."`
	Model  string             `json:"model,omitempty" maxLength:"200" doc:"A model, in any of its forms; kept is the canonical id."`
	Idle   string             `json:"idle_timeout,omitempty" maxLength:"40" doc:"After how long a silence it is stopped, such as 30m, or never; absent: the gateway's setting." example:"30m"`

	IdempotencyKey string `json:"idempotency_key,omitempty" maxLength:"255" doc:"Unique in the organization: the same key and wish is the same session. The header Idempotency-Key says the same."`
}

// MintedSession is a new session with its token, which is shown once.
type MintedSession struct {
	SessionID string     `json:"session_id" example:"0199a3c4-5d6e-7f80-9123-456789abcdef"`
	Token     string     `json:"token" example:"sps_…" doc:"Shown once; it is stored nowhere."`
	MCPURL    string     `json:"mcp_url" example:"http://127.0.0.1:8787/mcp"`
	ExpiresAt *time.Time `json:"expires_at"`

	Status  action.SessionStatus `json:"status" enum:"pending,running,paused,stopped,failed"`
	LeftOut []action.LeftOut     `json:"left_out" nullable:"false" doc:"Integrations that were asked for, and that it is not connected to, since no token can be had for them."`
}

// minted is a session that is new, or was made before with the same key.
type minted struct {
	Status int
	Body   MintedSession
}

const maxSessionTTL = 365 * 24 * time.Hour

// ByID is the parameter of a route about one thing.
type ByID struct {
	ID string `path:"id" example:"0199a3c4-5d6e-7f80-9123-456789abcdef"`
}

func (s *Server) sessionRoutes() {
	register(s, route{
		method: "POST", path: "/api/v1/sessions", tag: "sessions", status: http.StatusCreated,
		summary: "Mint a session", doc: "Makes a session for one agent and answers its token. A member mints plain sessions: no group, task, automation or event_id. " +
			"With an idempotency key it answers 200, and the session with its token again, when the same person made it with the same key and wish; 409 when the wish was another.",
		errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		Key  string `header:"Idempotency-Key" maxLength:"255"`
		Body NewSession
	},
	) (out *minted, err error) {
		if in.Body.IdempotencyKey, err = oneKey(in.Body.IdempotencyKey, in.Key); err != nil {
			return nil, err
		}
		return s.mint(ctx, p, in.Body)
	})
	register(s, route{
		method: "GET", path: "/api/v1/sessions", tag: "sessions", summary: "List sessions, newest first",
	}, func(ctx context.Context, p *Principal, in *struct {
		State string `query:"state" enum:"live,ended,pending,running,paused,stopped,failed" doc:"live: its token is good; ended: it stopped or failed, or its time is over; or one status."`
		Paging
	},
	) (*body[List[SessionView]], error) {
		page, err := s.listSessions(ctx, p, in.State, in.Paging)
		return pageOf(page, viewSession), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/sessions/{id}", tag: "sessions", summary: "Read a session",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[SessionView], error) {
		session, err := s.session(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		return s.seenSession(ctx, p, session)
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/sessions/{id}", tag: "sessions", summary: "Revoke a session",
		doc: "Stops it, whatever its status: its token is refused from now on. What it asked for stays on record. A second time changes nothing.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*empty, error) {
		return nil, s.revoke(ctx, p, in.ID)
	})
	s.lifeRoutes()
}

// session returns a session of the organization.
func (s *Server) session(ctx context.Context, organization, id string) (action.Session, error) {
	session, err := s.Sessions.Session(ctx, id)
	if err == nil && session.Organization != organization {
		return action.Session{}, action.Errorf(action.ErrNotFound, "session_not_found", "There is no such session.")
	}
	return session, err
}

// listSessions leaves out of their connections what is private to others.
func (s *Server) listSessions(ctx context.Context, p *Principal, state string, q Paging) (action.Page[action.Session], error) {
	f := action.SessionFilter{Organization: p.Organization, Live: state == "live", Ended: state == "ended", Limit: q.Limit, Cursor: q.Cursor}
	if status := action.SessionStatus(state); status.Valid() {
		f.Status = status
	}
	page, err := s.Sessions.ListSessions(ctx, f)
	if err != nil {
		return page, err
	}
	all, err := s.Integrations.ListIntegrations(ctx, p.Organization, p.viewer())
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
	s.log.InfoContext(ctx, "session revoked", "session", id, "by", p.By(), "withdrew", len(withdrew))
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

func (s *Server) mint(ctx context.Context, p *Principal, n NewSession) (*minted, error) {
	if err := mintable(p, n); err != nil {
		return nil, err
	}
	once := n.once(p)
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
	s.log.InfoContext(ctx, "session minted", "session", session.ID, "connections", session.Connections, "left_out", len(session.LeftOut), "by", p.By())
	s.hint(action.HintSession, p.Organization, session.ID)
	return s.handOut(&session, http.StatusCreated), nil
}

// wish is the session that is to be.
func (s *Server) wish(ctx context.Context, p *Principal, n NewSession) (session action.Session, err error) {
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
func (s *Server) handOut(session *action.Session, status int) *minted {
	return &minted{Status: status, Body: MintedSession{
		SessionID: session.ID, Token: s.Tokens.Mint(session.ID), MCPURL: s.MCPURL, ExpiresAt: session.ExpiresAt,
		Status: session.Status, LeftOut: nonNil(session.LeftOut),
	}}
}

// mintable keeps what opens ceilings and overrides to those who decide.
func mintable(p *Principal, n NewSession) error {
	if p.Role.Decides() {
		return nil
	}
	for field, v := range map[string]string{"/group": n.Group, "/task": n.Task, "/automation": n.Automation, "/event_id": n.Event} {
		if v != "" {
			return &action.Error{
				Kind: action.ErrForbidden, Code: "role_required", Field: field,
				Message: "A member mints plain sessions; leave out group, task, automation and event_id, or ask an owner or admin.",
			}
		}
	}
	return nil
}

func (s *Server) newSession(p *Principal, n NewSession) (action.Session, error) {
	kind, typ := n.Kind, n.Type
	if n.Automation != "" {
		if kind == action.Interactive {
			return action.Session{}, invalid("/kind", "A session of an automation is unattended; leave out kind.")
		}
		kind = action.Unattended
		if typ == "" {
			typ = action.TypeAutomation
		}
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
		ID: newID(), Organization: p.Organization, Kind: or(kind, action.Interactive), Type: or(typ, action.TypeCoding),
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

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

func invalid(field, message string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid_field", Field: field, Message: message}
}
