package event

import "time"

// ReceiptStatus is the status of a delivery.
type ReceiptStatus string

// A receipt is queued until a worker claims it, and again if the worker could
// not finish. It ends completed, or failed after the last attempt.
const (
	ReceiptQueued     ReceiptStatus = "queued"
	ReceiptProcessing ReceiptStatus = "processing"
	ReceiptCompleted  ReceiptStatus = "completed"
	ReceiptFailed     ReceiptStatus = "failed"
)

// Receipt is a verified and stored delivery.
type Receipt struct {
	ID string `json:"id"`
	// Organization is the organization of the trigger whose URL received it;
	// for provider-wide URLs, whose events may belong to any organization,
	// the operator's.
	Organization string `json:"organization_id"`
	// Endpoint is the path of the URL after /webhooks/; it is the same for
	// all URLs of a trigger.
	Endpoint string `json:"endpoint"`
	Provider string `json:"provider"`
	Trigger  string `json:"trigger_id,omitempty"` // whose URL received it; empty: provider-wide URL
	// Key is the same when the sender retries: an endpoint has at most one
	// receipt with the key that did not fail.
	Key     string        `json:"-"`
	Native  string        `json:"provider_event_type,omitempty"` // event type of the service, once parsed
	Size    int           `json:"size"`                          // of the body in bytes
	Status  ReceiptStatus `json:"status"`
	Attempt int           `json:"attempt"`         // processing attempts; also rejects writes of a worker that lost its claim
	NextAt  time.Time     `json:"next_attempt_at"` // of the next attempt, while queued
	// Failures counts failed attempts; a postponed attempt is no failure.
	Failures int `json:"-"`
	// Losses counts consecutive attempts whose process died.
	Losses     int        `json:"-"`
	LastError  string     `json:"last_error,omitempty"`
	Duplicate  bool       `json:"duplicate,omitempty"` // the same body was processed shortly before under another ID
	ReceivedAt time.Time  `json:"received_at"`
	EndedAt    *time.Time `json:"processed_at,omitempty"`
	// Redacted is the redacted and truncated payload; nil before processing,
	// and after its retention.
	Redacted []byte `json:"-"`
	// Sealed has the encrypted headers and body; nil once completed with an
	// event, and after its retention.
	Sealed []byte `json:"-"`
}

// Settlement is the result of processing a receipt, written in one
// transaction.
type Settlement struct {
	Receipt Receipt // as claimed
	Status  ReceiptStatus
	NextAt  time.Time // of ReceiptQueued
	Error   string    // for people; empty only if completed
	// KeepPayload keeps the payload of a completed receipt that matched
	// nothing, to process it again later. Error says why.
	KeepPayload bool
	Failures    int // of ReceiptQueued, including this one
	// Losses of a receipt that is returned unprocessed; otherwise zero.
	Losses   int
	Native   string
	Redacted []byte
	// BodyHash is a keyed hash of the signed body, for services that do not
	// sign the delivery's ID: a receipt with the same hash and endpoint
	// within DedupWindow before is the same delivery, and this one creates
	// nothing. Empty: the ID identifies the delivery.
	BodyHash    string
	DedupWindow time.Duration
	Matches     []Match
}

// SettleResult is the result of writing settlements.
type SettleResult struct {
	Runs       []Run    // started
	Duplicates []string // receipts that duplicate another one
}

// SkipReason is why an event started no run.
type SkipReason string

// The reasons to skip.
const (
	SkipFilter     SkipReason = "filter_mismatch"
	SkipDisabled   SkipReason = "automation_disabled"
	SkipManual     SkipReason = "manual"
	SkipRunFailed  SkipReason = "run_create_failed"
	SkipUnverified SkipReason = "unverified" // a broker forwarded it without verification
)

// Match is an event for one trigger, stored with a run unless it is skipped.
// It is dropped if the trigger or schedule was deleted or disabled meanwhile,
// and skipped if the automation is disabled.
type Match struct {
	Record Record // ID is given; Run and its status are not
	Run    string // the run's id; empty where it is skipped
	// Sealed is the encrypted full context, for (events, Record.ID,
	// "sealed"). Nil if skipped.
	Sealed []byte
}

// Record is a stored event of a trigger or schedule.
type Record struct {
	ID           string     `json:"id"`
	Organization string     `json:"organization_id"`
	Trigger      string     `json:"trigger_id"` // or the schedule's
	Automation   string     `json:"automation_id"`
	Receipt      string     `json:"delivery_id,omitempty"` // empty: polled or scheduled
	Provider     string     `json:"provider"`
	Type         string     `json:"event_type"`
	Native       string     `json:"provider_event_type,omitempty"`
	Key          string     `json:"dedup_key"` // unique in its trigger
	OccurredAt   *time.Time `json:"occurred_at,omitempty"`
	Title        string     `json:"title"`
	URL          string     `json:"url,omitempty"`
	Skip         SkipReason `json:"skip_reason,omitempty"`
	Error        string     `json:"error_message,omitempty"`
	CreatedAt    time.Time  `json:"created_at"`
	Run          string     `json:"run_id,omitempty"`
	RunStatus    RunStatus  `json:"run_status,omitempty"`
	Session      string     `json:"session_id,omitempty"`   // of the run's last claim
	EndedAt      *time.Time `json:"processed_at,omitempty"` // when its run ended, or it was skipped; nil: not yet
	// Redacted is the redacted and truncated context; nil after its
	// retention.
	Redacted []byte `json:"-"`
}

// Status returns the status of the event, which follows its run.
func (r *Record) Status() string {
	switch {
	case r.Skip != "", r.RunStatus == RunSkipped:
		return "skipped"
	case r.RunStatus == RunSucceeded:
		return "completed"
	case r.RunStatus == RunFailed:
		return "failed"
	case r.RunStatus == RunQueued, r.RunStatus == "":
		return "queued"
	}
	return "processing"
}

// ReceiptFilter selects deliveries to an organization. Empty fields match all.
type ReceiptFilter struct {
	Organization string
	Trigger      string
	Provider     string
	Status       ReceiptStatus
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}

// RecordFilter selects events of an organization's triggers and schedules.
// Empty fields match all.
type RecordFilter struct {
	Organization string
	Trigger      string // or a schedule
	Automation   string
	Receipt      string
	Provider     string
	Status       string // of [Record.Status]
	Skipped      *bool
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}
