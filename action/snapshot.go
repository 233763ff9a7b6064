package action

import "time"

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
