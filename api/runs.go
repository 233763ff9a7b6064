package api

import (
	"encoding/json"
	"time"

	"sallyport/ingest/event"
)

// Routes.
var (
	ListOutbox = Route[RunDeliveryQuery, List[event.RunDelivery]]{Operation{
		Method: "GET", Path: "/api/v1/outbox", Who: Decider, Tag: "outbox",
		Summary: "List deliveries of runs, newest first",
	}}
	RedriveRunDelivery = Route[ByID, RunView]{Operation{
		Method: "POST", Path: "/api/v1/outbox/{id}/redrive", Who: Decider, Tag: "outbox", Status: 200, Errors: []int{409},
		Summary: "Repeat a delivery that the endpoint did not accept",
		Doc:     "Its run is queued again.",
	}}
	GetRunEndpoint = Route[None, EndpointView]{Operation{
		Method: "GET", Path: "/api/v1/run-endpoint", Who: Decider, Tag: "outbox", Errors: []int{404},
		Summary: "Get the run endpoint",
	}}
	PutRunEndpoint = Route[Body[NewEndpoint], MintedEndpoint]{Operation{
		Method: "PUT", Path: "/api/v1/run-endpoint", Who: Decider, Tag: "outbox", Status: 200,
		Summary: "Set the run endpoint",
		Doc:     "Each run is posted when it is queued, signed as Standard Webhooks, with retries for a day; accepting it claims it.",
	}}
	DeleteRunEndpoint = Route[None, None]{Operation{
		Method: "DELETE", Path: "/api/v1/run-endpoint", Who: Decider, Tag: "outbox", Errors: []int{404},
		Summary: "Delete the run endpoint",
	}}
	RotateRunEndpoint = Route[Body[*Rotation], MintedSecret]{Operation{
		Method: "POST", Path: "/api/v1/run-endpoint/rotate", Who: Decider, Tag: "outbox", Status: 200, Errors: []int{404, 409},
		Summary: "Replace the signing secret of the run endpoint",
		Doc:     "Deliveries are also signed with the previous secrets, as long as they are kept.",
	}}
	ListRuns = Route[RunQuery, List[RunView]]{Operation{
		Method: "GET", Path: "/api/v1/runs", Who: Member, Tag: "runs",
		Summary: "List runs, newest first",
	}}
	GetRun = Route[ByID, RunView]{Operation{
		Method: "GET", Path: "/api/v1/runs/{id}", Who: Reader, Tag: "runs",
		Summary: "Get a run",
	}}
	ClaimRun = Route[ClaimRunInput, ClaimedRun]{Operation{
		Method: "POST", Path: "/api/v1/runs/claim", Who: Worker, Tag: "runs", Status: 200, Errors: []int{404, 409},
		Summary: "Claim a run",
		Doc:     "Returns the run with its instructions, its event and a session, or 204 if none arrives within wait. Renew the lease while you work: a run whose lease expires goes to another worker, or fails.",
	}}
	RenewRun = Route[ByIDWith[*Renewal], RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/renew", Who: Holder, Tag: "runs", Status: 200, Errors: []int{409},
		Summary: "Renew the lease of a run",
		Doc:     "The first renewal sets the run to running, and each one restarts its lease.",
	}}
	FinishRun = Route[ByIDWith[Finish], RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/finish", Who: Holder, Tag: "runs", Status: 200, Errors: []int{409, 413},
		Summary: "Finish a run",
		Doc:     "Its session ends, and its pending calls are withdrawn.",
	}}
	CancelRun = Route[ByIDWith[*Cancellation], RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/cancel", Who: Decider, Tag: "runs", Status: 200, Errors: []int{409},
		Summary: "Cancel a run",
		Doc:     "The worker loses it, and its session ends.",
	}}
	ResolveRun = Route[ByIDWith[Resolution], RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/resolve", Who: Decider, Tag: "runs", Status: 200, Errors: []int{409, 413},
		Summary: "Set the result of a run that needs attention",
		Doc:     "For a run that needs a human, and a person who did the work or gave it up; or for a failed run that nobody has acted on. To dismiss a failed run, send only the status `failed`: it keeps its code and message, and no longer needs attention.",
	}}
	RedriveRun = Route[ByID, RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/redrive", Who: Decider, Tag: "runs", Status: 200, Errors: []int{409},
		Summary: "Repeat a run",
		Doc:     "For a run that failed or needs a human. Its earlier effects are not undone.",
	}}
	ListInboundEvents = Route[EventQuery, List[InboundEvent]]{Operation{
		Method: "GET", Path: "/api/v1/inbound-events", Who: Member, Tag: "inbound events",
		Summary: "List events of triggers and schedules, newest first",
	}}
	GetInboundEvent = Route[ByID, InboundEvent]{Operation{
		Method: "GET", Path: "/api/v1/inbound-events/{id}", Who: Member, Tag: "inbound events",
		Summary: "Get an event",
	}}
	GetInboundContext = Route[ByID, WholeContext]{Operation{
		Method: "GET", Path: "/api/v1/inbound-events/{id}/context", Who: Decider, Tag: "inbound events", Errors: []int{410},
		Summary: "Get the full context of an event",
		Doc:     "Each read is logged.",
	}}
	SkipInboundEvent = Route[ByID, InboundEvent]{Operation{
		Method: "POST", Path: "/api/v1/inbound-events/{id}/skip", Who: Decider, Tag: "inbound events", Status: 200, Errors: []int{409},
		Summary: "Skip an event",
		Doc:     "Its run, which must still be queued, does not start.",
	}}
	ListDeliveries = Route[DeliveryQuery, List[DeliveryView]]{Operation{
		Method: "GET", Path: "/api/v1/deliveries", Who: Decider, Tag: "deliveries",
		Summary: "List deliveries, newest first",
		Doc:     "Verified and stored webhook requests. Deliveries to a provider-wide URL belong to the organization of the operator.",
	}}
	GetDelivery = Route[ByID, DeliveryView]{Operation{
		Method: "GET", Path: "/api/v1/deliveries/{id}", Who: Decider, Tag: "deliveries",
		Summary: "Get a delivery",
	}}
	RedriveDelivery = Route[ByID, DeliveryView]{Operation{
		Method: "POST", Path: "/api/v1/deliveries/{id}/redrive", Who: Decider, Tag: "deliveries", Status: 200, Errors: []int{409, 410},
		Summary: "Process a failed delivery again",
	}}
	StreamEvents = Route[None, None]{Operation{
		Method: "GET", Path: "/api/v1/events", Who: Listener, Tag: "events",
		Summary: "Stream live events",
		Doc:     "Server-sent events. `ready` comes first and after every reconnect: read what you show again. `invocation` has {id, status, session_id} and, once the call can be read, its source, action, risk, mode, summary, expires_at, who decided it and why, its error, and the title, creator and group of its session; `run` has {id, status} of a run that started or changed; `catalog`, `policy` and `session` say that something of the kind changed. `ended` says that the credential expired; the stream ends. `reload` says that events may be lost: to a client that was too slow, and every second while other instances cannot be reached. Read again. A session token gets events of its own session only, and those of calls a second time, with the same data: `action_approval_request` when a call is pending, `action_approval_result` when it was approved, denied or expired, `action_completed` when it completed or failed.",
	}}
)

// NewEndpoint is the run endpoint to set.
type NewEndpoint struct {
	URL     string `json:"url" minLength:"1" maxLength:"2048" doc:"https, or http on this machine." example:"https://agents.example.com/runs" kong:"arg,name='url',help='URL, https or http on this machine.'"`
	Enabled *bool  `json:"enabled,omitempty" nullable:"false" doc:"Default true. While it is disabled, runs wait to be claimed." kong:"-"`
	Secret  string `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"The first signing secret; missing: generated and returned. Rotate the secret of an existing endpoint." kong:"-"`
}

// EndpointView is the run endpoint.
type EndpointView struct {
	Organization string          `json:"organization_id"`
	URL          string          `json:"url" example:"https://agents.example.com/runs"`
	Enabled      bool            `json:"enabled"`
	UpdatedBy    string          `json:"updated_by"`
	UpdatedAt    time.Time       `json:"updated_at"`
	Secrets      []SigningSecret `json:"secrets" nullable:"false" doc:"Valid secrets, newest first, without their values."`
}

// MintedEndpoint is the run endpoint with its first secret.
type MintedEndpoint struct {
	EndpointView
	Secret string `json:"secret,omitempty" doc:"A new secret, shown once." example:"whsec_…"`
}

// RunDeliveryQuery is the query of a list of run deliveries.
type RunDeliveryQuery struct {
	Paging
	Status event.RunDeliveryStatus `query:"status" enum:"pending,sending,delivered,dead,void" doc:"dead: the endpoint did not accept it in time." kong:"enum='pending,sending,delivered,dead,void,',default='',help='Filter by status: pending, sending, delivered (or claimed), dead (not accepted) or void (the run ended).'"`
}

// RunView is a run with the name of its automation.
type RunView struct {
	event.Run
	AutomationName string `json:"automation_name,omitempty" example:"nightly-triage"`
}

// ClaimRequest is a worker's request for a run.
type ClaimRequest struct {
	Automation string `json:"automation,omitempty" maxLength:"200" doc:"ID or name; missing: any." example:"nightly-triage" kong:"placeholder='REF',help='Only for this automation.'"`
	Run        string `json:"run,omitempty" maxLength:"80" doc:"ID of a queued run; missing: the oldest one." kong:"placeholder='ID',help='Run to claim (default: the oldest queued run).'"`
	Lease      string `json:"lease,omitempty" maxLength:"40" doc:"Lease: the run is taken away if the worker does not renew it in this time. 1s to 24h; default 5m." example:"5m" kong:"type='period',placeholder='D',help='Lease of the claim (default: 5m).'"`
}

// ClaimedRun is a claimed run with everything its worker needs.
type ClaimedRun struct {
	Run        event.Run        `json:"run"`
	Automation RunAutomation    `json:"automation"`
	Event      InboundEvent     `json:"event" doc:"With its full context, unredacted; untrusted."`
	Session    RunSession       `json:"session"`
	Workspace  SessionWorkspace `json:"workspace" doc:"What the run works on."`
	ClaimID    string           `json:"claim_id" doc:"Required to renew and finish the run."`
	LeaseUntil *time.Time       `json:"lease_until,omitempty" doc:"Renew before this time."`
}

// RunAutomation has the instructions of a run.
type RunAutomation struct {
	ID           string `json:"id"`
	Name         string `json:"name" example:"nightly-triage"`
	Instructions string `json:"instructions"`
	event.RunSettings
}

// RunSession is the session of a run. Its token is revoked when the run ends.
type RunSession struct {
	ID        string    `json:"id"`
	Token     string    `json:"token" example:"sps_…" doc:"Shown once; not stored."`
	MCPURL    string    `json:"mcp_url" example:"http://127.0.0.1:8787/mcp"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Renewal renews the lease of a run.
type Renewal struct {
	ClaimID string `json:"claim_id,omitempty" maxLength:"80" doc:"From the claim; the session of the run can leave it out." kong:"name='claim',required,placeholder='ID',help='claim_id printed by run claim.'"`
}

// RunOutcome is the result of a run.
type RunOutcome struct {
	Code    string          `json:"code,omitempty" maxLength:"64" doc:"Machine-readable reason for the failure." example:"tests_failed" kong:"help='Machine-readable reason, such as tests_failed.'"`
	Message string          `json:"message,omitempty" maxLength:"2000" doc:"Reason for people; stored redacted." kong:"help='Reason, shown to people.'"`
	Result  json.RawMessage `json:"result,omitempty" doc:"Any JSON, at most 64 KiB; stored redacted and truncated to 10 KB." kong:"type='anyjson',placeholder='JSON',help='Result of the run as JSON.'"`
}

// Finish finishes a run.
type Finish struct {
	ClaimID string          `json:"claim_id,omitempty" maxLength:"80" doc:"From the claim; the session of the run can leave it out." kong:"name='claim',required,placeholder='ID',help='claim_id printed by run claim.'"`
	Status  event.RunStatus `json:"status" enum:"succeeded,failed,needs_human" doc:"needs_human: a person continues, and message says how; see resolve and redrive." kong:"arg,enum='succeeded,failed,needs_human',help='Status: succeeded, failed or needs_human.'"`
	RunOutcome
}

// Resolution is a person's result for a run that needs a human.
type Resolution struct {
	Status event.RunStatus `json:"status" enum:"succeeded,failed" kong:"arg,enum='succeeded,failed',help='Status: succeeded or failed.'"`
	RunOutcome
}

// Cancellation has the reason to cancel a run.
type Cancellation struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" example:"The issue was closed by hand." kong:"help='Reason.'"`
}

// RunQuery is the query of a list of runs.
type RunQuery struct {
	Paging
	Automation string          `query:"automation" maxLength:"200" doc:"ID or name." kong:"placeholder='REF',help='Only for this automation.'"`
	Trigger    string          `query:"trigger" maxLength:"80" doc:"ID of a trigger or schedule." kong:"placeholder='ID',help='Only for this trigger or schedule.'"`
	Event      string          `query:"event" maxLength:"80" doc:"ID of its event." kong:"-"`
	Status     event.RunStatus `query:"status" enum:"queued,claimed,running,needs_human,succeeded,failed,skipped" kong:"enum='queued,claimed,running,needs_human,succeeded,failed,skipped,',default='',help='Filter by status: queued, claimed, running, needs_human, succeeded, failed or skipped.'"`
	Attention  bool            `query:"attention" doc:"Only runs that need attention: they need a human or failed, and nobody has acted on them. A failed run stops to need attention after a week." kong:"env='-',help='Only runs that need attention: they need a human or failed, and nobody has acted on them.'"`
}

// ClaimRunInput is the input of [ClaimRun].
type ClaimRunInput struct {
	Wait string `query:"wait" doc:"Time to wait for a run, at most 60s; missing: no wait." example:"30s"`
	Body *ClaimRequest
}

// InboundEvent is an event of a trigger or schedule.
type InboundEvent struct {
	event.Record
	Status         string          `json:"status" enum:"queued,processing,completed,failed,skipped" doc:"Status of its run; skipped: it started none."`
	AutomationName string          `json:"automation_name,omitempty" example:"nightly-triage"`
	Context        json.RawMessage `json:"context,omitempty" doc:"Redacted, and truncated if it is long; only when you get a single event, until its retention ends."`
}

// WholeContext is the full context of an event.
type WholeContext struct {
	Context json.RawMessage `json:"context" doc:"As the agent gets it, unredacted."`
}

// DeliveryView is a stored webhook request.
type DeliveryView struct {
	event.Receipt
	Payload json.RawMessage `json:"payload,omitempty" doc:"Redacted, and truncated if it is long; only when you get a single delivery, after it was processed and until its retention ends."`
}

// EventQuery is the query of a list of events.
type EventQuery struct {
	Paging
	Automation string `query:"automation" maxLength:"200" doc:"ID or name." kong:"placeholder='REF',help='Only for this automation.'"`
	Trigger    string `query:"trigger" maxLength:"80" doc:"ID of a trigger or schedule." kong:"placeholder='ID',help='Only for this trigger or schedule.'"`
	Delivery   string `query:"delivery" maxLength:"80" doc:"ID of the delivery of the events." kong:"placeholder='ID',help='Only events of this delivery.'"`
	Provider   string `query:"provider" maxLength:"40" doc:"ID of a provider, or schedule." kong:"help='Only events of this provider, or of schedule.'"`
	Status     string `query:"status" enum:"queued,processing,completed,failed,skipped" kong:"enum='queued,processing,completed,failed,skipped,',default='',help='Filter by status: queued, processing, completed, failed or skipped.'"`
	Skipped    string `query:"skipped" enum:"true,false" doc:"Whether an event was skipped, automatically or by a person. Missing: both." kong:"-"`
}

// DeliveryQuery is the query of a list of deliveries.
type DeliveryQuery struct {
	Paging
	Trigger  string              `query:"trigger" maxLength:"80" doc:"ID of a trigger." kong:"placeholder='ID',help='Only deliveries to the URL of this trigger.'"`
	Provider string              `query:"provider" maxLength:"40" doc:"ID of a provider." kong:"help='Only deliveries of this provider.'"`
	Status   event.ReceiptStatus `query:"status" enum:"queued,processing,completed,failed" kong:"enum='queued,processing,completed,failed,',default='',help='Filter by status: queued, processing, completed or failed.'"`
}
