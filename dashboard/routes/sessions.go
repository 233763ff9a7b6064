package routes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	agents "sallyport/internal/agent"
)

const maxSessionTTL = 365 * 24 * time.Hour

func (s *handlers) sessionRoutes() {
	dashboard.HandleStatus(s.Server, api.CreateSession, func(ctx context.Context, p *dashboard.Principal, in *api.CreateSessionInput) (out *dashboard.StatusResponse[api.MintedSession], err error) {
		if in.Body.IdempotencyKey, err = idempotencyKey(in.Body.IdempotencyKey, in.Key); err != nil {
			return nil, err
		}
		return s.createSession(ctx, p, in.Body)
	})
	dashboard.Handle(s.Server, api.ListSessions, func(ctx context.Context, p *dashboard.Principal, in *api.ListSessionsInput) (api.List[api.SessionView], error) {
		page, err := s.ListSessions(ctx, p, in)
		return view.PageOf(page, viewSession), err
	})
	dashboard.Handle(s.Server, api.GetSession, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.SessionView, error) {
		session, err := s.Session(ctx, p.Organization, in.ID)
		if err != nil {
			return api.SessionView{}, err
		}
		return s.visibleSession(ctx, p, session)
	})
	dashboard.HandleNone(s.Server, api.RevokeSession, s.revoke)
	dashboard.Handle(s.Server, api.UpdateSession, s.changeSession)
	dashboard.Handle(s.Server, api.PauseSession, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.SessionView, error) {
		session, err := s.Sessions.PauseSession(ctx, p.Organization, in.ID)
		if err != nil {
			return api.SessionView{}, err
		}
		return s.sessionStatusChanged(ctx, p, "pause", session)
	})
	dashboard.Handle(s.Server, api.ResumeSession, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.SessionView, error) {
		session, err := s.Sessions.ResumeSession(ctx, p.Organization, in.ID)
		if err != nil {
			return api.SessionView{}, err
		}
		return s.sessionStatusChanged(ctx, p, "resume", session)
	})
	dashboard.Handle(s.Server, api.StopSession, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.SessionEnd]) (api.SessionView, error) {
		return s.endSession(ctx, p, in.ID, in.Body, "stop", action.SessionStopped)
	})
	dashboard.Handle(s.Server, api.FailSession, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.SessionEnd]) (api.SessionView, error) {
		return s.endSession(ctx, p, in.ID, in.Body, "fail", action.SessionFailed)
	})
}

func (s *handlers) revoke(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
	withdrew, err := s.Sessions.RevokeSession(ctx, p.Organization, in.ID)
	if err != nil {
		return err
	}
	s.Log.InfoContext(ctx, "session revoked", "session", in.ID, "by", p.By(), "withdrew", len(withdrew))
	s.sessionEnded(p.Organization, in.ID, withdrew)
	return nil
}

// sessionEnded publishes the end of a session and of the calls that were withdrawn
// with it.
func (s *handlers) sessionEnded(organization, id string, withdrew []action.Invocation) {
	s.Hint(action.HintSession, organization, id)
	s.Withdrew(withdrew)
}

func identity[T any](v T) T { return v }

func (s *handlers) createSession(ctx context.Context, p *dashboard.Principal, n api.NewSession) (*dashboard.StatusResponse[api.MintedSession], error) {
	if err := checkMayCreate(p, n); err != nil {
		return nil, err
	}
	once := action.Idempotency{Key: n.IdempotencyKey}
	if once.Key != "" {
		// The key is bound to its principal, so that nobody gets another's token with a guessed key.
		n.IdempotencyKey = ""
		text, _ := json.Marshal([]any{p.By(), n}) // plain strings always encode
		sum := sha256.Sum256(text)
		once.Hash = hex.EncodeToString(sum[:])
		session, found, err := s.Sessions.SessionOnce(ctx, p.Organization, once)
		if err != nil {
			return nil, err
		}
		if found {
			if err := session.Live(s.Now()); err != nil {
				return nil, action.Errorf(action.ErrConflict, "session_ended", "The session %s of this idempotency key has ended; use another key for a new one.", session.ID)
			}
			return s.sessionResponse(&session, true), nil
		}
	}
	var err error
	if err := s.fromAutomation(ctx, p, &n); err != nil {
		return nil, err
	}
	session, err := s.newSession(p, n)
	if err != nil {
		return nil, err
	}
	ids, err := s.connections(ctx, p, n)
	if err != nil {
		return nil, err
	}
	if session.Connections, session.LeftOut, err = s.usableConnections(ctx, p, ids); err != nil {
		return nil, err
	}
	session, existed, err := s.Sessions.MakeSession(ctx, session, once)
	switch {
	case err != nil:
		return nil, err
	case existed:
		return s.sessionResponse(&session, true), nil
	}
	s.Log.InfoContext(ctx, "session created", "session", session.ID, "connections", session.Connections, "left_out", len(session.LeftOut), "by", p.By())
	s.Hint(action.HintSession, p.Organization, session.ID)
	return s.sessionResponse(&session, false), nil
}

// sessionResponse returns a session with its token, which is derived from its ID.
func (s *handlers) sessionResponse(session *action.Session, existed bool) *dashboard.StatusResponse[api.MintedSession] {
	status := http.StatusCreated
	if existed {
		status = http.StatusOK
	}
	return &dashboard.StatusResponse[api.MintedSession]{Status: status, Body: api.MintedSession{
		SessionID: session.ID, Token: s.Tokens.Mint(session.ID), MCPURL: s.MCPURL, ExpiresAt: session.ExpiresAt,
		Group: session.Group, Status: session.Status, Existed: existed, LeftOut: dashboard.NonNil(session.LeftOut),
	}}
}

// checkMayCreate reserves fields that widen what a session may do for people who
// decide.
func checkMayCreate(p *dashboard.Principal, n api.NewSession) error {
	if p.Role.Decides() {
		return nil
	}
	for field, v := range map[string]string{"/group": n.Group, "/task": n.Task, "/automation": n.Automation, "/event_id": n.Event} {
		if v != "" {
			return action.Errorf(action.ErrForbidden, "role_required",
				"A member can only create plain sessions. Leave out group, task, automation and event_id, or ask an owner or admin.").WithField(field)
		}
	}
	return nil
}

// fromAutomation resolves the automation of a new session, which gives it the
// workspace, branch, model, provider and budget that the request leaves out.
func (s *handlers) fromAutomation(ctx context.Context, p *dashboard.Principal, n *api.NewSession) error {
	if n.Automation == "" {
		return nil
	}
	a, err := s.Automation(ctx, p, n.Automation, "/automation")
	if err != nil {
		return err
	}
	n.Automation = a.ID
	if n.Workspace == "" {
		n.Workspace, n.Branch = a.Workspace, cmp.Or(n.Branch, a.Branch)
	}
	n.Model, n.Provider = cmp.Or(n.Model, a.Model), cmp.Or(n.Provider, a.Provider)
	n.MaxTokens, n.MaxCalls, n.MaxUSD = cmp.Or(n.MaxTokens, a.MaxTokens), cmp.Or(n.MaxCalls, a.MaxCalls), cmp.Or(n.MaxUSD, float64(a.MaxCost)/microsPerUSD)
	return nil
}

const microsPerUSD = 1e6

// micros converts dollars to their millionths.
func micros(usd float64) int64 { return int64(math.Round(usd * microsPerUSD)) }

// origin returns how a session is created.
func origin(p *dashboard.Principal) action.Origin {
	if p.Login != nil {
		return action.OriginPage
	}
	return action.OriginAPI
}

func (s *handlers) newSession(p *dashboard.Principal, n api.NewSession) (action.Session, error) {
	kind, typ := n.Kind, n.Type
	if n.Automation != "" {
		kind, typ = cmp.Or(kind, action.Unattended), cmp.Or(typ, action.TypeAutomation)
	}
	ttl := s.SessionTTL
	if n.TTL != "" {
		d, err := time.ParseDuration(n.TTL)
		if err != nil || d <= 0 || d > maxSessionTTL {
			return action.Session{}, dashboard.Invalid("/ttl", "ttl must be a duration above zero and up to 8760h, such as 8h or 90m.")
		}
		ttl = d
	}
	idle, err := idleTimeout(n.Idle)
	if err != nil {
		return action.Session{}, err
	}
	model, err := canonicalModel(n.Model, "/model")
	if err != nil {
		return action.Session{}, err
	}
	now := s.Now()
	expires := now.Add(ttl)
	return action.Session{
		ID: dashboard.NewID(), Organization: p.Organization, Kind: cmp.Or(kind, action.Interactive), Type: cmp.Or(typ, action.TypeCoding),
		Automation: n.Automation, Group: n.Group, Task: n.Task, Event: n.Event, Title: n.Title,
		Prompt: n.Prompt, Tools: n.Tools, Model: model, IdleTimeout: idle, Status: action.SessionPending,
		CreatedBy: p.By(), CreatedAt: now, ExpiresAt: &expires,
		Workspace: n.Workspace, Branch: n.Branch, BaseCommit: n.BaseCommit, FirstPrompt: n.FirstPrompt, Parent: n.Parent, Provider: n.Provider,
		Client: n.Client, ClientMetadata: n.ClientMetadata, Origin: origin(p),
		Budget: action.Budget{MaxTokens: n.MaxTokens, MaxCost: micros(n.MaxUSD), MaxCalls: n.MaxCalls},
	}, nil
}

// canonicalModel returns the ID of a model that is named in any form. Empty: none.
func canonicalModel(name, field string) (string, error) {
	if name == "" {
		return "", nil
	}
	m, err := agents.FindModel(name)
	return m.ID, view.AtField(err, field)
}

// idempotencyKey returns the idempotency key of the body or the header.
func idempotencyKey(field, header string) (string, error) {
	if field != "" && header != "" && field != header {
		return "", dashboard.Invalid("/idempotency_key", "The header Idempotency-Key and the field idempotency_key differ; send one of them.")
	}
	return cmp.Or(field, header), nil
}

const never = "never"

// idleTimeout parses the idle timeout of a session.
func idleTimeout(text string) (time.Duration, error) {
	switch text {
	case "":
		return 0, nil
	case never:
		return action.NeverIdle, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > maxSessionTTL || d%time.Second != 0 {
		return 0, dashboard.Invalid("/idle_timeout", "idle_timeout must be never, or whole seconds up to 8760h, such as 30m.")
	}
	return d, nil
}

// resolveWithin bounds how long the creation of a session waits for services that
// renew tokens. Integrations that are not checked by then are bound.
const resolveWithin = 10 * time.Second

// usableConnections separates integrations that a session can use from those
// without a usable token.
func (s *handlers) usableConnections(ctx context.Context, p *dashboard.Principal, ids []string) (bound []string, left []action.LeftOut, err error) {
	if len(ids) == 0 || slices.Equal(ids, []string{action.AllConnections}) {
		return ids, nil, nil
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithTimeout(ctx, resolveWithin)
	defer stop()
	for _, id := range ids {
		i := slices.IndexFunc(all, func(in action.Integration) bool { return in.ID == id })
		if i < 0 { // the rows say what is wrong with it
			bound = append(bound, id)
			continue
		}
		view := s.ViewIntegration(all[i])
		if view.Why == "" {
			view.Why = render.Plain(s.Connections.Unusable(ctx, all[i]))
		}
		if view.Why == "" {
			bound = append(bound, id)
			continue
		}
		left = append(left, action.LeftOut{Integration: id, Name: cmp.Or(all[i].Name, view.Title), Reason: view.Why})
	}
	return bound, left, nil
}

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

// endSession stops a session or marks it as failed; word is the verb for the log.
func (s *handlers) endSession(ctx context.Context, p *dashboard.Principal, id string, end *api.SessionEnd, word string, as action.SessionStatus) (api.SessionView, error) {
	note := ""
	if end != nil {
		note = end.Note
	}
	session, withdrew, err := s.Sessions.EndSession(ctx, p.Organization, id, as, note)
	if err != nil {
		return api.SessionView{}, err
	}
	s.sessionEnded(p.Organization, id, withdrew)
	out, err := s.sessionStatusChanged(ctx, p, word, session)
	if err == nil {
		out.Withdrew = len(withdrew)
	}
	return out, err
}

// sessionStatusChanged publishes a session's new status and returns its view.
func (s *handlers) sessionStatusChanged(ctx context.Context, p *dashboard.Principal, step string, session action.Session) (api.SessionView, error) {
	s.Log.InfoContext(ctx, "session changed", "session", session.ID, "step", step, "status", session.Status, "by", p.By())
	s.Hint(action.HintSession, p.Organization, session.ID)
	return s.visibleSession(ctx, p, session)
}

func (s *handlers) changeSession(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.SessionChange]) (api.SessionView, error) {
	if err := s.checkMayRename(ctx, p, in.ID, in.Body); err != nil {
		return api.SessionView{}, err
	}
	var idle *time.Duration
	if in.Body.Idle != nil {
		d, err := idleTimeout(*in.Body.Idle)
		if err != nil {
			return api.SessionView{}, err
		}
		idle = &d
	}
	session, err := s.Sessions.ChangeSession(ctx, p.Organization, in.ID, in.Body.Title, idle)
	if err != nil {
		return api.SessionView{}, err
	}
	return s.sessionStatusChanged(ctx, p, "change", session)
}

// checkMayRename lets a member rename only the sessions that they created.
func (s *handlers) checkMayRename(ctx context.Context, p *dashboard.Principal, id string, c api.SessionChange) error {
	if p.Role.Decides() {
		return nil
	}
	session, err := s.Session(ctx, p.Organization, id)
	if err != nil || session.CreatedBy == p.By() && c.Idle == nil {
		return err
	}
	return action.Errorf(action.ErrForbidden, "role_required", "A member can only rename their own sessions. Ask an owner or admin.")
}

// visibleSession returns a session without the integrations private to others.
func (s *handlers) visibleSession(ctx context.Context, p *dashboard.Principal, session action.Session) (api.SessionView, error) {
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	view.HideUnlisted(&session, all)
	return viewSession(session), err
}
