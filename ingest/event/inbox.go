package event

import "time"

// ReceiptStatus is what became of a delivery.
type ReceiptStatus string

// A receipt is queued until a worker claims it, and again when the worker could
// not finish. It ends completed, or failed after the last attempt.
const (
	ReceiptQueued     ReceiptStatus = "queued"
	ReceiptProcessing ReceiptStatus = "processing"
	ReceiptCompleted  ReceiptStatus = "completed"
	ReceiptFailed     ReceiptStatus = "failed"
)

// Receipt is a delivery that was verified and kept, to be worked off.
type Receipt struct {
	ID string `json:"id"`
	// Organization of the trigger at whose URL it came in; the operator's for
	// URLs of a whole provider, whose events may be of any.
	Organization string `json:"organization_id"`
	// Endpoint is the path that it came to, behind /webhooks/; one and the same for
	// all URLs of a trigger.
	Endpoint string `json:"endpoint"`
	Provider string `json:"provider"`
	Trigger  string `json:"trigger_id,omitempty"` // whose URL it was; empty: a whole provider's
	// Key is the same when the sender tries again: while there is a receipt of
	// the endpoint with it that did not fail, there is no second one.
	Key     string        `json:"-"`
	Native  string        `json:"provider_event_type,omitempty"` // what the service calls its event, once it was read
	Size    int           `json:"size"`                          // of the body in bytes
	Status  ReceiptStatus `json:"status"`
	Attempt int           `json:"attempt"`         // of working it off; counts claims, and fences off who lost his
	NextAt  time.Time     `json:"next_attempt_at"` // of the next attempt, while queued
	// Failures is how often working it off failed; being put off is no failure.
	Failures int `json:"-"`
	// Losses is how often in a row it was lost with the process that worked on it.
	Losses     int        `json:"-"`
	LastError  string     `json:"last_error,omitempty"`
	Duplicate  bool       `json:"duplicate,omitempty"` // its body was worked off a moment before, under another id
	ReceivedAt time.Time  `json:"received_at"`
	EndedAt    *time.Time `json:"processed_at,omitempty"`
	// Redacted is the payload for people: redacted, bounded; nil before it was
	// worked off, and after its retention.
	Redacted []byte `json:"-"`
	// Sealed are headers and body, sealed for the row; nil once it is completed,
	// unless it reached nobody, and after its retention.
	Sealed []byte `json:"-"`
}

// Settlement is what came of one receipt, written together or not at all.
type Settlement struct {
	Receipt Receipt // as claimed
	Status  ReceiptStatus
	NextAt  time.Time // of ReceiptQueued
	Error   string    // for people; empty only for one that is completed
	// KeepPayload has a completed one that reached nobody keep its payload, to be worked
	// off again once there is somebody. Error says why.
	KeepPayload bool
	Failures    int // of ReceiptQueued, with this one
	// Losses of one that is given back unread; otherwise zero.
	Losses   int
	Native   string
	Redacted []byte
	// BodyHash is a keyed hash of the signed body, where the delivery's id is not signed:
	// a receipt of the endpoint with the same one, received less than Window
	// before, was the same delivery, and this one makes nothing. Empty: ids do.
	BodyHash    string
	DedupWindow time.Duration
	Matches     []Match
}

// SettleResult is what was written of settlements.
type SettleResult struct {
	Runs       []Run    // that began
	Duplicates []string // receipts that were the same as another one
}

// SkipReason is why an event started nothing.
type SkipReason string

// The reasons to skip.
const (
	SkipFilter     SkipReason = "filter_mismatch"
	SkipDisabled   SkipReason = "automation_disabled"
	SkipManual     SkipReason = "manual"
	SkipRunFailed  SkipReason = "run_create_failed"
	SkipUnverified SkipReason = "unverified" // a broker forwarded it without verifying it
)

// Match is an event for one trigger, to be kept: with a run unless it is
// skipped. One whose trigger (or schedule) is gone or disabled when it is
// written is dropped; where the automation is disabled it is skipped.
type Match struct {
	Record Record // ID is given; Run and its status are not
	Run    string // the run's id; empty where it is skipped
	// Sealed is the whole context, sealed for (events, Record.ID, "sealed"). Nil
	// where it is skipped.
	Sealed []byte
}

// Record is an event of a trigger or schedule, as it is kept.
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
	// Redacted is the context for people: redacted, bounded; nil after its
	// retention.
	Redacted []byte `json:"-"`
}

// Status is the event's, which follows its run's.
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
