package action

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// SessionKind tells whether a person sits with the agent.
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

// SessionStatus is where a session is in its life:
//
//	pending ──► running ◄──► paused
//	   └───────────┴────────────┴──► stopped | failed
//
// It is pending until its token is used first. A session whose time is over
// keeps its status: see [Session.Live].
type SessionStatus string

// The statuses of a session.
const (
	SessionPending SessionStatus = "pending"
	SessionRunning SessionStatus = "running"
	SessionPaused  SessionStatus = "paused" // begins no calls
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

// Ended reports whether a session of this status never lives again.
func (s SessionStatus) Ended() bool { return s == SessionStopped || s == SessionFailed }

// ToolListing is what an agent's list of tools holds.
type ToolListing string

// The listings. The empty one is the gateway's setting.
const (
	ListAll    ToolListing = "all"    // every tool that it may use
	ListSearch ToolListing = "search" // tools that find and call the others
)

// Valid reports whether there is such a listing.
func (t ToolListing) Valid() bool { return t == "" || t == ListAll || t == ListSearch }

// NeverIdle is the IdleTimeout of a session that silence does not stop.
const NeverIdle time.Duration = -1

// LeftOut is an integration that a session was to use and was not bound to,
// since its token could not be had when the session was minted.
type LeftOut struct {
	Integration string `json:"integration" doc:"ID."`
	Name        string `json:"name"`
	Reason      string `json:"reason"`
}

// Idempotency says that a session is to be made once, however often it is asked for.
type Idempotency struct {
	Key  string // of the organization; empty: it is made each time
	Hash string // of who asks for what
}

// Session is one agent's sandbox session. Its token proves its ID and nothing
// else: all the rest is read from its row.
type Session struct {
	ID           string      `json:"id"`
	Organization string      `json:"organization_id"`
	Kind         SessionKind `json:"kind"`
	Type         SessionType `json:"type"`
	Automation   string      `json:"automation_id,omitempty"` // implies Unattended
	Group        string      `json:"group,omitempty"`
	Task         string      `json:"task,omitempty"`     // fixed when minted
	Event        string      `json:"event_id,omitempty"` // inbound event that started it
	Title        string      `json:"title,omitempty"`

	Status SessionStatus `json:"status" enum:"pending,running,paused,stopped,failed" doc:"pending until the first use of its token; an expired session keeps its status."`
	Tools  ToolListing   `json:"tools,omitempty" enum:"all,search" doc:"Tools in its list; missing: the gateway's setting."`
	Prompt string        `json:"prompt,omitempty" doc:"Its own system prompt; missing in lists, and if it uses the prompt of its type."`
	Model  string        `json:"model,omitempty" doc:"Canonical id of a model."`
	// LastSeenAt is when its token was used last, to within a minute; nil:
	// never.
	LastSeenAt *time.Time `json:"last_seen_at,omitempty" doc:"Last use of its token, with a precision of a minute."`
	// IdleTimeout is after how long a silence it is stopped. Zero: the
	// gateway's; [NeverIdle]: never.
	IdleTimeout time.Duration `json:"-"`
	EndedNote   string        `json:"ended_note,omitempty" doc:"Why it stopped or failed."`
	LeftOut     []LeftOut     `json:"left_out,omitempty" doc:"Requested integrations that it does not have."`

	// Connections are the ids of the integrations that its agent may use, or
	// [AllConnections] alone; fixed when minted. Empty: none.
	Connections []string   `json:"connections,omitempty"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"` // nil: never
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
	// CompletedAt is when its agent said that its run is done. Until the session
	// expires, a few minutes later, it is only told again what it was answered.
	CompletedAt *time.Time `json:"completed_at,omitempty"`
}

// byAutomation, with an automation's id, makes the sessions of its runs. No
// person's name begins so.
const automationCreatorPrefix = "automation:"

// AutomationCreator is in whose name the sessions of an automation's runs are made.
func AutomationCreator(id string) string { return automationCreatorPrefix + id }

// ForRun reports whether the session was made for a run, by the gateway: a person
// can name an automation and an event, too.
func (s *Session) ForRun() bool {
	return s.Type == TypeAutomation && s.Event != "" && s.CreatedBy == AutomationCreator(s.Automation)
}

// Accepts returns nil while the session may begin calls, and otherwise what
// Working says, or an [*Error] of kind ErrConflict while it is paused.
func (s *Session) Accepts(now time.Time) error {
	if err := s.Working(now); err != nil || s.Status != SessionPaused {
		return err
	}
	return NewError(CodePaused)
}

// Live returns nil while the session's token is good, and otherwise an
// [*Error] of kind ErrUnauthenticated that says why it is not.
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

// The codes with which a session that lives is refused new calls. Whoever speaks
// to programs hands them on, so that they can be told apart.
const (
	CodePaused    = "session_paused"    // an owner or admin can resume it
	CodeCompleted = "session_completed" // it said that it is done
)

// What a session's EndedNote says when nobody wrote it: that it was revoked, or,
// with how long it was, that it was idle.
const (
	NoteRevoked = "The session was revoked."
	NoteIdle    = "It was idle for "
)

// endReason is how the session ended, to its agent. The note of a person is for people.
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

// Working returns nil while the session may do something new: it is live
// (ErrUnauthenticated), and did not say that it is done (ErrConflict).
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
	Ended        bool          // only the others
	Status       SessionStatus // of those that have not expired, or that ended
	Limit        int           // zero: 50; at most 500
	Cursor       string        // of the page before; empty: the newest
}

// SessionState is the recent activity of a session.
type SessionState struct {
	LastCall *time.Time // nil: none that is kept
	Pending  int        // calls that wait for approval
	Grants   int        // for this session alone, that could cover a call now
}

// Check refuses a session that policy could not name or that could not begin,
// and fills in kind, type and status.
func (s *Session) Check() error {
	err := firstError(
		checkOptional("/group", "group", s.Group), checkOptional("/task", "task", s.Task),
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
	switch {
	case s.Group == DefaultSetup:
		return invalid("/group", fmt.Sprintf("No group is called %q: it is the setup of sessions without a group. Leave the group out, or choose another name.", s.Group))
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

// CheckIdle refuses an idle timeout that no session has.
func CheckIdle(d time.Duration) error {
	if d < 0 && d != NeverIdle || d > 0 && d%time.Second != 0 {
		return invalid("/idle_timeout", "An idle timeout is whole seconds above zero.")
	}
	return nil
}

// Setup is how a workspace is brought up, as setup sessions found out. It holds no
// secrets: of variables only the names.
type Setup struct {
	Organization string `json:"-"`
	Name         string `json:"name"` // see [SetupName]
	// ServiceCommands are [{"name","command","cwd","workspacePath"}].
	ServiceCommands json.RawMessage `json:"service_commands"`
	// EnvFiles are [{"path","workspacePath","format","mode","keys":[{"key","required"}]}].
	EnvFiles  json.RawMessage `json:"env_files"`
	UpdatedBy string          `json:"updated_by"` // a session
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// DefaultSetup is the setup of the sessions without a group. It is no group's name.
const DefaultSetup = "default"

// SetupName is the name of the setup that a session saves: its group's, or the one
// that is there without groups.
func SetupName(s *Session) string {
	if s.Group != "" {
		return s.Group
	}
	return DefaultSetup
}
