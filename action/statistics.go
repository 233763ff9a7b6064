package action

import (
	"time"
)

// Period is a time that calls are counted in. From and To are whole multiples
// of Width since 1970, in UTC.
type Period struct {
	From, To time.Time // created in this time: From is part of it, To is not
	Width    time.Duration
}

// Statistics is what the rows of an organization say of its calls in a period.
type Statistics struct {
	From  time.Time `json:"from" doc:"Start of the period."`
	To    time.Time `json:"to" doc:"End: the end of the current bucket."`
	Width int       `json:"bucket_seconds" doc:"Length of a bucket. Buckets start at multiples of it since 1970, UTC." example:"1800"`

	Calls        Extent        `json:"calls" doc:"Totals of buckets, actions and sources."`
	Buckets      []Bucket      `json:"buckets" nullable:"false" doc:"Calls by mode over time, oldest first, from the first counted one."`
	Actions      []ActionCount `json:"actions" nullable:"false" doc:"Most called first; at most 20."`
	OtherActions int           `json:"other_actions,omitempty" doc:"Number of items with calls that are not listed."`
	Sources      []SourceCount `json:"sources" nullable:"false" doc:"Those with the most calls first; at most 50."`
	OtherSources int           `json:"other_sources,omitempty" doc:"Number of items with calls that are not listed."`

	Held   Holds   `json:"held" doc:"Calls that needed approval."`
	Denied Denials `json:"denied" doc:"Calls denied by policy or a person."`
	Queues Queues  `json:"queues" doc:"Pending and executing calls, whenever they were created."`
}

// Extent is how many calls were looked at, the newest ones first.
type Extent struct {
	Count  int       `json:"count" doc:"Number of counted calls." example:"1204"`
	Since  time.Time `json:"since" doc:"Start of the counted time: of the period, or if capped, the oldest counted call."`
	Capped bool      `json:"capped,omitempty" doc:"The period has older calls that are not counted."`
}

// Bucket is the calls of one part of a period, by what policy said of them.
type Bucket struct {
	At              time.Time `json:"at" doc:"Start."`
	Allow           int       `json:"allow" doc:"Calls allowed by policy or a grant."`
	RequireApproval int       `json:"require_approval" doc:"Calls that needed approval."`
	Deny            int       `json:"deny" doc:"Calls that policy denied."`
}

// ActionCount is the calls of one action.
type ActionCount struct {
	Source     string `json:"source_id" example:"connector:5b0c1e2d-3f4a-4b5c-8d6e-7f8091a2b3c4"`
	SourceName string `json:"source_name" doc:"As of the newest call." example:"GitHub"`
	Action     string `json:"action" example:"create_issue"`
	Risk       Risk   `json:"risk" doc:"As of the newest call."`
	Calls      int    `json:"calls"`
	Failed     int    `json:"failed"`
	Denied     int    `json:"denied"`
}

// SourceCount is the calls of one source, and how long those took that ran.
type SourceCount struct {
	Source       string     `json:"source_id" example:"connector:5b0c1e2d-3f4a-4b5c-8d6e-7f8091a2b3c4"`
	SourceName   string     `json:"source_name" doc:"As of the newest call." example:"GitHub"`
	Calls        int        `json:"calls"`
	Ran          int        `json:"ran" doc:"Finished executions with a known duration."`
	Failed       int        `json:"failed"`
	P50MS        *int64     `json:"p50_ms,omitempty" doc:"Median duration; missing: none ran." example:"120"`
	P95MS        *int64     `json:"p95_ms,omitempty" doc:"95th percentile of the duration." example:"900"`
	LastFailedAt *time.Time `json:"last_failed_at,omitempty" doc:"Missing: none failed."`
}

// Holds is what became of held calls, and how long they waited for a person.
type Holds struct {
	Extent
	Waiting   int    `json:"waiting" doc:"Still pending."`
	Approved  int    `json:"approved" doc:"Approved by a person, whatever the result."`
	Denied    int    `json:"denied" doc:"Denied by a person."`
	Expired   int    `json:"expired" doc:"Expired."`
	Withdrawn int    `json:"withdrawn" doc:"Withdrawn."`
	Refused   int    `json:"refused" doc:"Refused without asking anyone."`
	P50MS     *int64 `json:"p50_ms,omitempty" doc:"Median wait of decided calls; missing: none was decided." example:"21000"`
	P90MS     *int64 `json:"p90_ms,omitempty" doc:"90th percentile of the wait." example:"95000"`
	Bins      []Bin  `json:"bins" nullable:"false" doc:"Histogram of the time to a decision, shortest first."`
}

// Bin is how many waits were in one part of all that may be.
type Bin struct {
	UpToMS int64 `json:"up_to_ms,omitempty" doc:"Upper bound of the bin; the lower bound is that of the previous bin. Missing: no upper bound." example:"60000"`
	Calls  int   `json:"calls"`
}

// Denials is why calls were denied.
type Denials struct {
	Extent
	Reasons []DenialCount `json:"reasons" nullable:"false" doc:"Most frequent first."`
}

// DenialCount is the calls that were denied for one reason.
type DenialCount struct {
	Reason string `json:"denied_reason" example:"policy"`
	Layer  Layer  `json:"mode_source,omitempty" doc:"For a denial by policy: the layer that denied."`
	Calls  int    `json:"calls"`
}

// Queues is how many calls, runs and deliveries wait or run now.
type Queues struct {
	Pending    Depth `json:"pending" doc:"Pending calls."`
	Approved   Depth `json:"approved" doc:"Approved calls that have not started."`
	Executing  Depth `json:"executing" doc:"Executing calls."`
	Runs       Depth `json:"runs_queued" doc:"Queued runs."`
	Deliveries Depth `json:"deliveries_waiting" doc:"Deliveries that have not been processed."`
	Outbox     Depth `json:"outbox_waiting" doc:"Runs waiting for the endpoint or a worker."`
}

// Depth is how many of something wait.
type Depth struct {
	Count  int  `json:"count"`
	Capped bool `json:"capped,omitempty" doc:"Counting stopped at this number: there may be more."`
}
