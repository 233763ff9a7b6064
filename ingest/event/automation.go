package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Automation has instructions for agents, and triggers and schedules that
// start its runs without a person. Its modes and integrations decide what its
// runs may do.
type Automation struct {
	ID           string `json:"id" bun:"id,pk"`
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Name         string `json:"name"` // unique in the organization
	Enabled      bool   `json:"enabled"`
	Instructions string `json:"instructions,omitempty"`                  // for the agent; at most 64 KiB; lists leave it out
	Group        string `json:"group,omitempty" bun:"group_id,nullzero"` // of its sessions; empty: the default group
	RunSettings
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// RunSettings say what the runs of an automation work on, and what limits them.
type RunSettings struct {
	// Workspace is what its runs work on, on Branch of the first repository.
	Workspace string `json:"workspace_id,omitempty" bun:"workspace_id,nullzero" doc:"Workspace of its runs; missing: none."`
	Branch    string `json:"branch,omitempty" bun:",nullzero" doc:"Branch of the first repository; missing: that of the workspace."`
	Model     string `json:"model,omitempty" bun:",nullzero" doc:"Model of its runs; missing: that of the workspace."`
	Provider  string `json:"provider,omitempty" bun:",nullzero" doc:"Provider of their sandboxes; missing: that of the workspace."`
	// TimeLimit and the budget are of one run.
	TimeLimit int   `json:"time_limit_seconds,omitempty" bun:"time_limit_seconds,nullzero" doc:"Time that a run may take; missing, or above the gateway's: the gateway's."`
	MaxTokens int64 `json:"max_tokens,omitempty" bun:",nullzero" doc:"Tokens of models that a run may use."`
	MaxCost   int64 `json:"max_cost_micros,omitempty" bun:"max_cost_micros,nullzero" doc:"Cost of models that a run may cause, in millionths of a US dollar."`
	MaxCalls  int64 `json:"max_calls,omitempty" bun:",nullzero" doc:"Calls of actions that a run may make."`
	MaxRuns   int   `json:"max_runs,omitempty" bun:",nullzero" doc:"Runs at the same time; missing: any number."`
	EndsWhen  Ends  `json:"ends_when,omitempty" bun:",nullzero" enum:"reported,idle" doc:"What ends a run besides its time limit: its agent's report (the default), or the end of the agent's turn."`
	// Tell are the users who are named when a run needs a person.
	Tell []string `json:"tell,omitempty" bun:",nullzero" doc:"IDs of the people who are named when a run needs somebody; missing: all owners and admins."`
}

// Ends is what ends a run.
type Ends string

// The ends of a run.
const (
	EndsReported Ends = "reported" // its agent reports the result
	EndsIdle     Ends = "idle"     // its agent has nothing more to do
)

// maxTimeLimit bounds the time limit of a run, in seconds.
const maxTimeLimit = 30 * 24 * 3600

// maxTell bounds the people that an automation names.
const maxTell = 20

// check validates the settings, except whether the workspace and the people exist.
func (a *RunSettings) check() error {
	switch {
	case a.TimeLimit < 0 || a.TimeLimit > maxTimeLimit:
		return invalidField("/time_limit_seconds", "A time limit is at most 30 days.")
	case a.MaxTokens < 0 || a.MaxCost < 0 || a.MaxCalls < 0:
		return invalidField("/max_tokens", "A budget is above zero, or missing.")
	case a.MaxRuns < 0 || a.MaxRuns > 1000:
		return invalidField("/max_runs", "max_runs must be 1 to 1000.")
	case a.EndsWhen != "" && a.EndsWhen != EndsReported && a.EndsWhen != EndsIdle:
		return invalidField("/ends_when", "ends_when must be reported or idle.")
	case len(a.Tell) > maxTell:
		return invalidField("/tell", fmt.Sprintf("An automation names at most %d people.", maxTell))
	case a.Branch != "" && a.Workspace == "":
		return invalidField("/branch", "A branch is of the first repository of a workspace. Name the workspace too.")
	}
	return nil
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
	ID        string     `json:"id" bun:"id,pk"`
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

const (
	maxTitle        = 120      // characters of the name of an automation, a trigger or a schedule
	maxName         = 200      // bytes of other names
	maxInstructions = 64 << 10 // bytes
	maxConfig       = 16 << 10 // bytes of a trigger's filters
	maxPoll         = 86_400   // seconds between two polls
)

// Invalid is the error of a Check, with the API's error code.
type Invalid struct{ code, field, message string }

func (e *Invalid) Error() string { return e.code + ": " + e.message }

// Details implements action.FieldError.
func (e *Invalid) Details() (code, field, message string) { return e.code, e.field, e.message }

func invalid(field, message string) error { return &Invalid{"invalid", field, message} }

// invalidField is invalid with the API's code for a field of a body.
func invalidField(field, message string) error { return &Invalid{"invalid_field", field, message} }

// Check validates the automation.
func (a *Automation) Check() error {
	if err := checkTitle("automation", a.Name); err != nil {
		return err
	}
	if len(a.Instructions) > maxInstructions || !utf8.ValidString(a.Instructions) || strings.ContainsRune(a.Instructions, 0) {
		return invalidField("/instructions", fmt.Sprintf("instructions must be text of at most %d bytes.", maxInstructions))
	}
	return a.RunSettings.check()
}

// checkTitle refuses names that look alike in lists or that look like
// patterns.
func checkTitle(thing, name string) error {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxTitle || !isLiteral(name) {
		return invalid("/name", fmt.Sprintf("The name of the %s has 1 to %d characters, no control characters and no *.", thing, maxTitle))
	}
	return nil
}

// isLiteral reports whether a name is one line of text without wildcards.
func isLiteral(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '*' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// Check validates the trigger, except whether its filters match the
// provider's schema, and compacts the filters.
func (t *Trigger) Check() error {
	polls := t.Kind == Polling
	switch {
	case !polls && t.Kind != Webhooks:
		return invalid("/trigger_type", "trigger_type must be webhook or polling.")
	case t.Provider == "" || len(t.Provider) > maxName || !isLiteral(t.Provider):
		return invalid("/provider", "Name the provider.")
	case t.Type == "" || len(t.Type) > maxName || !isLiteral(t.Type):
		return invalid("/event_type", "Name the type.")
	case polls && t.Integration == "":
		return invalid("/integration_id", "A polling trigger needs an integration. Name one.")
	case polls && (t.PollSeconds < 1 || t.PollSeconds > maxPoll):
		return invalid("/interval_seconds", fmt.Sprintf("The polling interval must be 1 to %d seconds.", maxPoll))
	case !polls && t.PollSeconds != 0:
		return invalidField("/interval_seconds", "A webhook is not polled; leave interval_seconds out, or set trigger_type to polling.")
	}
	if err := checkTitle("trigger", t.Name); err != nil {
		return err
	}
	return t.compactConfig()
}

func (t *Trigger) compactConfig() error {
	if len(t.Config) == 0 {
		t.Config = json.RawMessage("{}")
	}
	var short bytes.Buffer
	if json.Compact(&short, t.Config) != nil || short.Bytes()[0] != '{' {
		return invalidField("/config", "config must be a JSON object that fits the type's config_schema.")
	}
	if short.Len() > maxConfig || !utf8.Valid(short.Bytes()) {
		return invalid("/config", fmt.Sprintf("The filters of a trigger are a JSON object of at most %d bytes.", maxConfig))
	}
	t.Config = short.Bytes()
	return nil
}

// Check validates the schedule, except whether the expression has due times:
// the caller sets the next one. It clears the next time of a disabled
// schedule.
func (s *Schedule) Check() error {
	// The default name is the cron expression, so * is allowed here.
	if err := checkTitle("schedule", strings.ReplaceAll(s.Name, "*", "x")); err != nil {
		return err
	}
	switch {
	case s.Cron == "" || !isOneLine(s.Cron):
		return invalid("/cron_expression", fmt.Sprintf("A schedule needs a cron expression of at most %d bytes.", maxName))
	case s.TimeZone == "" || !isOneLine(s.TimeZone):
		return invalid("/timezone", `A schedule needs the name of a time zone, such as "UTC" or "Europe/Berlin".`)
	case s.Missed != MissedOnce && s.Missed != MissedSkip:
		return invalid("/missed", "missed must be once or skip.")
	}
	if !s.Enabled {
		s.NextAt = nil
	}
	return nil
}

func isOneLine(text string) bool {
	return len(text) <= maxName && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
