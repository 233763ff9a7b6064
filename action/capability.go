package action

import (
	"strconv"
	"time"
)

// Capability is the ceiling of a group's sessions at one provider. A group
// without one has level none there.
type Capability struct {
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Group        string `json:"group" bun:"group_id,pk"`
	Provider     string `json:"provider" bun:"provider,pk"` // a source id
	Level        Level  `json:"level"`
	// AllowedActions limits the actions; nil: all actions of the level. An
	// empty list allows none.
	AllowedActions []string `json:"allowed_actions" bun:",nullzero"`
	// DeniedActions are always denied.
	DeniedActions []string `json:"denied_actions,omitempty" bun:",nullzero"`
	// Gate must be approved for the session's task before an action of level
	// production runs. Required with that level.
	Gate      string     `json:"required_gate,omitempty" bun:"required_gate,nullzero"`
	Rate      *Rate      `json:"rate,omitempty" bun:"embed:rate_"` // for the whole group at the provider; nil: no limit
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	GrantedBy string     `json:"granted_by"`
	GrantedAt time.Time  `json:"granted_at"`
}

// GateApproval records that a person approved a gate for a group's task.
// Every approval expires.
type GateApproval struct {
	ID           string `json:"id" bun:"id,pk"`
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Group        string `json:"group" bun:"group_id"`
	Task         string `json:"task" bun:"task_id"`
	Gate         string `json:"gate"`
	// Actions are the covered policy keys, source:action or source:*; nil:
	// every action behind the gate.
	Actions    []string   `json:"actions" bun:",nullzero"`
	ApprovedBy string     `json:"approved_by"`
	ApprovedAt time.Time  `json:"approved_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // nil before it is stored: 30 days
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

// Rate is a number of calls in a sliding window.
type Rate struct {
	Calls   int `json:"calls"`   // at least 1
	Seconds int `json:"seconds"` // the window; 1 to 86,400
}

// Window returns the rate's window.
func (r Rate) Window() time.Duration { return time.Duration(r.Seconds) * time.Second }

// Span describes the window for people: "an hour", "90 seconds".
func (r Rate) Span() string {
	for _, unit := range []struct {
		size      int
		one, many string
	}{{86400, "a day", "days"}, {3600, "an hour", "hours"}, {60, "a minute", "minutes"}} {
		switch {
		case r.Seconds == unit.size:
			return unit.one
		case r.Seconds%unit.size == 0:
			return strconv.Itoa(r.Seconds/unit.size) + " " + unit.many
		}
	}
	if r.Seconds == 1 {
		return "1 second"
	}
	return strconv.Itoa(r.Seconds) + " seconds"
}

// Limit is a rate that a call counts against.
type Limit struct {
	Key  string `json:"-"`    // identifies the counter; built from IDs, never from names that a caller chose
	What string `json:"what"` // for people: "group developer at github"
	Rate
}

// Quota limits the calls that a key covers, with one counter per session,
// group, creator or organization.
type Quota struct {
	Organization string     `json:"-" bun:"organization_id,pk"`
	Key          Key        `json:"-" bun:"embed:"`
	Per          QuotaScope `json:"per" bun:"per,pk"`
	Rate
	UpdatedBy string `json:"updated_by"`
}

// QuotaScope is whose calls a quota counts together.
type QuotaScope string

// The scopes of quotas.
const (
	PerSession      QuotaScope = "session"
	PerGroup        QuotaScope = "group"   // a session without a group has its own counter
	PerCreator      QuotaScope = "creator" // the user who created the session
	PerOrganization QuotaScope = "organization"
)

// Valid reports whether s is one of the four scopes.
func (s QuotaScope) Valid() bool {
	return s == PerSession || s == PerGroup || s == PerCreator || s == PerOrganization
}

// Snapshot is the whole catalog with what a group or session may do.
type Snapshot struct {
	GeneratedAt  time.Time         `json:"generated_at"`
	Group        string            `json:"group,omitempty"` // empty: no ceilings apply
	Task         string            `json:"task,omitempty"`
	Capabilities []ProviderAbility `json:"capabilities"`
	Providers    []string          `json:"providers_available"` // names of all sources
}

// ProviderAbility is what a group or session may do at one provider.
type ProviderAbility struct {
	Provider       string          `json:"provider"` // a source id
	Name           string          `json:"name"`     // display name
	Level          Level           `json:"level"`
	LevelName      string          `json:"level_name"`
	AllowedActions []string        `json:"allowed_actions"` // null: all actions of the level
	DeniedActions  []string        `json:"denied_actions"`
	Gate           string          `json:"required_gate,omitempty"`
	Rate           *Rate           `json:"rate,omitempty"`
	ExpiresAt      *time.Time      `json:"expires_at,omitempty"`
	Actions        []ActionAbility `json:"actions"`
}

// ActionAbility is the policy decision for one action.
type ActionAbility struct {
	Action      string `json:"action"`
	Tool        string `json:"tool"` // its name over MCP
	Risk        Risk   `json:"risk"`
	Level       Level  `json:"level"`       // level that it needs
	Description string `json:"description"` // the source's own text; foreign, untrusted
	Mode        Mode   `json:"mode"`
	ModeSource  Layer  `json:"mode_source"`
	Denied      bool   `json:"denied"`
	Reason      string `json:"reason"` // the note of the deciding layer
}
