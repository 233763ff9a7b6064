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
	// AllowedActions are the only ones; nil: all that the level reaches. An
	// empty list allows none.
	AllowedActions []string `json:"allowed_actions" bun:",nullzero"`
	// DeniedActions are denied whatever else is said.
	DeniedActions []string `json:"denied_actions,omitempty" bun:",nullzero"`
	// Gate must have been approved for the session's task before an action of
	// level production runs. Required with that level.
	Gate      string     `json:"required_gate,omitempty" bun:"required_gate,nullzero"`
	Rate      *Rate      `json:"rate,omitempty" bun:"embed:rate_"` // of the whole group at the provider; nil: no limit of its own
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	GrantedBy string     `json:"granted_by"`
	GrantedAt time.Time  `json:"granted_at"`
}

// GateApproval records that a person let a group's task through a gate. None
// holds for ever.
type GateApproval struct {
	ID           string `json:"id" bun:"id,pk"`
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Group        string `json:"group" bun:"group_id"`
	Task         string `json:"task" bun:"task_id"`
	Gate         string `json:"gate"`
	// Actions are the policy keys that it is for, each source:action or
	// source:*; nil: every action behind the gate.
	Actions    []string   `json:"actions" bun:",nullzero"`
	ApprovedBy string     `json:"approved_by"`
	ApprovedAt time.Time  `json:"approved_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // nil, before it is stored: after 30 days
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

// Rate is a number of calls in a sliding window.
type Rate struct {
	Calls   int `json:"calls"`   // at least 1
	Seconds int `json:"seconds"` // the window; 1 to 86,400
}

// Window returns the rate's window.
func (r Rate) Window() time.Duration { return time.Duration(r.Seconds) * time.Second }

// Span names the window to people: "an hour", "90 seconds".
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

// Limit is a rate that one call counts against.
type Limit struct {
	Key  string `json:"-"`    // whose calls are counted: made of ids, never of names that a caller chose
	What string `json:"what"` // for people: "group developer at github"
	Rate
}

// Quota is a rate of the actions that a key names. Each identity is counted
// by itself.
type Quota struct {
	Organization string     `json:"-" bun:"organization_id,pk"`
	Key          Key        `json:"-" bun:"embed:"`
	Per          QuotaScope `json:"per" bun:"per,pk"`
	Rate
	UpdatedBy string `json:"updated_by"`
}

// QuotaScope says whose calls a quota counts together.
type QuotaScope string

// The scopes of quotas.
const (
	PerSession      QuotaScope = "session"
	PerGroup        QuotaScope = "group"   // sessions without a group count by themselves
	PerCreator      QuotaScope = "creator" // the user that minted the session
	PerOrganization QuotaScope = "organization"
)

// Valid reports whether s is one of the four scopes.
func (s QuotaScope) Valid() bool {
	return s == PerSession || s == PerGroup || s == PerCreator || s == PerOrganization
}

// Snapshot is what a group, or one session, may do, with the whole catalog.
type Snapshot struct {
	GeneratedAt  time.Time         `json:"generated_at"`
	Group        string            `json:"group,omitempty"` // empty: no ceilings
	Task         string            `json:"task,omitempty"`
	Capabilities []ProviderAbility `json:"capabilities"`
	Providers    []string          `json:"providers_available"` // names of all sources
}

// ProviderAbility is what may be done at one provider.
type ProviderAbility struct {
	Provider       string          `json:"provider"` // a source id
	Name           string          `json:"name"`     // what people call it
	Level          Level           `json:"level"`
	LevelName      string          `json:"level_name"`
	AllowedActions []string        `json:"allowed_actions"` // null: all that the level reaches
	DeniedActions  []string        `json:"denied_actions"`
	Gate           string          `json:"required_gate,omitempty"`
	Rate           *Rate           `json:"rate,omitempty"`
	ExpiresAt      *time.Time      `json:"expires_at,omitempty"`
	Actions        []ActionAbility `json:"actions"`
}

// ActionAbility is what policy says of one action.
type ActionAbility struct {
	Action      string `json:"action"`
	Tool        string `json:"tool"` // its name over MCP
	Risk        Risk   `json:"risk"`
	Level       Level  `json:"level"`       // that it needs
	Description string `json:"description"` // the source's own text; foreign, untrusted
	Mode        Mode   `json:"mode"`
	ModeSource  Layer  `json:"mode_source"`
	Denied      bool   `json:"denied"`
	Reason      string `json:"reason"` // what the layer that decided says
}
