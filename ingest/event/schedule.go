package event

import "time"

// Missed is what happens for due times during downtime.
type Missed string

// The choices for missed times.
const (
	// MissedOnce starts one run for all of them, as soon as possible.
	MissedOnce Missed = "once"
	// MissedSkip starts none.
	MissedSkip Missed = "skip"
)

// Schedule starts runs of an automation at due times.
type Schedule struct {
	ID           string     `json:"id" bun:"id,pk"`
	Organization string     `json:"organization_id" bun:"organization_id,pk"`
	Automation   string     `json:"automation_id" bun:"automation_id"`
	Name         string     `json:"name"`
	Cron         string     `json:"cron_expression"` // 5 fields, or 6 with seconds first
	TimeZone     string     `json:"timezone"`        // an IANA name
	Enabled      bool       `json:"enabled"`
	Missed       Missed     `json:"missed"`
	NextAt       *time.Time `json:"next_run_at,omitempty"` // nil: disabled, or never again
	LastAt       *time.Time `json:"last_run_at,omitempty"` // the last due time that was handled; nil: none
	CreatedBy    string     `json:"created_by"`
	CreatedAt    time.Time  `json:"created_at"`
	UpdatedAt    time.Time  `json:"updated_at"`
}

// ScheduleProvider is the provider, and the type, of events of schedules.
const ScheduleProvider = "schedule"

// PollGroup is all polling triggers of an organization for one integration,
// polled together.
type PollGroup struct {
	ID           string     `json:"id"`
	Organization string     `json:"organization_id"`
	Provider     string     `json:"provider"`
	Integration  string     `json:"integration_id"`
	Cursor       []byte     `json:"-"` // nil: not polled yet
	PollSeconds  int        `json:"interval_seconds"`
	NextAt       time.Time  `json:"next_at"`
	LastAt       *time.Time `json:"last_polled_at,omitempty"`
	Failures     int        `json:"failures"`             // since the last success
	LastError    string     `json:"last_error,omitempty"` // for people
	Lost         string     `json:"lost,omitempty"`       // see [Polled]
	LostAt       *time.Time `json:"lost_at,omitempty"`
	FencingToken int64      `json:"-"` // counts claims; rejects writes of a worker that lost its claim
}

// PollOutcome is the result of polling a group, written in one transaction.
type PollOutcome struct {
	Group     PollGroup // as claimed
	Cursor    []byte    // nil: unchanged
	Matches   []Match
	NextAt    time.Time
	LastError string // empty: it succeeded
	Lost      string
}
