package event

import "time"

// Missed says what becomes of due times at which nothing was up.
type Missed string

// The policies for missed times.
const (
	// MissedOnce runs once for all of them, as soon as possible.
	MissedOnce Missed = "once"
	// MissedSkip waits for the next time.
	MissedSkip Missed = "skip"
)

// Schedule starts runs of an automation at times.
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
	LastAt       *time.Time `json:"last_run_at,omitempty"` // the due time that was last seen to; nil: none
	CreatedBy    string     `json:"created_by"`
	CreatedAt    time.Time  `json:"created_at"`
	UpdatedAt    time.Time  `json:"updated_at"`
}

// ScheduleProvider is the provider of events that schedules make; they are of
// the type of the same name.
const ScheduleProvider = "schedule"

// PollGroup is what is polled as one: all triggers of an organization for one
// integration.
type PollGroup struct {
	ID           string     `json:"id"`
	Organization string     `json:"organization_id"`
	Provider     string     `json:"provider"`
	Integration  string     `json:"integration_id"`
	Cursor       []byte     `json:"-"` // nil: nothing was seen yet
	PollSeconds  int        `json:"interval_seconds"`
	NextAt       time.Time  `json:"next_at"`
	LastAt       *time.Time `json:"last_polled_at,omitempty"`
	Failures     int        `json:"failures"`             // since the last success
	LastError    string     `json:"last_error,omitempty"` // for people
	Lost         string     `json:"lost,omitempty"`       // see [Polled]
	LostAt       *time.Time `json:"lost_at,omitempty"`
	FencingToken int64      `json:"-"` // counts claims; fences off who lost his
}

// PollOutcome is what came of polling a group, written together or not at all.
type PollOutcome struct {
	Group     PollGroup // as claimed
	Cursor    []byte    // nil: as it was
	Matches   []Match
	NextAt    time.Time
	LastError string // empty: it succeeded
	Lost      string
}
