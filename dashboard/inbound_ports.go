package dashboard

import (
	"context"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Inbound stores automations, their triggers and schedules, and their runs. IDs
// and names are scoped to the organization: every method returns ErrNotFound
// for those of another.
type Inbound interface {
	// Automations.

	// CreateAutomation creates an automation and returns the stored row.
	// ErrConflict if the name is taken, or equals an ID.
	CreateAutomation(ctx context.Context, a event.Automation) (event.Automation, error)
	// Automation finds an automation by ID or name.
	Automation(ctx context.Context, organization, ref string) (event.Automation, error)
	// ListAutomations lists automations by name, without their instructions.
	ListAutomations(ctx context.Context, organization string) ([]event.Automation, error)
	// AutomationNames returns the names of all automations by ID.
	AutomationNames(ctx context.Context, organization string) (map[string]string, error)
	// UpdateAutomation updates Name, Enabled and Instructions.
	UpdateAutomation(ctx context.Context, a event.Automation, by string) (event.Automation, error)
	// DeleteAutomation deletes an automation with its triggers, schedules,
	// overrides, bindings and queued runs. ErrConflict while a worker has one
	// of its runs.
	DeleteAutomation(ctx context.Context, organization, id, by string) error

	// Triggers and schedules.

	// CreateTrigger creates a trigger with its first secret. A polling trigger
	// has none.
	CreateTrigger(ctx context.Context, t event.Trigger, secret *event.Secret) (event.Trigger, error)
	Trigger(ctx context.Context, organization, id string) (event.Trigger, error)
	ListTriggers(ctx context.Context, organization, automation string) ([]event.Trigger, error)
	// UpdateTrigger updates Name, Enabled, Config, Integration and PollSeconds.
	UpdateTrigger(ctx context.Context, t event.Trigger, by string) (event.Trigger, error)
	DeleteTrigger(ctx context.Context, organization, id, by string) error

	CreateSchedule(ctx context.Context, s event.Schedule) (event.Schedule, error)
	Schedule(ctx context.Context, organization, id string) (event.Schedule, error)
	ListSchedules(ctx context.Context, organization, automation string) ([]event.Schedule, error)
	// UpdateSchedule updates Name, Cron, TimeZone, Enabled, Missed and NextAt.
	UpdateSchedule(ctx context.Context, s event.Schedule, by string) (event.Schedule, error)
	DeleteSchedule(ctx context.Context, organization, id, by string) error

	// SigningSecrets lists the secrets of a trigger, or of the run endpoint
	// ([EndpointSecrets]).
	SigningSecrets(ctx context.Context, organization, owner string) ([]event.Secret, error)
	// SecretOwners returns the owners that have a secret.
	SecretOwners(ctx context.Context, organization string) (map[string]bool, error)
	// RotateSecret adds a secret and lets the owner's other ones expire at
	// othersUntil.
	RotateSecret(ctx context.Context, organization, owner string, s event.Secret, othersUntil time.Time, by string) error

	// PollGroups returns the state of polling.
	PollGroups(ctx context.Context, organization string) ([]event.PollGroup, error)

	// Events and receipts.
	Event(ctx context.Context, organization, id string) (event.Record, error)
	ListEvents(ctx context.Context, f event.RecordFilter) (action.Page[event.Record], error)
	// SkipEvent ends the event's queued run as skipped. ErrConflict if the run
	// is not queued any more.
	SkipEvent(ctx context.Context, organization, id, by string) (event.Record, error)
	// EventContext returns the event's whole context, sealed, or nil after its
	// retention.
	EventContext(ctx context.Context, organization, id string) (sealed []byte, err error)

	Receipt(ctx context.Context, organization, id string) (event.Receipt, error)
	ListReceipts(ctx context.Context, f event.ReceiptFilter) (action.Page[event.Receipt], error)
	// RedriveReceipt queues a failed receipt again. ErrConflict if it did not
	// fail, ErrGone after its payload was deleted.
	RedriveReceipt(ctx context.Context, organization, id, by string) (event.Receipt, error)

	// Runs and their delivery. A caller whose claim is not the run's current
	// one gets ErrConflict with code "claim_lost".
	Run(ctx context.Context, organization, id string) (event.Run, error)
	// RunOfSession returns the run that a session works or worked on, or
	// ErrNotFound.
	RunOfSession(ctx context.Context, organization, session string) (event.Run, error)
	// OriginsOfSessions returns who created sessions, and the events and runs that
	// they were created for, by session ID.
	OriginsOfSessions(ctx context.Context, organization string, sessions []string) (map[string]event.SessionOrigin, error)
	ListRuns(ctx context.Context, f event.RunFilter) (action.Page[event.Run], error)
	// LastRuns returns the newest run of each automation that has one, by
	// automation ID.
	LastRuns(ctx context.Context, organization string) (map[string]event.Run, error)
	// ClaimRun claims a queued run and creates its session. ErrNotFound with
	// code "no_run" if none is queued. Runs of a disabled automation stay
	// queued until it is enabled: claiming one by c.Run returns ErrConflict
	// with code "automation_disabled".
	ClaimRun(ctx context.Context, c event.Claim) (event.Work, error)
	// RenewRun is the worker's heartbeat: it marks the run as running and
	// renews its lease.
	RenewRun(ctx context.Context, organization, id, claim string) (event.Run, error)
	// FinishRun ends the run with its worker's result, ends its session, and
	// returns the pending calls that this withdrew. The same claim may repeat
	// the same result.
	FinishRun(ctx context.Context, organization, id, claim string, e event.RunResult) (event.Run, []action.Invocation, error)
	// CancelRun cancels a run that has not ended, on behalf of a person.
	CancelRun(ctx context.Context, organization, id, by, reason string) (event.Run, []action.Invocation, error)
	// ResolveRun closes a run that needs a human with the result that a person
	// gives.
	ResolveRun(ctx context.Context, organization, id, by string, e event.RunResult) (event.Run, error)
	// RedriveRun queues a run again that failed or needs a human.
	RedriveRun(ctx context.Context, organization, id, by string) (event.Run, error)

	RunDelivery(ctx context.Context, organization, id string) (event.RunDelivery, error)
	ListRunDeliveries(ctx context.Context, f event.RunDeliveryFilter) (action.Page[event.RunDelivery], error)

	// RunEndpoint returns where runs are delivered. ErrNotFound if workers only
	// claim them.
	RunEndpoint(ctx context.Context, organization string) (event.Endpoint, error)
	// SetRunEndpoint updates URL and Enabled, and adds the first secret if it
	// is given.
	SetRunEndpoint(ctx context.Context, e event.Endpoint, secret *event.Secret) (event.Endpoint, error)
	DeleteRunEndpoint(ctx context.Context, organization, by string) error
}

// EndpointSecrets is the owner of the secrets that sign deliveries to an
// organization's run endpoint.
const EndpointSecrets = "endpoint"

// Times returns up to n due times of a cron expression after a time. ErrInvalid
// has the field /cron_expression or /timezone.
type Times func(cron, zone string, after time.Time, n int) ([]time.Time, error)
