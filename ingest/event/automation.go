package event

import (
	"encoding/json"
	"time"
)

// Automation has instructions for agents, and triggers and schedules that
// start its runs without a person. Its modes and integrations decide what its
// runs may do.
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

// TriggerKind is how a trigger receives events.
type TriggerKind string

// The kinds of trigger.
const (
	Webhooks TriggerKind = "webhook"
	Polling  TriggerKind = "polling"
)

// Trigger starts runs of an automation for matching events of a provider.
type Trigger struct {
	ID           string      `json:"id" bun:"id,pk"`
	Organization string      `json:"organization_id" bun:"organization_id,pk"`
	Automation   string      `json:"automation_id" bun:"automation_id"`
	Name         string      `json:"name"`
	Kind         TriggerKind `json:"trigger_type"`
	Provider     string      `json:"provider"`
	Type         string      `json:"event_type"` // of [Provider.Types]
	Enabled      bool        `json:"enabled"`
	// Config is a JSON object that matches the type's schema; never nil.
	Config json.RawMessage `json:"-"`
	// Integration is the one whose events count, and whose credential polls
	// and fetches details. Empty: any of the organization's, without polling.
	Integration string `json:"integration_id,omitempty" bun:"integration_id,nullzero"`
	// PollSeconds is the polling interval; zero: no polling.
	PollSeconds int        `json:"interval_seconds,omitempty" bun:",nullzero"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	LastEventAt *time.Time `json:"last_event_at,omitempty"` // when an event last matched; nil: never
}

// Secret is a secret of a trigger or run endpoint. During a rotation several
// are valid.
type Secret struct {
	ID        string     `json:"id"`
	Sealed    []byte     `json:"-"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // nil: never
}

// TriggerSecrets are the secrets that verify deliveries to a trigger's own
// URL.
type TriggerSecrets struct {
	Trigger Trigger
	Secrets []Secret // valid ones, newest first
}
