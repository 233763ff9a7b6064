package api

import (
	"encoding/json"
	"time"

	"sallyport/ingest/event"
)

// Routes.
var (
	ListOutbox = Route[ParcelQuery, List[event.Parcel]]{Operation{
		Method: "GET", Path: "/api/v1/outbox", Who: Decider, Tag: "outbox",
		Summary: "List deliveries of runs, newest first",
	}}
	RedriveParcel = Route[ByID, RunView]{Operation{
		Method: "POST", Path: "/api/v1/outbox/{id}/redrive", Who: Decider, Tag: "outbox", Status: 200, Errors: []int{409},
		Summary: "Deliver a run again that its endpoint did not take",
		Doc:     "Its run is queued anew.",
	}}
	GetRunEndpoint = Route[None, EndpointView]{Operation{
		Method: "GET", Path: "/api/v1/run-endpoint", Who: Decider, Tag: "outbox", Errors: []int{404},
		Summary: "Say where runs are delivered",
	}}
	PutRunEndpoint = Route[Body[NewEndpoint], MintedEndpoint]{Operation{
		Method: "PUT", Path: "/api/v1/run-endpoint", Who: Decider, Tag: "outbox", Status: 200,
		Summary: "Have runs delivered",
		Doc:     "Each is posted as it is queued, signed by Standard Webhooks, with retries for a day; whoever takes it has claimed it.",
	}}
	DeleteRunEndpoint = Route[None, None]{Operation{
		Method: "DELETE", Path: "/api/v1/run-endpoint", Who: Decider, Tag: "outbox", Errors: []int{404},
		Summary: "Have runs claimed alone",
	}}
	RotateRunEndpoint = Route[Body[*Rotation], MintedSecret]{Operation{
		Method: "POST", Path: "/api/v1/run-endpoint/rotate", Who: Decider, Tag: "outbox", Status: 200, Errors: []int{404, 409},
		Summary: "Replace the secret that deliveries of runs are signed with",
		Doc:     "Deliveries are signed with those before, too, as long as they are kept.",
	}}
	ListRuns = Route[RunQuery, List[RunView]]{Operation{
		Method: "GET", Path: "/api/v1/runs", Who: Member, Tag: "runs",
		Summary: "List runs, newest first",
	}}
	GetRun = Route[ByID, RunView]{Operation{
		Method: "GET", Path: "/api/v1/runs/{id}", Who: Reader, Tag: "runs",
		Summary: "Read a run",
	}}
	ClaimRun = Route[ClaimRunInput, ClaimedRun]{Operation{
		Method: "POST", Path: "/api/v1/runs/claim", Who: Worker, Tag: "runs", Status: 200, Errors: []int{404, 409},
		Summary: "Take a run to work on",
		Doc:     "Answers the run with its instructions, its event and a session of its own, or 204 when none waits, or came in the time that wait says. Renew the lease while you work; a run whose lease lapsed is taken by another worker, or fails.",
	}}
	RenewRun = Route[ByIDWith[*Renewal], RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/renew", Who: Holder, Tag: "runs", Status: 200, Errors: []int{409},
		Summary: "Tell that the worker is alive",
		Doc:     "The run is running from the first time on, and its lease begins anew.",
	}}
	FinishRun = Route[ByIDWith[Finish], RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/finish", Who: Holder, Tag: "runs", Status: 200, Errors: []int{409, 413},
		Summary: "End a run",
		Doc:     "Its session ends with it, and calls that wait for approval are withdrawn.",
	}}
	CancelRun = Route[ByIDWith[*Cancellation], RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/cancel", Who: Decider, Tag: "runs", Status: 200, Errors: []int{409},
		Summary: "Cancel a run",
		Doc:     "Whoever works on it loses it, and its session ends.",
	}}
	ResolveRun = Route[ByIDWith[Resolution], RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/resolve", Who: Decider, Tag: "runs", Status: 200, Errors: []int{409, 413},
		Summary: "End a run that needs a human",
		Doc:     "By who did it himself, or gave it up.",
	}}
	RedriveRun = Route[ByID, RunView]{Operation{
		Method: "POST", Path: "/api/v1/runs/{id}/redrive", Who: Decider, Tag: "runs", Status: 200, Errors: []int{409},
		Summary: "Have a run done again",
		Doc:     "Of one that failed or needs a human. What it did before is not undone.",
	}}
)

// NewEndpoint is where runs are to be delivered.
type NewEndpoint struct {
	URL     string `json:"url" minLength:"1" maxLength:"2048" doc:"https, or http on this machine." example:"https://agents.example.com/runs" kong:"arg,name='url',help='URL, https or http on this machine.'"`
	Enabled *bool  `json:"enabled,omitempty" nullable:"false" doc:"Default true. While it is disabled, runs wait to be claimed." kong:"-"`
	Secret  string `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"The first one, that deliveries are signed with; absent: one is made and answered. Of an endpoint that is there, it is rotated." kong:"-"`
}

// EndpointView is where runs are delivered.
type EndpointView struct {
	Organization string          `json:"organization_id"`
	URL          string          `json:"url" example:"https://agents.example.com/runs"`
	Enabled      bool            `json:"enabled"`
	UpdatedBy    string          `json:"updated_by"`
	UpdatedAt    time.Time       `json:"updated_at"`
	Secrets      []SigningSecret `json:"secrets" nullable:"false" doc:"Those that are good, the newest first, without their values."`
}

// MintedEndpoint is where runs are delivered, with its first secret.
type MintedEndpoint struct {
	EndpointView
	Secret string `json:"secret,omitempty" doc:"Shown once, where it is new." example:"whsec_…"`
}

// ParcelQuery is the query of a list of parcels.
type ParcelQuery struct {
	Paging
	Status event.ParcelStatus `query:"status" enum:"pending,sending,delivered,dead,void" doc:"dead: the endpoint did not take it in time." kong:"enum='pending,sending,delivered,dead,void,',default='',help='Filter by status: pending, sending, delivered (or claimed), dead (not accepted) or void (the run ended).'"`
}

// RunView is a run with the name of its automation.
type RunView struct {
	event.Run
	AutomationName string `json:"automation_name,omitempty" example:"nightly-triage"`
}

// Wish is what a worker wants to do.
type Wish struct {
	Automation string `json:"automation,omitempty" maxLength:"200" doc:"Id or name; absent: any." example:"nightly-triage" kong:"placeholder='REF',help='Only for this automation.'"`
	Run        string `json:"run,omitempty" maxLength:"80" doc:"Id of a run that waits; absent: the one that waits longest." kong:"placeholder='ID',help='Run to claim (default: the oldest queued run).'"`
	Lease      string `json:"lease,omitempty" maxLength:"40" doc:"How long the worker may be silent before the run is taken from him: 1s to 24h; default 5m." example:"5m" kong:"type='period',placeholder='D',help='Lease of the claim (default: 5m).'"`
}

// ClaimedRun is all that a worker needs.
type ClaimedRun struct {
	Run        event.Run     `json:"run"`
	Automation RunAutomation `json:"automation"`
	Event      InboundEvent  `json:"event" doc:"With its whole context, nothing redacted; foreign."`
	Session    RunSession    `json:"session"`
	ClaimID    string        `json:"claim_id" doc:"Presented with each renewal, and at the end."`
	LeaseUntil *time.Time    `json:"lease_until,omitempty" doc:"Renew before."`
}

// RunAutomation says what a run is to do.
type RunAutomation struct {
	ID           string `json:"id"`
	Name         string `json:"name" example:"nightly-triage"`
	Instructions string `json:"instructions"`
}

// RunSession is the session that works on a run. Its token dies with the run.
type RunSession struct {
	ID        string    `json:"id"`
	Token     string    `json:"token" example:"sps_…" doc:"Shown once; it is stored nowhere."`
	MCPURL    string    `json:"mcp_url" example:"http://127.0.0.1:8787/mcp"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Renewal says that the worker is alive.
type Renewal struct {
	ClaimID string `json:"claim_id,omitempty" maxLength:"80" doc:"As the claim was answered; the run's own session may leave it out." kong:"name='claim',required,placeholder='ID',help='claim_id printed by run claim.'"`
}

// RunOutcome is what is said of a run that ends.
type RunOutcome struct {
	Code    string          `json:"code,omitempty" maxLength:"64" doc:"Why it did not succeed, for programs." example:"tests_failed" kong:"help='Machine-readable reason, such as tests_failed.'"`
	Message string          `json:"message,omitempty" maxLength:"2000" doc:"The same for people; it is kept redacted." kong:"help='Reason, shown to people.'"`
	Result  json.RawMessage `json:"result,omitempty" doc:"Any JSON, at most 64 KiB; it is kept redacted, and cut to 10 KB." kong:"type='anyjson',placeholder='JSON',help='Result of the run as JSON.'"`
}

// Finish is how a worker ends a run.
type Finish struct {
	ClaimID string          `json:"claim_id,omitempty" maxLength:"80" doc:"As the claim was answered; the run's own session may leave it out." kong:"name='claim',required,placeholder='ID',help='claim_id printed by run claim.'"`
	Status  event.RunStatus `json:"status" enum:"succeeded,failed,needs_human" doc:"needs_human: a person goes on, to whom message says how; see resolve and redrive." kong:"arg,enum='succeeded,failed,needs_human',help='Status: succeeded, failed or needs_human.'"`
	RunOutcome
}

// Resolution is how a person ends a run that needs a human.
type Resolution struct {
	Status event.RunStatus `json:"status" enum:"succeeded,failed" kong:"arg,enum='succeeded,failed',help='Status: succeeded or failed.'"`
	RunOutcome
}

// Cancellation is why a run is cancelled.
type Cancellation struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" example:"The issue was closed by hand." kong:"help='Reason.'"`
}

// RunQuery is the query of a list of runs.
type RunQuery struct {
	Paging
	Automation string          `query:"automation" maxLength:"200" doc:"Id or name." kong:"placeholder='REF',help='Only for this automation.'"`
	Trigger    string          `query:"trigger" maxLength:"80" doc:"Id of a trigger or schedule." kong:"placeholder='ID',help='Only for this trigger or schedule.'"`
	Event      string          `query:"event" maxLength:"80" doc:"Id of the event that it is of." kong:"-"`
	Status     event.RunStatus `query:"status" enum:"queued,claimed,running,needs_human,succeeded,failed,skipped" kong:"enum='queued,claimed,running,needs_human,succeeded,failed,skipped,',default='',help='Filter by status: queued, claimed, running, needs_human, succeeded, failed or skipped.'"`
}

// ClaimRunInput is the input of [ClaimRun].
type ClaimRunInput struct {
	Wait string `query:"wait" doc:"Wait this long for a run, at most 60s; absent: do not." example:"30s"`
	Body *Wish
}
