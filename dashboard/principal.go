package dashboard

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

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
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, errBadCredential()
	}
	switch text = strings.TrimSpace(text); {
	case strings.HasPrefix(text, token.SessionPrefix):
		return s.identifySession(ctx, text)
	case strings.HasPrefix(text, token.APIKeyPrefix):
		return s.identifyKey(ctx, text)
	case s.hostTokens != nil && isJWT(text):
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
	if err := p.checkWorking(r, s.Now()); err != nil {
		return err
	}
	if err := Permit(who, p, r.PathValue("session")); err != nil || (who != api.Holder && who != api.Reader) || p.Session == nil {
		return err
	}
	run, err := s.Inbound.RunOfSession(r.Context(), p.Organization, p.Session.ID)
	if err != nil && !errors.Is(err, action.ErrNotFound) {
		return err
	}
	if err != nil || run.ID != r.PathValue("id") || run.Session != p.Session.ID {
		return action.Errorf(action.ErrForbidden, "other_run", "This token is not of the session that works on the run; use that one's.")
	}
	return nil
}

// checkWorking refuses changes by a completed session. Calls pass: the Gate
// returns the results of calls that were answered before.
func (p *Principal) checkWorking(r *http.Request, now time.Time) error {
	calls := strings.HasPrefix(r.URL.Path, "/internal/tools/") || strings.HasSuffix(r.URL.Path, "/actions/invoke")
	if p.Session == nil || p.Session.CompletedAt == nil || r.Method == http.MethodGet || calls {
		return nil
	}
	return p.Session.Working(now)
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
