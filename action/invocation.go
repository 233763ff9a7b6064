package action

import (
	"encoding/json"
	"time"
)

// Status is the status of an invocation:
//
//	            ┌─────────────► denied     (policy, human, withdrawn)
//	Call ── decide ──► executing ──► completed | failed
//	            └────► pending ── approve ──► approved ── claim ──► executing
//	                      ├── deny, withdraw ► denied      │
//	                      └── time ──► expired  ◄── 5 min ─┘ (also: stale → failed, now denied → denied)
type Status string

// The statuses. The last four are terminal.
const (
	StatusPending   Status = "pending"
	StatusApproved  Status = "approved"
	StatusExecuting Status = "executing"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusDenied    Status = "denied"
	StatusExpired   Status = "expired"
)

// Terminal reports whether nothing more can happen to the invocation.
func (s Status) Terminal() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusDenied || s == StatusExpired
}

// Valid reports whether s is one of the seven statuses.
func (s Status) Valid() bool {
	return s == StatusPending || s == StatusApproved || s == StatusExecuting || s.Terminal()
}

// The reasons of a denied invocation (denied_reason).
const (
	DeniedPolicy    = "policy"    // policy said so
	DeniedHuman     = "human"     // a person said no
	DeniedRepeated  = "repeated"  // a person said no to the same call a short while ago
	DeniedOften     = "often"     // people said no to this action again and again in this session
	DeniedWithdrawn = "withdrawn" // the last caller cancelled or left
	DeniedQuota     = "quota"     // a tool of the gateway's own has done for the session what it does at once
)

// The codes of a failed invocation (error.code).
const (
	FailedTool     = "tool_error"           // the source answered with isError
	FailedUpstream = "upstream_error"       // the source answered with a JSON-RPC error
	FailedReach    = "upstream_unavailable" // the source was not reached, or a read got no answer
	FailedUnknown  = "outcome_unknown"      // a write may or may not have happened
	FailedStale    = "stale_approval"       // what was approved is not what would run
	FailedInternal = "internal"             // the gateway failed before anything ran
)

// Failure is why an invocation failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"` // redacted
}

// Invocation is the record of a call. Its JSON form is the API's.
type Invocation struct {
	ID           string          `json:"id"`
	Organization string          `json:"organization_id"`
	Session      string          `json:"session_id"`
	Source       string          `json:"source_id"`
	SourceName   string          `json:"source_name"`
	Action       string          `json:"action"`
	Risk         Risk            `json:"risk"`
	Mode         Mode            `json:"mode"`
	ModeSource   Layer           `json:"mode_source"`
	Steps        []Step          `json:"decision,omitempty"`
	Status       Status          `json:"status"`
	Summary      string          `json:"summary,omitempty"`        // the call in one line; redacted
	Params       json.RawMessage `json:"params"`                   // redacted
	ParamsHash   string          `json:"params_hash"`              // keyed, over the canonical params
	ToolHash     string          `json:"tool_hash"`                // [Action.Hash] when it was decided
	Revision     string          `json:"-"`                        // [Action.Revision] when it was decided
	Result       json.RawMessage `json:"result,omitempty"`         // redacted, pruned to 10 KB
	ResultNote   string          `json:"result_summary,omitempty"` // the result in a line; redacted
	Error        *Failure        `json:"error,omitempty"`
	DeniedReason string          `json:"denied_reason,omitempty"`
	DeniedNote   string          `json:"denied_note,omitempty"`
	ApprovedBy   string          `json:"approved_by,omitempty"` // who decided, also for a denial
	ApprovedAt   *time.Time      `json:"approved_at,omitempty"`
	Grant        string          `json:"grant_id,omitempty"`       // that covered it
	Integration  string          `json:"integration_id,omitempty"` // that the module used
	Executor     string          `json:"executor,omitempty"`       // the instance that ran it
	CreatedAt    time.Time       `json:"created_at"`
	ExpiresAt    *time.Time      `json:"expires_at,omitempty"` // when the pending call expires
	StartedAt    *time.Time      `json:"started_at,omitempty"` // of the execution
	CompletedAt  *time.Time      `json:"completed_at,omitempty"`
	DurationMS   *int64          `json:"duration_ms,omitempty"` // of the execution
	ApprovalURL  string          `json:"approval_url,omitempty"`
}

// InvocationFilter selects invocations of an organization. Empty fields match
// all.
type InvocationFilter struct {
	Organization string
	Session      string
	Run          string // whose sessions, of all its claims
	Automation   string // of the session
	Group        string // of the session
	Person       string // who approved or denied it
	Statuses     []Status
	Source       string
	Action       string
	Risk         Risk
	Mode         Mode
	From, To     time.Time // created in this time: From is included, To is not
	Limit        int       // zero: 50; at most 500
	Cursor       string    // of the page before; empty: the newest
}

// Page is a page of a list, newest first.
type Page[T any] struct {
	Items  []T
	Next   string // cursor of the next page; empty: last page
	Total  int    // of the whole list, up to a limit
	Capped bool   // Total is a lower bound

	// SearchedSince is set if the search limit was reached: everything since
	// then was searched. The page may be short or empty, and Next continues.
	SearchedSince time.Time
}

// CallerState is the state of the callers of a pending call.
type CallerState struct {
	SeenAt   time.Time // when a caller was last connected
	Answered bool      // a caller got "pending" and asks again later
}
