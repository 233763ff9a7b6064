package event

import (
	"encoding/json"
	"time"
)

// RunStatus is the status of a run.
type RunStatus string

// A run is queued until a worker claims it, works on it and reports the
// result. It needs a human while a call of its session is pending, and if the
// worker says so. A skipped run never started.
const (
	RunQueued     RunStatus = "queued"
	RunClaimed    RunStatus = "claimed"
	RunRunning    RunStatus = "running"
	RunNeedsHuman RunStatus = "needs_human"
	RunSucceeded  RunStatus = "succeeded"
	RunFailed     RunStatus = "failed"
	RunSkipped    RunStatus = "skipped"
)

// Ended reports whether the run has ended. A person can still repeat it.
func (s RunStatus) Ended() bool {
	return s == RunSucceeded || s == RunFailed || s == RunSkipped
}

// Codes of failed runs, in addition to those of workers.
const (
	RunWorkerLost  = "worker_lost"  // the lease expired
	RunTimedOut    = "timed_out"    // its deadline passed
	RunCancelled   = "cancelled"    // by a person
	RunUndelivered = "undelivered"  // the endpoint did not accept it in time
	RunSessionLost = "session_lost" // a person revoked its session
)

// Run is one execution of an automation.
type Run struct {
	ID           string    `json:"id"`
	Organization string    `json:"organization_id"`
	Automation   string    `json:"automation_id"`
	Event        string    `json:"event_id"`
	Trigger      string    `json:"trigger_id"` // or the schedule's
	Status       RunStatus `json:"status"`
	Attempt      int       `json:"attempt"` // counts claims
	// Claim identifies the current claim: a worker with another one has lost
	// the run. Empty: unclaimed.
	Claim      string          `json:"-"`
	ClaimedBy  string          `json:"claimed_by,omitempty"`  // a user or key; "endpoint"
	LeaseUntil *time.Time      `json:"lease_until,omitempty"` // nil: until the deadline
	Deadline   *time.Time      `json:"deadline,omitempty"`    // nil: unclaimed
	Session    string          `json:"session_id,omitempty"`  // of the last claim
	Waiting    int             `json:"waiting"`               // pending calls of its session
	Code       string          `json:"code,omitempty"`        // why it failed, or needs a human
	Message    string          `json:"message,omitempty"`     // redacted
	Result     json.RawMessage `json:"result,omitempty"`      // redacted, at most 10 KB
	// NeedsAttention is whether people are asked to look at the run: its worker
	// left it to a person, or it failed, and nobody has acted since.
	NeedsAttention bool       `json:"needs_attention"`
	CreatedAt      time.Time  `json:"created_at"`
	StartedAt      *time.Time `json:"started_at,omitempty"`
	EndedAt        *time.Time `json:"completed_at,omitempty"`
	// Title is the title of its event, for lists.
	Title string `json:"title"`
}

// Claim is a request to work on a run.
type Claim struct {
	Organization string
	Automation   string // empty: any
	Run          string // empty: the oldest queued run
	By           string
	// Lease is the time within which the worker must renew. Zero: until the
	// deadline.
	Lease time.Duration
	// Life is the maximum duration of the run.
	Life time.Duration
}

// Work is a claimed run with everything its worker needs. Its session is new
// and ends with the run.
type Work struct {
	Run        Run
	Automation Automation
	Record     Record
	Sealed     []byte // full context of the event; nil after its retention
	ExpiresAt  time.Time
}

// SessionOrigin is who created a session, for which group, event and run.
type SessionOrigin struct {
	Title     string
	CreatedBy string
	Creator   string // name of the user or automation; empty: removed since
	Group     string

	Event string // that the session was created for; empty: none
	Run   string // current or former run; empty: none, a person created the session

	// Status and beginning of the message of that run. Empty: another session
	// has claimed the run since.
	Status  RunStatus
	Message string
}

// RunResult is a worker's report about its run.
type RunResult struct {
	Status  RunStatus // RunSucceeded, RunFailed or RunNeedsHuman
	Code    string
	Message string
	Result  json.RawMessage
}

// RunDeliveryStatus is the status of the delivery of a run.
type RunDeliveryStatus string

// A delivery is pending until its endpoint accepts it or a worker claims its
// run. It ends delivered, void if its run ended otherwise, or dead if the
// endpoint did not accept it.
const (
	DeliveryPending   RunDeliveryStatus = "pending"
	DeliverySending   RunDeliveryStatus = "sending"
	DeliveryDelivered RunDeliveryStatus = "delivered"
	DeliveryDead      RunDeliveryStatus = "dead"
	DeliveryVoid      RunDeliveryStatus = "void"
)

// RunDelivery is the delivery of one run: a row of the outbox.
type RunDelivery struct {
	ID           string            `json:"id"` // the webhook-id of all its attempts
	Organization string            `json:"organization_id"`
	Run          string            `json:"run_id"`
	Status       RunDeliveryStatus `json:"status"`
	Attempt      int               `json:"attempt"`
	FirstAt      *time.Time        `json:"first_attempt_at,omitempty"`
	NextAt       time.Time         `json:"next_at"`
	LastStatus   int               `json:"last_status,omitempty"` // HTTP status; 0: no response
	LastError    string            `json:"last_error,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	EndedAt      *time.Time        `json:"delivered_at,omitempty"`
}

// Endpoint is the URL that an organization's runs are delivered to.
type Endpoint struct {
	Organization string    `json:"organization_id" bun:"organization_id,pk"`
	URL          string    `json:"url"`
	Enabled      bool      `json:"enabled"`
	UpdatedBy    string    `json:"updated_by"`
	UpdatedAt    time.Time `json:"updated_at"`
	Secrets      []Secret  `json:"secrets" bun:"-"` // those that have not expired, the newest first
}

// Dispatch is a delivery being sent.
type Dispatch struct {
	Delivery RunDelivery
	Work     Work
	Endpoint Endpoint
}

// DispatchResult is the result of an attempt.
type DispatchResult struct {
	Delivery RunDelivery // as claimed
	Status   RunDeliveryStatus
	NextAt   time.Time // of DeliveryPending
	HTTP     int
	Error    string
}

// RunFilter selects runs of an organization. Empty fields match all.
type RunFilter struct {
	Organization string
	Automation   string
	Trigger      string // or a schedule
	Event        string
	Status       RunStatus
	Attention    bool   // those that need attention
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}

// AttentionPeriod is how long a failed run needs attention, unless a person acts.
const AttentionPeriod = 7 * 24 * time.Hour

// RunDeliveryFilter selects deliveries of an organization's runs. Empty fields match
// all.
type RunDeliveryFilter struct {
	Organization string
	Status       RunDeliveryStatus
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}
