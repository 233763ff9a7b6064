package event

import (
	"encoding/json"
	"time"
)

// RunStatus is where a run stands.
type RunStatus string

// A run waits until somebody takes it, who works on it and says how it ended.
// It needs a human while a call of its session waits for approval, and when its
// worker says so. One that was skipped never began.
const (
	RunQueued     RunStatus = "queued"
	RunClaimed    RunStatus = "claimed"
	RunRunning    RunStatus = "running"
	RunNeedsHuman RunStatus = "needs_human"
	RunSucceeded  RunStatus = "succeeded"
	RunFailed     RunStatus = "failed"
	RunSkipped    RunStatus = "skipped"
)

// Ended reports whether the run is over, though a person may have it done again.
func (s RunStatus) Ended() bool {
	return s == RunSucceeded || s == RunFailed || s == RunSkipped
}

// Why a run failed, beside the codes that workers give.
const (
	RunWorkerLost  = "worker_lost"  // nobody renewed the lease
	RunTimedOut    = "timed_out"    // its deadline passed
	RunCancelled   = "cancelled"    // by a person
	RunUndelivered = "undelivered"  // its endpoint did not take it in time
	RunSessionLost = "session_lost" // its session was revoked by hand
)

// Run is one time that an automation is done.
type Run struct {
	ID           string    `json:"id"`
	Organization string    `json:"organization_id"`
	Automation   string    `json:"automation_id"`
	Event        string    `json:"event_id"`
	Trigger      string    `json:"trigger_id"` // or the schedule's
	Status       RunStatus `json:"status"`
	Attempt      int       `json:"attempt"` // counts claims
	// Claim names one claim: whoever presents another has lost the run. Empty:
	// nobody has it.
	Claim      string          `json:"-"`
	ClaimedBy  string          `json:"claimed_by,omitempty"`  // a user or key; "endpoint"
	LeaseUntil *time.Time      `json:"lease_until,omitempty"` // nil: until the deadline
	Deadline   *time.Time      `json:"deadline,omitempty"`    // nil: nobody has it
	Session    string          `json:"session_id,omitempty"`  // of the last claim
	Waiting    int             `json:"waiting"`               // calls of its session that wait for approval
	Code       string          `json:"code,omitempty"`        // why it failed, or needs a human
	Message    string          `json:"message,omitempty"`     // redacted
	Result     json.RawMessage `json:"result,omitempty"`      // redacted, at most 10 KB
	CreatedAt  time.Time       `json:"created_at"`
	StartedAt  *time.Time      `json:"started_at,omitempty"`
	EndedAt    *time.Time      `json:"completed_at,omitempty"`
	// Title of its event, for lists.
	Title string `json:"title"`
}

// Claim is the wish to work on a run.
type Claim struct {
	Organization string
	Automation   string // empty: any
	Run          string // empty: the one that waits longest
	By           string
	// Lease is how long the worker may be silent. Zero: until the deadline.
	Lease time.Duration
	// Life is how long the run may take at all.
	Life time.Duration
}

// Work is a claimed run with what its worker needs. The session is new, and
// dies with the run.
type Work struct {
	Run        Run
	Automation Automation
	Record     Record
	Sealed     []byte // the event's whole context; nil after its retention
	ExpiresAt  time.Time
}

// SessionOrigin is what a session was minted for.
type SessionOrigin struct {
	Event string // that it was minted for
	Run   string // that it works on, or worked; empty: none, a person made it

	// How that run stands, and the beginning of what was said of it. Empty: another session has
	// the run by now.
	Status  RunStatus
	Message string
}

// RunResult is what a worker says of his run.
type RunResult struct {
	Status  RunStatus // RunSucceeded, RunFailed or RunNeedsHuman
	Code    string
	Message string
	Result  json.RawMessage
}

// ParcelStatus is where the delivery of a run stands.
type ParcelStatus string

// A parcel waits for its endpoint, or for somebody who claims its run; it is
// delivered, void when its run ended otherwise, or dead when its endpoint did
// not take it.
const (
	ParcelPending   ParcelStatus = "pending"
	ParcelSending   ParcelStatus = "sending"
	ParcelDelivered ParcelStatus = "delivered"
	ParcelDead      ParcelStatus = "dead"
	ParcelVoid      ParcelStatus = "void"
)

// Parcel is the delivery of one run: a row of the outbox.
type Parcel struct {
	ID           string       `json:"id"` // the webhook-id of all its attempts
	Organization string       `json:"organization_id"`
	Run          string       `json:"run_id"`
	Status       ParcelStatus `json:"status"`
	Attempt      int          `json:"attempt"`
	FirstAt      *time.Time   `json:"first_attempt_at,omitempty"`
	NextAt       time.Time    `json:"next_at"`
	LastStatus   int          `json:"last_status,omitempty"` // of HTTP; 0: there was no answer
	LastError    string       `json:"last_error,omitempty"`
	CreatedAt    time.Time    `json:"created_at"`
	EndedAt      *time.Time   `json:"delivered_at,omitempty"`
}

// Endpoint is where an organization's runs are delivered to.
type Endpoint struct {
	Organization string    `json:"organization_id"`
	URL          string    `json:"url"`
	Enabled      bool      `json:"enabled"`
	UpdatedBy    string    `json:"updated_by"`
	UpdatedAt    time.Time `json:"updated_at"`
	Secrets      []Secret  `json:"secrets"` // those that have not expired, the newest first
}

// Dispatch is a parcel that a worker sends now.
type Dispatch struct {
	Parcel   Parcel
	Work     Work
	Endpoint Endpoint
}

// DispatchResult is what came of an attempt.
type DispatchResult struct {
	Parcel Parcel // as claimed
	Status ParcelStatus
	NextAt time.Time // of ParcelPending
	HTTP   int
	Error  string
}

// RunFilter selects runs of an organization. Empty fields match all.
type RunFilter struct {
	Organization string
	Automation   string
	Trigger      string // or a schedule
	Event        string
	Status       RunStatus
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}

// ParcelFilter selects deliveries of an organization's runs. Empty fields match
// all.
type ParcelFilter struct {
	Organization string
	Status       ParcelStatus
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}
