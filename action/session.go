package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// SessionKind is whether a person works with the agent.
type SessionKind string

// The kinds of session.
const (
	Interactive SessionKind = "interactive"
	Unattended  SessionKind = "unattended"
)

// SessionType is what a session is for.
type SessionType string

// The types of session.
const (
	TypeCoding     SessionType = "coding"
	TypeSetup      SessionType = "setup"
	TypeAutomation SessionType = "automation"
)

// SessionStatus is the status of a session:
//
//	pending ──► running ◄──► paused
//	   └───────────┴────────────┴──► stopped | failed
//
// It is pending until the first use of its token. An expired session keeps
// its status; see [Session.Live].
type SessionStatus string

// The statuses of a session.
const (
	SessionPending SessionStatus = "pending"
	SessionRunning SessionStatus = "running"
	SessionPaused  SessionStatus = "paused" // starts no calls
	SessionStopped SessionStatus = "stopped"
	SessionFailed  SessionStatus = "failed"
)

// Valid reports whether there is such a status.
func (s SessionStatus) Valid() bool {
	switch s {
	case SessionPending, SessionRunning, SessionPaused, SessionStopped, SessionFailed:
		return true
	}
	return false
}

// Ended reports whether the status is final.
func (s SessionStatus) Ended() bool { return s == SessionStopped || s == SessionFailed }

// ToolListing is the content of an agent's tool list.
type ToolListing string

// The listings. Empty: the gateway's setting.
const (
	ListAll    ToolListing = "all"    // every available tool
	ListSearch ToolListing = "search" // tools to find and call the others
)

// Valid reports whether there is such a listing.
func (t ToolListing) Valid() bool { return t == "" || t == ListAll || t == ListSearch }

// NeverIdle is the IdleTimeout of a session without one.
const NeverIdle time.Duration = -1

// LeftOut is a requested integration that a session does not have, because
// its token was not available when the session was created.
type LeftOut struct {
	Integration string `json:"integration" doc:"ID."`
	Name        string `json:"name"`
	Reason      string `json:"reason"`
}

// Idempotency makes creating a session idempotent.
type Idempotency struct {
	Key  string // unique in the organization; empty: not idempotent
	Hash string // of the caller and the request
}

// Session is an agent's session. Its token proves only the ID; everything
// else is read from its row.
type Session struct {
	ID           string      `json:"id"`
	Organization string      `json:"organization_id"`
	Kind         SessionKind `json:"kind"`
	Type         SessionType `json:"type"`
	Automation   string      `json:"automation_id,omitempty"` // implies Unattended
	Group        string      `json:"group,omitempty"`
	Task         string      `json:"task,omitempty"`     // set at creation
	Event        string      `json:"event_id,omitempty"` // inbound event that started it
	Title        string      `json:"title,omitempty"`

	Status SessionStatus `json:"status" enum:"pending,running,paused,stopped,failed" doc:"pending until the first use of its token; an expired session keeps its status."`
	Tools  ToolListing   `json:"tools,omitempty" enum:"all,search" doc:"Tools in its list; missing: the gateway's setting."`
	Prompt string        `json:"prompt,omitempty" doc:"Its own system prompt; missing in lists, and if it uses the prompt of its type."`
	Model  string        `json:"model,omitempty" doc:"Canonical id of a model."`
	// LastSeenAt is when its token was used last, to within a minute; nil:
	// never.
	LastSeenAt *time.Time `json:"last_seen_at,omitempty" doc:"Last use of its token, with a precision of a minute."`
	// IdleTimeout is the idle time after which it is stopped. Zero: the
	// gateway's setting; [NeverIdle]: none.
	IdleTimeout time.Duration `json:"-"`
	EndedNote   string        `json:"ended_note,omitempty" doc:"Why it stopped or failed."`
	LeftOut     []LeftOut     `json:"left_out,omitempty" doc:"Requested integrations that it does not have."`

	// Workspace is what it works on; its repositories are those of the workspace
	// when it was created.
	Workspace    string              `json:"workspace_id,omitempty"`
	Repositories []SessionRepository `json:"repositories,omitempty"`
	// Branch and BaseCommit are, at creation, those of the first repository.
	Branch      string       `json:"-"`
	BaseCommit  string       `json:"-"`
	FirstPrompt string       `json:"first_prompt,omitempty" doc:"Missing in lists."`
	Parent      string       `json:"parent_session_id,omitempty" doc:"Session whose work it continues."`
	Snapshot    string       `json:"snapshot_id,omitempty" doc:"Snapshot that its sandbox starts from; missing: that of the workspace."`
	Provider    string       `json:"provider,omitempty" doc:"Provider of its sandbox; missing: that of the workspace."`
	Sandbox     SandboxState `json:"sandbox_state" enum:"none,queued,starting,running,migrating,paused,failed,gone"`
	// Client and ClientMetadata are of the program that created it, which alone
	// knows what the metadata mean.
	Client         string          `json:"client,omitempty" doc:"Kind of program that it was created with."`
	ClientMetadata json.RawMessage `json:"client_metadata,omitempty" doc:"Of the client; missing in lists."`
	Origin         Origin          `json:"origin,omitempty" enum:"page,api,run" doc:"How it was created; missing: unknown."`
	Budget

	// Connections are the IDs of the integrations that its agent can use, or
	// only [AllConnections]; set at creation. Empty: none.
	Connections []string   `json:"connections,omitempty"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"` // nil: never
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
	// CompletedAt is when its agent reported that the run is done. Until the
	// session expires, minutes later, it only gets its last reply again.
	CompletedAt *time.Time `json:"completed_at,omitempty"`
}

// SessionRepository is a repository of a session.
type SessionRepository struct {
	WorkspaceRepository
	BaseCommit string `json:"base_commit,omitempty" doc:"Commit that the work starts from, in hex."`
}

// SandboxState is the state of a session's sandbox.
type SandboxState string

// The states. Unlike a paused session, a paused sandbox resumes when somebody wants it.
const (
	SandboxNone      SandboxState = "none" // its agent runs elsewhere, or was never started
	SandboxQueued    SandboxState = "queued"
	SandboxStarting  SandboxState = "starting"
	SandboxRunning   SandboxState = "running"
	SandboxMigrating SandboxState = "migrating"
	SandboxPaused    SandboxState = "paused"
	SandboxFailed    SandboxState = "failed"
	SandboxGone      SandboxState = "gone"
)

// Origin is how a session was created.
type Origin string

// The origins.
const (
	OriginPage Origin = "page"
	OriginAPI  Origin = "api"
	OriginRun  Origin = "run"
)

// Budget limits what a session uses. Zero: no limit of its own.
type Budget struct {
	MaxTokens int64 `json:"max_tokens,omitempty" bun:",nullzero" doc:"Tokens of models, input and output."`
	MaxCost   int64 `json:"max_cost_micros,omitempty" bun:"max_cost_micros,nullzero" doc:"Cost of models, in millionths of a US dollar."`
	MaxCalls  int64 `json:"max_calls,omitempty" bun:",nullzero" doc:"Calls of actions."`
}

// Check validates the budget.
func (b *Budget) Check() error {
	for field, n := range map[string]int64{"/max_tokens": b.MaxTokens, "/max_cost_micros": b.MaxCost, "/max_calls": b.MaxCalls} {
		if n < 0 {
			return invalid(field, "A budget is above zero, or missing.")
		}
	}
	return nil
}

// automationCreatorPrefix precedes the automation's ID in CreatedBy of run
// sessions. No user ID begins so.
const automationCreatorPrefix = "automation:"

// AutomationCreator returns CreatedBy of the sessions of an automation's
// runs.
func AutomationCreator(id string) string { return automationCreatorPrefix + id }

// ForRun reports whether the gateway created the session for a run. People
// can also create sessions with an automation and an event.
func (s *Session) ForRun() bool {
	return s.Type == TypeAutomation && s.Event != "" && s.CreatedBy == AutomationCreator(s.Automation)
}

// Accepts returns nil if the session may start calls, the error of Working,
// or an [*Error] of kind ErrConflict while it is paused.
func (s *Session) Accepts(now time.Time) error {
	if err := s.Working(now); err != nil || s.Status != SessionPaused {
		return err
	}
	return NewError(CodePaused)
}

// Live returns nil if the session's token is valid, and otherwise an [*Error]
// of kind ErrUnauthenticated with the reason.
func (s *Session) Live(now time.Time) error {
	switch {
	case s.RevokedAt != nil && s.Event != "":
		return Errorf(ErrUnauthenticated, "session_revoked", "The run of this session has ended or was reassigned. Stop.")
	case s.RevokedAt != nil:
		return Errorf(ErrUnauthenticated, "session_revoked", "%s. Ask for a new session token.", s.endReason())
	case s.ExpiresAt != nil && !now.Before(*s.ExpiresAt):
		return NewError("session_expired")
	}
	return nil
}

// The codes of errors of a live session that may not start calls. MCP and
// HTTP pass them on, so that programs can tell them apart.
const (
	CodePaused    = "session_paused"    // an owner or admin can resume it
	CodeCompleted = "session_completed" // its run is complete
)

// EndedNote of a session that was revoked, or stopped when idle (followed by
// the idle time).
const (
	NoteRevoked = "The session was revoked."
	NoteIdle    = "It was idle for "
)

// endReason describes to the agent how the session ended. A person's note is
// not included.
func (s *Session) endReason() string {
	switch {
	case s.Status == SessionFailed:
		return "A person marked this session as failed"
	case s.Status != SessionStopped, s.EndedNote == NoteRevoked:
		return "This session was revoked"
	case strings.HasPrefix(s.EndedNote, NoteIdle):
		return "This session was stopped because it was idle"
	}
	return "A person stopped this session"
}

// Working returns nil if the session is live (else ErrUnauthenticated) and
// its run is not complete (else ErrConflict).
func (s *Session) Working(now time.Time) error {
	if err := s.Live(now); err != nil {
		return err
	}
	if s.CompletedAt != nil {
		return NewError(CodeCompleted)
	}
	return nil
}

// SessionFilter selects sessions of an organization. Empty fields match all.
type SessionFilter struct {
	Organization string
	Automation   string
	Live         bool          // only those whose token is valid now
	Ended        bool          // only ended or expired ones
	Status       SessionStatus // of sessions that have not expired, or that ended
	Limit        int           // zero: 50; at most 500
	Cursor       string        // of the page before; empty: the newest
}

// SessionState is the recent activity of a session.
type SessionState struct {
	LastCall *time.Time // nil: no stored call
	Pending  int        // pending calls
	Grants   int        // usable grants of scope session
}

// Check validates the session, and sets the defaults of kind, type and
// status.
func (s *Session) Check() error {
	err := firstError(
		CheckGroup("/group", s.Group), checkOptional("/task", "task", s.Task),
		checkOptional("/automation_id", "automation", s.Automation), checkOptional("/event_id", "event", s.Event),
	)
	if err != nil {
		return err
	}
	if s.Kind == "" {
		s.Kind = Interactive
		if s.Automation != "" {
			s.Kind = Unattended
		}
	}
	if s.Type == "" {
		s.Type = TypeCoding
	}
	if s.Status == "" {
		s.Status = SessionPending
	}
	if s.Sandbox == "" {
		s.Sandbox = SandboxNone
	}
	if err := s.checkWork(); err != nil {
		return err
	}
	switch {
	case s.Kind != Interactive && s.Kind != Unattended:
		return invalid("/kind", "A session is interactive or unattended.")
	case s.Kind == Interactive && s.Automation != "":
		return invalidField("/kind", "A session of an automation is unattended; leave out kind.")
	case s.Type != TypeCoding && s.Type != TypeSetup && s.Type != TypeAutomation:
		return invalid("/type", "A session's type is coding, setup or automation.")
	case s.Status.Ended() || !s.Status.Valid():
		return invalid("/status", "A session begins pending, running or paused.")
	case !s.Tools.Valid():
		return invalid("/tools", "A session's list of tools is all or search.")
	}
	return CheckIdle(s.IdleTimeout)
}

const (
	maxFirstPrompt    = 64 << 10 // bytes
	maxClientMetadata = 16 << 10 // bytes
)

var commitHash = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// checkWork validates what the session works on.
func (s *Session) checkWork() error {
	switch {
	case len(s.FirstPrompt) > maxFirstPrompt || !utf8.ValidString(s.FirstPrompt) || strings.ContainsRune(s.FirstPrompt, 0):
		return invalid("/first_prompt", fmt.Sprintf("A prompt is text of at most %d bytes.", maxFirstPrompt))
	case len(s.ClientMetadata) > maxClientMetadata || len(s.ClientMetadata) > 0 && (!json.Valid(s.ClientMetadata) || s.ClientMetadata[0] != '{'):
		return invalid("/client_metadata", fmt.Sprintf("Metadata are a JSON object of at most %d bytes.", maxClientMetadata))
	case s.Type == TypeSetup && s.Workspace == "":
		return NewError("workspace_required").WithField("/workspace")
	}
	for i := range s.Repositories {
		r := &s.Repositories[i]
		if err := CheckBranch(fmt.Sprintf("/repositories/%d/branch", i), r.Branch); err != nil {
			return err
		}
		if r.BaseCommit != "" && !commitHash.MatchString(r.BaseCommit) {
			return invalid("/base_commit", "A commit is its whole hash in lower-case hex.")
		}
	}
	return firstError(
		checkOptional("/client", "client", s.Client), checkOptional("/provider", "provider", s.Provider),
		checkOptional("/snapshot_id", "snapshot", s.Snapshot), s.Budget.Check(),
	)
}

// CheckGroup validates the group of a session or automation; empty: none.
func CheckGroup(field, group string) error {
	return checkOptional(field, "group", group)
}

// CheckIdle validates an idle timeout.
func CheckIdle(d time.Duration) error {
	if d < 0 && d != NeverIdle || d > 0 && d%time.Second != 0 {
		return invalid("/idle_timeout", "An idle timeout is whole seconds above zero.")
	}
	return nil
}

// Role is what a person, or an API key, may do in an organization.
type Role string

// The roles, highest first. A member reads and creates plain sessions, and
// cannot approve or change anything.
const (
	RoleOwner  Role = "owner"
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// Valid reports whether r is one of the three roles.
func (r Role) Valid() bool { return r == RoleOwner || r == RoleAdmin || r == RoleMember }

// Check validates the role.
func (r Role) Check() error {
	if !r.Valid() {
		return invalid("/role", "A role is owner, admin or member.")
	}
	return nil
}

// Decides reports whether the role may approve, deny and change policy.
func (r Role) Decides() bool { return r == RoleOwner || r == RoleAdmin }

// User is a person of an organization.
type User struct {
	ID           string     `json:"id" bun:"id,pk"`
	Organization string     `json:"organization_id" bun:"organization_id,pk"`
	Name         string     `json:"name"`
	Role         Role       `json:"role"`
	Issuer       string     `json:"issuer,omitempty" bun:",nullzero"` // of the identity provider that determines the person and the role; empty: a local user
	Subject      string     `json:"-" bun:",nullzero"`                // the person's ID at the issuer
	CreatedAt    time.Time  `json:"created_at"`
	SeenAt       *time.Time `json:"seen_at,omitempty"` // in a browser; nil: never
}

// Check validates the user.
func (u *User) Check() error {
	switch {
	case u.ID == "":
		return errors.New("a user needs an id")
	case u.Name == "":
		return invalid("/name", "A user needs a name.")
	}
	return u.Role.Check()
}

// Identity is a person at an identity provider. The issuer and subject
// identify the person; names are not unique.
type Identity struct {
	Organization string
	Issuer       string
	Subject      string
	Name         string
	Role         Role
	AssertedAt   time.Time // when the identity provider asserted it; zero: unknown
}

// RemovedUser is a person of an identity provider who was removed, and cannot
// sign in until readmitted.
type RemovedUser struct {
	ID        string    `json:"id" bun:"user_id" doc:"Of a deleted user."`
	Name      string    `json:"name"`
	Role      Role      `json:"role" doc:"When removed. Only an owner lets an owner in again."`
	Issuer    string    `json:"issuer"`
	RemovedBy string    `json:"removed_by"`
	RemovedAt time.Time `json:"removed_at"`
}

// APIKey is a credential for programs, which act as its creator. Only a hash
// of the key is stored.
type APIKey struct {
	ID           string     `json:"id" bun:"id,pk"`
	Organization string     `json:"organization_id" bun:"organization_id,pk"`
	Name         string     `json:"name"`
	User         string     `json:"user_id" bun:"user_id"`
	Role         Role       `json:"role"`
	Scope        KeyScope   `json:"scope,omitempty" bun:",nullzero"` // empty: everything its role may do
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"` // nil: never
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
	UsedAt       *time.Time `json:"used_at,omitempty" bun:",scanonly"` // to a minute; nil: never
}

// KeyScope limits a key.
type KeyScope string

// ScopeRuns is for workers: the key claims, renews and finishes runs, and
// nothing else.
const ScopeRuns KeyScope = "runs"

// Login is a browser sign-in. Only hashes of its cookie and page key are
// stored.
type Login struct {
	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	User         string `bun:"user_id"`
	CreatedAt    time.Time
	Via          Via `bun:",nullzero"`
	SeenAt       time.Time
	ExpiresAt    time.Time
}

// LoginLink is a one-time sign-in link. Only hashes are stored: of its code
// and of the page key that the login inherits.
type LoginLink struct {
	Organization string `bun:"organization_id"`
	User         string `bun:"user_id"`
	CodeHash     string `bun:",pk"`
	KeyHash      string
	Via          Via       `bun:",nullzero"` // empty: link
	ExpiresAt    time.Time // at most ten minutes from now
}

// Via is the sign-in method.
type Via string

// The sign-in methods.
const (
	ViaLink Via = "link" // a one-time link from a person or the server
	ViaOIDC Via = "oidc" // an OpenID provider
	ViaHost Via = "host" // a one-time link for the bearer of a host application's token
)

// LoginEnd is why a login ended.
type LoginEnd string

// The ends of logins.
const (
	EndExpired    LoginEnd = "expired"
	EndIdle       LoginEnd = "idle"
	EndEverywhere LoginEnd = "everywhere" // the person signed out everywhere
	EndAdmin      LoginEnd = "admin"      // an owner or admin ended it
	EndRole       LoginEnd = "role"       // the identity provider no longer gives a role
	EndRemoved    LoginEnd = "removed"    // the person was removed
)
