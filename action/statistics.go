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
	From  time.Time `json:"from" doc:"When the period begins."`
	To    time.Time `json:"to" doc:"When it ends: with the bucket that goes on now."`
	Width int       `json:"bucket_seconds" doc:"How long a bucket is. They begin at whole multiples of it since 1970, UTC." example:"1800"`

	Calls        Extent        `json:"calls" doc:"What buckets, actions and sources are of."`
	Buckets      []Bucket      `json:"buckets" nullable:"false" doc:"Calls by mode over time, oldest first, from the first one that was looked at."`
	Actions      []ActionCount `json:"actions" nullable:"false" doc:"Those with the most calls first; at most 20."`
	OtherActions int           `json:"other_actions,omitempty" doc:"How many had calls and are not listed."`
	Sources      []SourceCount `json:"sources" nullable:"false" doc:"Those with the most calls first; at most 50."`
	OtherSources int           `json:"other_sources,omitempty" doc:"How many had calls and are not listed."`

	Held   Holds   `json:"held" doc:"Calls that policy held for a person."`
	Denied Denials `json:"denied" doc:"Calls that were denied, by policy or a person."`
	Queues Queues  `json:"queues" doc:"What waits or runs now, whenever it was made."`
}

// Extent is how many calls were looked at, the newest ones first.
type Extent struct {
	Count  int       `json:"count" doc:"How many were looked at." example:"1204"`
	Since  time.Time `json:"since" doc:"All since then were looked at: the beginning of the period, or when it is capped the oldest of them."`
	Capped bool      `json:"capped,omitempty" doc:"There are older ones in the period, which nothing here is of."`
}

// Bucket is the calls of one part of a period, by what policy said of them.
type Bucket struct {
	At              time.Time `json:"at" doc:"When it begins."`
	Allow           int       `json:"allow" doc:"Calls that ran without a person, by policy or a grant."`
	RequireApproval int       `json:"require_approval" doc:"Calls that were held for a person."`
	Deny            int       `json:"deny" doc:"Calls that policy refused."`
}

// ActionCount is the calls of one action.
type ActionCount struct {
	Source     string `json:"source_id" example:"connector:5b0c1e2d-3f4a-4b5c-8d6e-7f8091a2b3c4"`
	SourceName string `json:"source_name" doc:"As it was at the newest call." example:"GitHub"`
	Action     string `json:"action" example:"create_issue"`
	Risk       Risk   `json:"risk" doc:"As it was at the newest call."`
	Calls      int    `json:"calls"`
	Failed     int    `json:"failed"`
	Denied     int    `json:"denied"`
}

// SourceCount is the calls of one source, and how long those took that ran.
type SourceCount struct {
	Source       string     `json:"source_id" example:"connector:5b0c1e2d-3f4a-4b5c-8d6e-7f8091a2b3c4"`
	SourceName   string     `json:"source_name" doc:"As it was at the newest call." example:"GitHub"`
	Calls        int        `json:"calls"`
	Ran          int        `json:"ran" doc:"Those that ran to an end, whose duration is known."`
	Failed       int        `json:"failed"`
	P50MS        *int64     `json:"p50_ms,omitempty" doc:"Half of those that ran took no longer; absent: none ran." example:"120"`
	P95MS        *int64     `json:"p95_ms,omitempty" doc:"Nineteen of twenty took no longer." example:"900"`
	LastFailedAt *time.Time `json:"last_failed_at,omitempty" doc:"Absent: none failed."`
}

// Holds is what became of held calls, and how long they waited for a person.
type Holds struct {
	Extent
	Waiting   int    `json:"waiting" doc:"Those that nobody has decided yet."`
	Approved  int    `json:"approved" doc:"Those that a person approved, whatever became of them."`
	Denied    int    `json:"denied" doc:"Those that a person denied."`
	Expired   int    `json:"expired" doc:"Those that nobody decided in time."`
	Withdrawn int    `json:"withdrawn" doc:"Those whose callers left or took them back."`
	Refused   int    `json:"refused" doc:"Those that were refused without asking anybody."`
	P50MS     *int64 `json:"p50_ms,omitempty" doc:"Half of those that a person decided waited no longer; absent: none was decided." example:"21000"`
	P90MS     *int64 `json:"p90_ms,omitempty" doc:"Nine of ten waited no longer." example:"95000"`
	Bins      []Bin  `json:"bins" nullable:"false" doc:"How many waited how long, until a person decided; shortest first."`
}

// Bin is how many waits were in one part of all that may be.
type Bin struct {
	UpToMS int64 `json:"up_to_ms,omitempty" doc:"At most so long, and longer than the bin before; absent: any longer one." example:"60000"`
	Calls  int   `json:"calls"`
}

// Denials is why calls were denied.
type Denials struct {
	Extent
	Reasons []DenialCount `json:"reasons" nullable:"false" doc:"The most frequent first."`
}

// DenialCount is the calls that were denied for one reason.
type DenialCount struct {
	Reason string `json:"denied_reason" example:"policy"`
	Layer  Layer  `json:"mode_source,omitempty" doc:"Of policy: the part of it that denied."`
	Calls  int    `json:"calls"`
}

// Queues is how many calls, runs and deliveries wait or run now.
type Queues struct {
	Pending    Depth `json:"pending" doc:"Calls that wait for a person."`
	Approved   Depth `json:"approved" doc:"Calls that were approved and are about to run."`
	Executing  Depth `json:"executing" doc:"Calls that run."`
	Runs       Depth `json:"runs_queued" doc:"Runs of automations that nobody has claimed."`
	Deliveries Depth `json:"deliveries_waiting" doc:"Deliveries of events that were not looked into yet."`
	Outbox     Depth `json:"outbox_waiting" doc:"Runs that wait to be delivered to the endpoint, or to be claimed."`
}

// Depth is how many of something wait.
type Depth struct {
	Count  int  `json:"count"`
	Capped bool `json:"capped,omitempty" doc:"Counting stopped there: there may be more."`
}
