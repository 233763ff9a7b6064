package event

import (
	"encoding/json"
	"time"
)

// Automation is what an organization has agents do without a person beside
// them: instructions, and the triggers and schedules that start its runs. What
// its runs may do is policy: overrides of the automation, and the integrations
// that it is bound to.
type Automation struct {
	ID           string    `json:"id" bun:"id,pk"`
	Organization string    `json:"organization_id" bun:"organization_id,pk"`
	Name         string    `json:"name"` // unique in the organization
	Enabled      bool      `json:"enabled"`
	Instructions string    `json:"instructions,omitempty"` // for the agent; at most 64 KiB; lists leave it out
	CreatedBy    string    `json:"created_by"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// TriggerKind is how a trigger hears of events.
type TriggerKind string

// The kinds of trigger.
const (
	Webhooks TriggerKind = "webhook"
	Polling  TriggerKind = "polling"
)

// Trigger is a rule by which events of a provider start runs of an automation.
type Trigger struct {
	ID           string      `json:"id" bun:"id,pk"`
	Organization string      `json:"organization_id" bun:"organization_id,pk"`
	Automation   string      `json:"automation_id" bun:"automation_id"`
	Name         string      `json:"name"`
	Kind         TriggerKind `json:"trigger_type"`
	Provider     string      `json:"provider"`
	Type         string      `json:"event_type"` // of [Provider.Types]
	Enabled      bool        `json:"enabled"`
	// Config is a JSON object that fits the type's schema; never nil.
	Config json.RawMessage `json:"-"`
	// Integration whose events are meant, and whose credential polls and
	// hydrates. Empty: any of the organization's, and none polls.
	Integration string `json:"integration_id,omitempty" bun:"integration_id,nullzero"`
	// PollSeconds is the least time between two looks; zero where nothing is
	// polled.
	PollSeconds int        `json:"interval_seconds,omitempty" bun:",nullzero"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	LastEventAt *time.Time `json:"last_event_at,omitempty"` // when an event last matched; nil: never
}

// Secret is one of the secrets of a trigger, or of an endpoint for runs: several
// are good at once while one is replaced.
type Secret struct {
	ID        string     `json:"id"`
	Sealed    []byte     `json:"-"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // nil: never
}

// TriggerSecrets is what verifies deliveries at a trigger's own URL.
type TriggerSecrets struct {
	Trigger Trigger
	Secrets []Secret // those that have not expired, the newest first
}
