package dashboard

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"sallyport/action"
)

// Gate is what the API asks of [gate.Gate].
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

// People keeps users, their API keys and their browsers' logins.
type People interface {
	// Users. By is who changes them, for the record.
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

	// API keys, of which only hashes are kept.
	CreateAPIKey(ctx context.Context, k action.APIKey, hash string) error
	// APIKey returns the row and its hash; ErrNotFound.
	APIKey(ctx context.Context, id string) (k action.APIKey, hash string, err error)
	ListAPIKeys(ctx context.Context, organization string) ([]action.APIKey, error)
	RevokeAPIKey(ctx context.Context, organization, id string, now time.Time) error
	// TouchAPIKey notes that a key is in use, at most once a minute.
	TouchAPIKey(ctx context.Context, id string, used time.Time) error

	// Logins of browsers, and the links that start them.

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

// Sessions keeps agents' sessions and what people prepare for them.
type Sessions interface {
	// MakeSession writes a session and returns it as it is stored, or the one
	// that was made with the same key. ErrConflict: with another wish.
	MakeSession(ctx context.Context, s action.Session, once action.Idempotency) (made action.Session, existed bool, err error)
	// SessionOnce returns the session of a key, if there is one. ErrConflict: it
	// was made with another wish.
	SessionOnce(ctx context.Context, organization string, once action.Idempotency) (s action.Session, found bool, err error)
	// Session returns one by its id alone, which is all that a token proves;
	// ErrNotFound.
	Session(ctx context.Context, id string) (action.Session, error)
	ListSessions(ctx context.Context, f action.SessionFilter) (action.Page[action.Session], error)
	// SessionStates says what goes on in some sessions, by their ids.
	SessionStates(ctx context.Context, organization string, ids []string) (map[string]action.SessionState, error)
	// RevokeSession ends a session and returns the pending invocations that it
	// withdrew. It is done again without harm; ErrNotFound.
	RevokeSession(ctx context.Context, organization, id string) (withdrew []action.Invocation, err error)

	// The status of sessions. Errors: ErrNotFound, and ErrConflict that names the
	// status when it does not lead there.
	PauseSession(ctx context.Context, organization, id string) (action.Session, error)
	ResumeSession(ctx context.Context, organization, id string) (action.Session, error)
	// EndSession stops one or has it failed, and returns the pending
	// invocations that it withdrew.
	EndSession(ctx context.Context, organization, id string, as action.SessionStatus, note string) (s action.Session, withdrew []action.Invocation, err error)
	// ChangeSession changes what is not nil.
	ChangeSession(ctx context.Context, organization, id string, title *string, idle *time.Duration) (action.Session, error)

	// What sessions sent as evidence, but for the bytes.

	// ReserveFile makes room for a file; there tells that its bytes are stored.
	ReserveFile(ctx context.Context, ref action.UploadRef, f action.UploadFile) (there bool, err error)
	// FileStored writes down that the bytes of a file are there.
	FileStored(ctx context.Context, ref action.UploadRef, name string) error
	// Upload returns one with its files; ErrNotFound.
	Upload(ctx context.Context, ref action.UploadRef) (action.Upload, error)
	ListUploads(ctx context.Context, organization, session string, limit int, cursor string) (action.Page[action.Upload], error)

	// Variables that agents ask for, and what people give until it is taken.

	// EnvRequest returns ErrNotFound when the organization has no such.
	EnvRequest(ctx context.Context, organization, id string) (action.EnvRequest, error)
	ListEnvRequests(ctx context.Context, f action.EnvFilter) (action.Page[action.EnvRequest], error)
	// DecideEnv returns ErrGone or ErrConflict when it is late.
	DecideEnv(ctx context.Context, v action.EnvVerdict) (action.EnvRequest, error)
	// TakeEnv hands out what was answered, once; the same key gets it again for
	// a few minutes.
	TakeEnv(ctx context.Context, organization, session, key string) ([]action.SealedEnv, error)

	// How workspaces are brought up, as setup sessions saved it.

	// ListSetups returns an organization's, by name.
	ListSetups(ctx context.Context, organization string) ([]action.Setup, error)
	// Setup returns one; ErrNotFound.
	Setup(ctx context.Context, organization, name string) (action.Setup, error)
}

// Calls reads invocations and what proves them. What the organization does not have is left out.
type Calls interface {
	// Invocation returns ErrNotFound when the organization has no such.
	Invocation(ctx context.Context, organization, id string) (action.Invocation, error)
	ListInvocations(ctx context.Context, f action.InvocationFilter) (action.Page[action.Invocation], error)

	// What is shown beside a page of calls, for all of them at once.
	SessionsOf(ctx context.Context, organization string, ids []string) (map[string]action.Session, error)
	// Waiters tells who waits for those of the invocations that are pending.
	Waiters(ctx context.Context, organization string, ids []string) (map[string]action.CallerState, error)
	// CountWaiting counts the calls and the requests for grants that wait for
	// a person.
	CountWaiting(ctx context.Context, organization string) (calls, requests int, err error)

	// Statistics looks at no more rows than it says.
	Statistics(ctx context.Context, organization string, p action.Period) (action.Statistics, error)

	// Events returns what else happened to an invocation, oldest first.
	Events(ctx context.Context, organization, invocation string) ([]action.Event, error)
	// AppendEvent writes one; ErrNotFound without the invocation.
	AppendEvent(ctx context.Context, e action.Event) error

	// The evidence.

	AuditHeads(ctx context.Context, organization string) ([]action.AuditHead, error)
	// Evidence returns what proves an invocation; ErrNotFound.
	Evidence(ctx context.Context, organization, id string) (action.Evidence, error)
	// Export hands over row after row, oldest first, in constant memory, until
	// yield returns an error, which it returns. The filter's Limit and Cursor are
	// ignored.
	Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error
}

// Files keeps the bytes of evidence.
type Files interface {
	// Put keeps size bytes of that SHA-256, or nothing.
	Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error
	// Get returns what is kept, for the caller to close, and its size.
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}
