package dashboard

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/action"
)

// Gate is what the API asks of [action.Gate].
type Gate interface {
	Caller
	Arbiter
}

// Caller is the session's side of the Gate.
type Caller interface {
	Call(ctx context.Context, c action.Call) (action.Outcome, error)
	Wait(ctx context.Context, s *action.Session, id string, w action.Waiting) (action.Outcome, error)
	Delivered(o action.Outcome)
	Available(ctx context.Context, s *action.Session) (list []action.Available, version string, err error)
	Explain(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Explained, error)
}

// Arbiter is the approver's side of the Gate.
type Arbiter interface {
	Approve(ctx context.Context, v action.Verdict) (action.Invocation, error)
	Deny(ctx context.Context, v action.Verdict) (action.Invocation, error)
	Params(ctx context.Context, organization, id string) (raw []byte, full bool, err error)
	Terms(ctx context.Context, organization string, t *action.Terms, unreviewed bool) (toolHash string, err error)
}

// Decider says what policy says; it is a part of [action.Decider].
type Decider interface {
	Decide(ctx context.Context, s *action.Session, a *action.Action, params json.RawMessage, current bool) (action.Decision, error)
}

// Query says which part of a list is wanted.
type Query struct {
	Limit  int    // between 1 and 100
	Cursor string // opaque, of the page before; empty: from the newest
}

// Page is a part of a list, newest first.
type Page[T any] struct {
	Items  []T
	Next   string // cursor of the next page; empty: there is none
	Total  int    // of the whole list, as far as it was counted
	Capped bool   // Total is a floor: counting stopped there
}

// Sessions keeps agents' sessions.
type Sessions interface {
	// CreateSession writes a session and returns it as it is stored.
	CreateSession(ctx context.Context, s action.Session) (action.Session, error)
	// Session returns one by its id alone, which is all that a token proves;
	// ErrNotFound.
	Session(ctx context.Context, id string) (action.Session, error)
	ListSessions(ctx context.Context, organization string, q Query) (Page[action.Session], error)
	// RevokeSession ends a session and returns the pending invocations that it
	// withdrew. It is done again without harm; ErrNotFound.
	RevokeSession(ctx context.Context, organization, id string) (withdrew []action.Invocation, err error)
}

// Secrets keeps sealed secrets. Nothing here returns a value.
type Secrets interface {
	PutSecret(ctx context.Context, s action.Secret, sealed []byte) error
	ListSecrets(ctx context.Context, organization string) ([]action.Secret, error)
	// DeleteSecret returns ErrNotFound, or ErrConflict while a connector uses it.
	DeleteSecret(ctx context.Context, organization, key string) error
}

// InvocationFilter says which invocations are wanted. Empty fields match all.
type InvocationFilter struct {
	Organization string
	Status       action.Status
	Session      string
	Source       string
	Action       string
	Query
}

// Invocations reads invocations.
type Invocations interface {
	// Invocation returns ErrNotFound when the organization has no such.
	Invocation(ctx context.Context, organization, id string) (action.Invocation, error)
	ListInvocations(ctx context.Context, f InvocationFilter) (Page[action.Invocation], error)
}

// Event is something that happened to an invocation beside its status.
type Event struct {
	Kind string    `json:"kind" example:"late_outcome" doc:"late_outcome: how an execution ended after it was given up; params_revealed: a person read the full params; asked: what its source asked of the caller, and what was answered."`
	By   string    `json:"by,omitempty" doc:"The user who did it."`
	At   time.Time `json:"at"`
	Data raw       `json:"data" doc:"Redacted."`
}

// Users keeps people.
type Users interface {
	CreateUser(ctx context.Context, u action.User) error
	User(ctx context.Context, organization, id string) (action.User, error)
	ListUsers(ctx context.Context, organization string) ([]action.User, error)
	// SetUserRole and DeleteUser refuse the last owner with ErrConflict, in
	// the transaction that changes the row. DeleteUser ends the user's logins.
	SetUserRole(ctx context.Context, organization, id string, role action.Role) error
	DeleteUser(ctx context.Context, organization, id string) error
}

// APIKeys keeps the hashes of API keys.
type APIKeys interface {
	CreateAPIKey(ctx context.Context, k action.APIKey, hash string) error
	// APIKey returns the row and its hash; ErrNotFound.
	APIKey(ctx context.Context, id string) (k action.APIKey, hash string, err error)
	ListAPIKeys(ctx context.Context, organization string) ([]action.APIKey, error)
	RevokeAPIKey(ctx context.Context, organization, id string, now time.Time) error
}

// LoginLink is a one-time sign-in link. Only hashes are stored.
type LoginLink struct {
	Organization string
	User         string
	CodeHash     string
	KeyHash      string
	ExpiresAt    time.Time
}

// Logins keeps browser logins and the links that start them.
type Logins interface {
	CreateLoginLink(ctx context.Context, l LoginLink) error
	// RedeemLoginLink uses up the link of the code hash and writes the login
	// with the cookie's hash and the link's key hash, in one transaction. The
	// login's organization and user are the link's. ErrUnauthenticated when
	// there is no such link, or it was used, or is over at now.
	RedeemLoginLink(ctx context.Context, codeHash, cookieHash string, l action.Login, now time.Time) (action.Login, error)
	// Login returns the login of a cookie's hash and the hash of its page's
	// key; ErrNotFound.
	Login(ctx context.Context, cookieHash string) (l action.Login, keyHash string, err error)
	TouchLogin(ctx context.Context, id string, seen time.Time) error
	DeleteLogin(ctx context.Context, id string) error
}

// Tokens signs session tokens; see [sallyport/internal/token.Signer].
type Tokens interface {
	// Mint returns a token that proves the session's id.
	Mint(session string) string
	// Verify returns the id that a token proves, or ErrUnauthenticated.
	Verify(token string) (session string, err error)
}

// raw is JSON that passes through untouched.
type raw = json.RawMessage
