package action

import "time"

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
	// Connections are the ids of the integrations that its agent may use, or
	// [AllConnections] alone; fixed when minted. Empty: none.
	Connections []string   `json:"connections,omitempty"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"` // nil: never
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
}

// Live returns nil while the session's token is good, and otherwise an
// [*Error] of kind ErrUnauthenticated that says why it is not.
func (s *Session) Live(now time.Time) error {
	switch {
	case s.RevokedAt != nil:
		return Errorf(ErrUnauthenticated, "session_revoked", "This session was revoked; ask for a new session token.")
	case s.ExpiresAt != nil && !now.Before(*s.ExpiresAt):
		return Errorf(ErrUnauthenticated, "session_expired", "This session has expired; ask for a new session token.")
	}
	return nil
}
