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

// Principal is who sends a request.
type Principal struct {
	Organization string
	Session      *action.Session // an agent's session; nil for a person
	User         string          // the person's id
	Name         string
	Role         action.Role   // of a person
	Login        *action.Login // of a browser
	CredentialID string        // the id of that, or of the person's API key
	LimitedRole  bool          // that key's role is below the person's
	Scope        action.KeyScope
	runsAllowed  bool // of a key for workers: its person still decides
	hostToken    bool // with a token of the host application
}

// By returns what a row says of who did it.
func (p *Principal) By() string { return p.User }

// WorkerID is what a run says of who works on it.
func (p *Principal) WorkerID() string {
	if p.Scope == action.ScopeRuns {
		return "key:" + p.CredentialID
	}
	return p.By()
}

// Viewer is whose private and own integrations the principal sees and manages;
// empty: nobody's. A key of a lesser role may lie where agents read it, so that
// whoever has it is not taken for the person.
func (p *Principal) Viewer() string {
	if p.LimitedRole {
		return ""
	}
	return p.User
}

// Identify returns who sends r, or an error of kind ErrUnauthenticated. An
// Authorization header is looked at alone: a browser never sends one by
// itself.
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

// identifyKey gives a key the lesser of its own role and its user's: a person
// who was demoted or removed keeps nothing through a key made before.
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

// permit returns nil when the principal may use a route of that access, for
// what the path names.
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

// checkWorking refuses what a session would change that said that it is done. Calls go
// to the Gate, which knows those that were answered before.
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

// hideNotFound keeps a failing database apart from a credential that nobody
// has.
func hideNotFound(err error) error {
	if errors.Is(err, action.ErrNotFound) || errors.Is(err, action.ErrUnauthenticated) {
		return errBadCredential()
	}
	return err
}
