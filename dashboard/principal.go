package dashboard

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/token"
)

// Principal is the authenticated sender of a request.
type Principal struct {
	Organization string
	Session      *action.Session // an agent's session; nil for a person
	User         string          // the person's id
	Name         string
	Role         action.Role   // of a person
	Login        *action.Login // of a browser
	CredentialID string        // the id of that, or of the person's API key
	LimitedRole  bool          // the key's role is lower than the person's
	Scope        action.KeyScope
	runsAllowed  bool // a worker key whose person may still decide
	hostToken    bool // authenticated by a token of the host application
}

// By returns the user ID that rows record as the actor.
func (p *Principal) By() string { return p.User }

// WorkerID returns the worker that a run records.
func (p *Principal) WorkerID() string {
	if p.Scope == action.ScopeRuns {
		return "key:" + p.CredentialID
	}
	return p.By()
}

// Viewer returns the user whose private integrations the principal sees and
// manages; empty: none. A key with a limited role may be stored where agents
// read it, so it does not act as its person.
func (p *Principal) Viewer() string {
	if p.LimitedRole {
		return ""
	}
	return p.User
}

// Identify returns the sender of r, or ErrUnauthenticated. If there is an
// Authorization header, the cookie is ignored: a browser never sends that header
// on its own.
func (s *Server) Identify(r *http.Request) (*Principal, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		return s.identifyBearer(r.Context(), header)
	}
	return s.IdentifyLogin(r)
}

func (s *Server) identifyBearer(ctx context.Context, header string) (*Principal, error) {
	switch text := token.Bearer(header); {
	case strings.HasPrefix(text, token.SessionPrefix):
		return s.identifySession(ctx, text)
	case strings.HasPrefix(text, token.APIKeyPrefix):
		return s.identifyKey(ctx, text)
	case s.hostTokens != nil && strings.Count(text, ".") == 2 && strings.HasPrefix(text, "ey"): // a JWT
		return s.identifyHost(ctx, text)
	}
	return nil, errBadCredential()
}

func (s *Server) identifySession(ctx context.Context, text string) (*Principal, error) {
	id, err := s.Tokens.Verify(text)
	if err != nil {
		return nil, err
	}
	session, err := s.Sessions.Session(ctx, id)
	if err != nil {
		return nil, hideNotFound(err)
	}
	if err := session.Live(s.Now()); err != nil {
		return nil, err
	}
	if s.Used != nil {
		s.Used(&session)
	}
	return &Principal{Organization: session.Organization, Session: &session}, nil
}

// identifyKey limits a key to the lower of its own role and its user's, so that a
// demoted or removed person keeps no access through an older key.
func (s *Server) identifyKey(ctx context.Context, text string) (*Principal, error) {
	id, hash, err := token.ParseAPIKey(text)
	if err != nil {
		return nil, err
	}
	key, want, err := s.People.APIKey(ctx, id)
	if err != nil {
		return nil, hideNotFound(err)
	}
	if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(hash)), []byte(want)) != 1 {
		return nil, errBadCredential()
	}
	switch {
	case key.RevokedAt != nil:
		return nil, action.NewError("key_revoked")
	case key.ExpiresAt != nil && !s.Now().Before(*key.ExpiresAt):
		return nil, action.NewError("key_expired")
	}
	u, err := s.People.User(ctx, key.Organization, key.User)
	if err != nil {
		return nil, hideNotFound(err)
	}
	if now := s.Now(); key.UsedAt == nil || now.Sub(*key.UsedAt) >= touchEvery {
		if err := s.People.TouchAPIKey(ctx, key.ID, now); err != nil {
			return nil, err
		}
	}
	role := lowerRole(key.Role, u.Role)
	return &Principal{
		Organization: key.Organization, User: u.ID, Name: u.Name, Role: role, CredentialID: key.ID, LimitedRole: role != u.Role,
		Scope: key.Scope, runsAllowed: key.Scope == action.ScopeRuns && u.Role.Decides(),
	}, nil
}

// permit returns nil if the principal may use a route with that access for the
// resources in the path.
func (s *Server) permit(who api.Access, p *Principal, r *http.Request) error {
	// A completed session changes nothing any more, but calls pass: the Gate returns
	// the results of calls that were answered before.
	calls := strings.HasPrefix(r.URL.Path, "/internal/tools/") || strings.HasSuffix(r.URL.Path, "/actions/invoke")
	if p.Session != nil && p.Session.CompletedAt != nil && r.Method != http.MethodGet && !calls {
		if err := p.Session.Working(s.Now()); err != nil {
			return err
		}
	}
	if err := Permit(who, p, r.PathValue("session")); err != nil || (who != api.Holder && who != api.Reader) || p.Session == nil {
		return err
	}
	run, err := s.Inbound.RunOfSession(r.Context(), p.Organization, p.Session.ID)
	if err != nil && !errors.Is(err, action.ErrNotFound) {
		return err
	}
	if err != nil || run.ID != r.PathValue("id") || run.Session != p.Session.ID {
		return action.Errorf(action.ErrForbidden, "other_run", "This token belongs to another session than the one that works on the run.")
	}
	return nil
}

func lowerRole(a, b action.Role) action.Role {
	for _, r := range []action.Role{action.RoleMember, action.RoleAdmin, action.RoleOwner} {
		if a == r || b == r {
			return r
		}
	}
	return action.RoleMember
}

func errBadCredential() error {
	return action.NewError("unauthenticated")
}

// hideNotFound maps an unknown credential to the general error of authentication.
// Other errors, such as those of the database, are returned as they are.
func hideNotFound(err error) error {
	if errors.Is(err, action.ErrNotFound) || errors.Is(err, action.ErrUnauthenticated) {
		return errBadCredential()
	}
	return err
}

// roleTable declares who may open each page and public route; operations of the
// API declare it in package api. A person is a browser login or an API key with
// its role, but pages (all routes outside /api) accept browser logins only. A
// session is an agent with its token. A worker key opens routes for workers and
// its own identity.
//
// Handlers add: a member creates plain sessions only and renames only their own;
// a private integration is changed by its owner, a shared one by admins (see
// view.Manages); only an owner adds, changes or removes owners (see
// [Principal.Outranks]); and the store may keep the creator of a session from
// deciding for it.
func roleTable() map[string]api.Access {
	return map[string]api.Access{
		"GET /{$}":                     api.Member,
		"GET /inbox/more":              api.Member,
		"GET /inbox/cards":             api.Member,
		"GET /inbox/count":             api.Member,
		"GET /inbox/waiters":           api.Member,
		"GET /inbox/requests":          api.Member,
		"GET /inbox/{id}":              api.Member,
		"GET /inbox/{id}/grant":        api.Decider,
		"GET /inbox/{id}/params":       api.Decider,
		"GET /overview":                api.Member,
		"GET /activity":                api.Member,
		"GET /invocations/{id}":        api.Member,
		"GET /connectors":              api.Member,
		"GET /connectors/new":          api.Decider,
		"GET /connectors/{id}":         api.Member,
		"GET /integrations":            api.Member,
		"GET /integrations/{provider}": api.Member,
		"GET /secrets":                 api.Member,

		"GET /automations":         api.Member,
		"GET /automations/{id}":    api.Member,
		"GET /triggers":            api.Member,
		"GET /triggers/new":        api.Decider,
		"GET /triggers/{id}":       api.Member,
		"GET /schedules":           api.Member,
		"GET /runs":                api.Member,
		"GET /runs/{id}":           api.Member,
		"GET /events":              api.Member,
		"GET /events/{id}":         api.Member,
		"GET /events/{id}/context": api.Decider,
		"GET /deliveries":          api.Decider,
		"GET /deliveries/{id}":     api.Decider,

		"GET /policy":                 api.Member,
		"GET /policy/actions":         api.Member,
		"GET /policy/answer":          api.Member,
		"GET /policy/removed":         api.Member,
		"GET /audit":                  api.Member,
		"GET /grants":                 api.Member,
		"GET /sessions":               api.Member,
		"GET /sessions/{id}/evidence": api.Member,
		"GET /env-requests/{id}":      api.Member,
		"GET /models":                 api.Member,
		"GET /workspaces":             api.Member,
		"GET /workspaces/{id}":        api.Member,
		"GET /people":                 api.Member,
		"GET /settings":               api.Member,
		"GET /settings/{rest...}":     api.Member,

		"GET /api/v1/openapi.json": api.Public,
		"GET /healthz":             api.Public,
		"GET /readyz":              api.Public,
		"GET /login":               api.Public,
		"GET /login/oidc":          api.Public,
		"GET /login/oidc/callback": api.Public,
		"POST /login":              api.Public,
		"GET /oauth/callback":      api.Public,
		"GET /oauth/client.json":   api.Public,
		"POST /logout":             api.Public,
		"GET /assets/{file}":       api.Public,

		"GET /oauth/callback/{provider}": api.Public,
	}
}

// Permit returns nil if the principal may use a route with that access. Session
// is the session in the route's path, or empty.
func Permit(a api.Access, p *Principal, session string) error {
	if p.Session != nil {
		switch a {
		case api.Anyone, api.Listener, api.Holder, api.Reader, api.Caller: // the owner of the run is checked in [Server.permit]
			return nil
		case api.Agent, api.Audience, api.Approver:
			if session == p.Session.ID {
				return nil
			}
			return action.Errorf(action.ErrForbidden, "other_session", "This token belongs to another session. Use the path of its own session.")
		}
		return action.NewError("people_only")
	}
	switch isWorker := p.Scope == action.ScopeRuns; {
	case isWorker && (a == api.Anyone || (a == api.Worker || a == api.Holder) && p.runsAllowed):
		return nil
	case isWorker && (a == api.Worker || a == api.Holder): // claiming a run creates a session of its automation
		return action.Errorf(action.ErrForbidden, "role_required", "The creator of this worker key is no longer an owner or admin. Ask one for another key.")
	case isWorker:
		return action.NewError("scope_required")
	case a == api.Anyone, a == api.Listener, a == api.Audience, a == api.Member, a == api.Reader:
		return nil
	case a == api.Agent, a == api.Caller:
		return action.NewError("session_only")
	case isDeciderOnly(a) && p.Role.Decides(), a == api.Owner && p.Role == action.RoleOwner:
		return nil
	case a == api.Hosted && p.hostToken:
		return nil
	case a == api.Hosted:
		return action.NewError("host_only")
	case a == api.Owner:
		return action.Errorf(action.ErrForbidden, "owner_required", "Only an owner of the organization may do this. Ask one.")
	case isDeciderOnly(a):
		return action.Errorf(action.ErrForbidden, "role_required",
			"A %s may not do this. Ask an owner or admin of the organization.", p.Role)
	}
	return action.NewError("forbidden")
}

// isDeciderOnly reports whether of all people only owners and admins may.
func isDeciderOnly(a api.Access) bool {
	return a == api.Decider || a == api.Approver || a == api.Worker || a == api.Holder
}

// Outranks returns nil if the principal may add, change or act for a user with
// that role: only owners manage owners.
func (p *Principal) Outranks(role action.Role) error {
	if p.Role == action.RoleOwner || role != action.RoleOwner {
		return nil
	}
	return action.Errorf(action.ErrForbidden, "owner_required", "Only an owner may do this for an owner.")
}
