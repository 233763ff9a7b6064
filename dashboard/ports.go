package dashboard

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/action"
)

// Gate is what the API asks of [action.Gate].
type Gate interface {
	// For sessions.
	Call(ctx context.Context, c *action.Call) (*action.Outcome, error)
	Wait(ctx context.Context, s *action.Session, id string, w action.Waiting) (*action.Outcome, error)
	Delivered(o *action.Outcome)
	Available(ctx context.Context, s *action.Session) (list []action.Available, version string, err error)
	Explain(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Explained, error)
	// For people who decide.
	Approve(ctx context.Context, v action.Verdict) (action.Invocation, error)
	Deny(ctx context.Context, v action.Verdict) (action.Invocation, error)
	Params(ctx context.Context, organization, id string) (raw []byte, full bool, err error)
	Terms(ctx context.Context, organization string, t *action.Terms, unreviewed bool) (toolHash string, err error)
}

// Decider says what policy says; it is a part of [action.Decider].
type Decider interface {
	Decide(ctx context.Context, s *action.Session, a *action.Action, params json.RawMessage, current bool) (action.Decision, error)
}

// Sessions keeps agents' sessions.
type Sessions interface {
	// MakeSession writes a session and returns it as it is stored, or the one
	// that was made with the same key. ErrConflict: with another wish.
	MakeSession(ctx context.Context, s action.Session, once action.Once) (made action.Session, existed bool, err error)
	// SessionOnce returns the session of a key, if there is one. ErrConflict: it
	// was made with another wish.
	SessionOnce(ctx context.Context, organization string, once action.Once) (s action.Session, found bool, err error)
	// Session returns one by its id alone, which is all that a token proves;
	// ErrNotFound.
	Session(ctx context.Context, id string) (action.Session, error)
	ListSessions(ctx context.Context, f action.SessionFilter) (action.Page[action.Session], error)
	// SessionStates says what goes on in some sessions, by their ids.
	SessionStates(ctx context.Context, organization string, ids []string) (map[string]action.SessionState, error)
	// RevokeSession ends a session and returns the pending invocations that it
	// withdrew. It is done again without harm; ErrNotFound.
	RevokeSession(ctx context.Context, organization, id string) (withdrew []action.Invocation, err error)
}

// SessionLife moves sessions from status to status. Errors: ErrNotFound, and
// ErrConflict that names the status when it does not lead there.
type SessionLife interface {
	PauseSession(ctx context.Context, organization, id string) (action.Session, error)
	ResumeSession(ctx context.Context, organization, id string) (action.Session, error)
	// EndSession stops one or has it failed, and returns the pending
	// invocations that it withdrew.
	EndSession(ctx context.Context, organization, id string, as action.SessionStatus, note string) (s action.Session, withdrew []action.Invocation, err error)
	// ChangeSession changes what is not nil.
	ChangeSession(ctx context.Context, organization, id string, title *string, idle *time.Duration) (action.Session, error)
}

// Secrets keeps sealed secrets. Nothing here returns a value.
type Secrets interface {
	PutSecret(ctx context.Context, s action.Secret, sealed []byte) error
	ListSecrets(ctx context.Context, organization string) ([]action.Secret, error)
	// DeleteSecret returns ErrNotFound, or ErrConflict while a connector uses it.
	DeleteSecret(ctx context.Context, organization, key string) error
}

// Invocations reads invocations.
type Invocations interface {
	// Invocation returns ErrNotFound when the organization has no such.
	Invocation(ctx context.Context, organization, id string) (action.Invocation, error)
	ListInvocations(ctx context.Context, f action.InvocationFilter) (action.Page[action.Invocation], error)
}

// Desk reads what people who decide see beside a page of calls, for all of them
// at once. What the organization has not is left out.
type Desk interface {
	SessionsOf(ctx context.Context, organization string, ids []string) (map[string]action.Session, error)
	// Waiters tells who waits for those of the invocations that are pending.
	Waiters(ctx context.Context, organization string, ids []string) (map[string]action.Waiter, error)
	AutomationNames(ctx context.Context, organization string) (map[string]string, error)
	// CountWaiting counts the calls and the requests for grants that wait for
	// a person.
	CountWaiting(ctx context.Context, organization string) (calls, requests int, err error)
}

// Statistics counts invocations.
type Statistics interface {
	// Statistics looks at no more rows than it says.
	Statistics(ctx context.Context, organization string, p action.Period) (action.Statistics, error)
}

// Users keeps people. By is who changes them, for the record.
type Users interface {
	CreateUser(ctx context.Context, u action.User, by string) error
	User(ctx context.Context, organization, id string) (action.User, error)
	ListUsers(ctx context.Context, organization string) ([]action.User, error)
	// SetUserRole and DeleteUser refuse the last owner with ErrConflict, in
	// the transaction that changes the row; SetUserRole also whose role another
	// house says. DeleteUser ends the user's logins, and keeps somebody of
	// another house away.
	SetUserRole(ctx context.Context, organization, id string, role action.Role, by string) error
	DeleteUser(ctx context.Context, organization, id, by string) error

	// AdmitUser returns the user whom another house knows as in, made or
	// changed to what it says now. ErrForbidden when he was removed,
	// ErrNotFound without the organization, and ErrConflict when the last owner
	// would be one no more: then he is cut off.
	AdmitUser(ctx context.Context, in action.Identity) (action.User, error)
	// CutOffUser ends the logins, links and API keys of somebody to whom
	// another house gives no role; id is empty when there was nothing to end.
	CutOffUser(ctx context.Context, organization, issuer, subject string) (id string, err error)
	// RemovedUsers are those of other houses who are kept away, until
	// ReadmitUser by somebody of that role; ErrNotFound, or ErrForbidden when
	// only an owner may.
	RemovedUsers(ctx context.Context, organization string) ([]action.RemovedUser, error)
	ReadmitUser(ctx context.Context, organization, id string, as action.Role, by string) error
}

// APIKeys keeps the hashes of API keys.
type APIKeys interface {
	CreateAPIKey(ctx context.Context, k action.APIKey, hash string) error
	// APIKey returns the row and its hash; ErrNotFound.
	APIKey(ctx context.Context, id string) (k action.APIKey, hash string, err error)
	ListAPIKeys(ctx context.Context, organization string) ([]action.APIKey, error)
	RevokeAPIKey(ctx context.Context, organization, id string, now time.Time) error
	// TouchAPIKey notes that a key is in use, at most once a minute.
	TouchAPIKey(ctx context.Context, id string, used time.Time) error
}

// Logins keeps browser logins and the links that start them.
type Logins interface {
	// CreateLoginLink returns ErrConflict when there was one with the code.
	CreateLoginLink(ctx context.Context, l action.LoginLink) error
	// RedeemLoginLink uses up the link of the code hash and writes the login
	// with the cookie's hash and the link's key hash, in one transaction. The
	// login's organization and user are the link's. ErrUnauthenticated when
	// there is no such link, or it was used, or is over at now.
	RedeemLoginLink(ctx context.Context, codeHash, cookieHash string, l action.Login, now time.Time) (action.Login, error)
	// Login returns the valid login of a cookie's hash and the hash of its
	// page's key; ErrNotFound, also when it is expired or idle.
	Login(ctx context.Context, cookieHash string) (l action.Login, keyHash string, err error)
	TouchLogin(ctx context.Context, id string, seen time.Time) error
	DeleteLogin(ctx context.Context, id string) error
	// ListLogins returns a user's logins that are good, the newest first.
	ListLogins(ctx context.Context, organization, user string) ([]action.Login, error)
	// EndLogin ends one from elsewhere; ErrNotFound. EndLogins ends all of a
	// user's, with links that are not used yet.
	EndLogin(ctx context.Context, organization, user, id string) error
	EndLogins(ctx context.Context, organization, user string, why action.LoginEnd) (n int, err error)
	// LoginEnd says why the login of a cookie's hash is good no more; empty
	// when it is good, or nothing is known of it.
	LoginEnd(ctx context.Context, cookieHash string) (action.LoginEnd, error)
}

// raw is JSON that passes through untouched.
type raw = json.RawMessage
