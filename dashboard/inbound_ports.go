package dashboard

import (
	"context"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Inbound keeps automations, what starts them, and their runs. Names and ids are of
// the organization; everything returns ErrNotFound for others.
type Inbound interface {
	// Automations.

	// CreateAutomation writes one and returns it as it is stored; ErrConflict when
	// the name, or an id that is the name, is taken.
	CreateAutomation(ctx context.Context, a event.Automation) (event.Automation, error)
	// Automation finds one by its id or name.
	Automation(ctx context.Context, organization, ref string) (event.Automation, error)
	// ListAutomations returns them by name, without their instructions.
	ListAutomations(ctx context.Context, organization string) ([]event.Automation, error)
	// AutomationNames returns the names of all, by id.
	AutomationNames(ctx context.Context, organization string) (map[string]string, error)
	// UpdateAutomation writes Name, Enabled and Instructions.
	UpdateAutomation(ctx context.Context, a event.Automation, by string) (event.Automation, error)
	// DeleteAutomation removes one with its triggers, schedules, overrides,
	// bindings and runs that nobody has yet; ErrConflict while a run is worked on.
	DeleteAutomation(ctx context.Context, organization, id, by string) error

	// Triggers and schedules.

	// CreateTrigger writes one with its first secret, which a polling one has not.
	CreateTrigger(ctx context.Context, t event.Trigger, secret *event.Secret) (event.Trigger, error)
	Trigger(ctx context.Context, organization, id string) (event.Trigger, error)
	ListTriggers(ctx context.Context, organization, automation string) ([]event.Trigger, error)
	// UpdateTrigger writes Name, Enabled, Config, Integration and PollSeconds.
	UpdateTrigger(ctx context.Context, t event.Trigger, by string) (event.Trigger, error)
	DeleteTrigger(ctx context.Context, organization, id, by string) error

	CreateSchedule(ctx context.Context, s event.Schedule) (event.Schedule, error)
	Schedule(ctx context.Context, organization, id string) (event.Schedule, error)
	ListSchedules(ctx context.Context, organization, automation string) ([]event.Schedule, error)
	// UpdateSchedule writes Name, Cron, TimeZone, Enabled, Missed and NextAt.
	UpdateSchedule(ctx context.Context, s event.Schedule, by string) (event.Schedule, error)
	DeleteSchedule(ctx context.Context, organization, id, by string) error

	// Secrets of a trigger, or of the endpoint for runs ([EndpointSecrets]).
	SigningSecrets(ctx context.Context, organization, owner string) ([]event.Secret, error)
	// SecretOwners are the owners that have any.
	SecretOwners(ctx context.Context, organization string) (map[string]bool, error)
	// RotateSecret adds one, and has the others end at a time.
	RotateSecret(ctx context.Context, organization, owner string, s event.Secret, othersUntil time.Time, by string) error

	// PollGroups tells how polling goes.
	PollGroups(ctx context.Context, organization string) ([]event.PollGroup, error)

	// What came in.
	Event(ctx context.Context, organization, id string) (event.Record, error)
	ListEvents(ctx context.Context, f event.RecordFilter) (action.Page[event.Record], error)
	// SkipEvent ends the event's run, which nobody has yet, as skipped;
	// ErrConflict otherwise.
	SkipEvent(ctx context.Context, organization, id, by string) (event.Record, error)
	// EventContext returns the event's whole context, sealed; nil after its
	// retention.
	EventContext(ctx context.Context, organization, id string) (sealed []byte, err error)

	Receipt(ctx context.Context, organization, id string) (event.Receipt, error)
	ListReceipts(ctx context.Context, f event.ReceiptFilter) (action.Page[event.Receipt], error)
	// RedriveReceipt queues a failed one anew; ErrConflict for others, ErrGone
	// when its payload was forgotten.
	RedriveReceipt(ctx context.Context, organization, id, by string) (event.Receipt, error)

	// Runs and their delivery. A caller that presents another claim than the
	// run's gets ErrConflict with code "claim_lost".
	Run(ctx context.Context, organization, id string) (event.Run, error)
	// RunOfSession returns the run that a session works on, or worked; ErrNotFound.
	RunOfSession(ctx context.Context, organization, session string) (event.Run, error)
	// OriginsOfSessions returns what sessions were minted for, by their ids;
	// those that were minted for no event are left out.
	OriginsOfSessions(ctx context.Context, organization string, sessions []string) (map[string]event.SessionOrigin, error)
	ListRuns(ctx context.Context, f event.RunFilter) (action.Page[event.Run], error)
	// LastRuns returns the newest run of each automation that has one, by their ids.
	LastRuns(ctx context.Context, organization string) (map[string]event.Run, error)
	// ClaimRun takes a queued run and mints its session; ErrNotFound with code
	// "no_run" when none waits. Runs of a disabled automation wait until it is
	// enabled; ErrConflict with code "automation_disabled" for c.Run.
	ClaimRun(ctx context.Context, c event.Claim) (event.Work, error)
	// RenewRun tells that the worker is alive: the run is running, and its lease
	// begins anew.
	RenewRun(ctx context.Context, organization, id, claim string) (event.Run, error)
	// FinishRun ends the run as its worker says, and its session with it, whose
	// calls that wait are withdrawn and returned. The same claim may say the same
	// again.
	FinishRun(ctx context.Context, organization, id, claim string, e event.RunResult) (event.Run, []action.Invocation, error)
	// CancelRun ends a run that has not ended, in a person's name.
	CancelRun(ctx context.Context, organization, id, by, reason string) (event.Run, []action.Invocation, error)
	// ResolveRun ends a run that needs a human as a person says, who did it
	// himself or gave it up.
	ResolveRun(ctx context.Context, organization, id, by string, e event.RunResult) (event.Run, error)
	// RedriveRun queues a run anew that failed or needs a human.
	RedriveRun(ctx context.Context, organization, id, by string) (event.Run, error)

	Parcel(ctx context.Context, organization, id string) (event.Parcel, error)
	ListParcels(ctx context.Context, f event.ParcelFilter) (action.Page[event.Parcel], error)

	// RunEndpoint returns where runs are delivered to; ErrNotFound when they are
	// only claimed.
	RunEndpoint(ctx context.Context, organization string) (event.Endpoint, error)
	// SetRunEndpoint writes URL and Enabled, and the first secret when it is given.
	SetRunEndpoint(ctx context.Context, e event.Endpoint, secret *event.Secret) (event.Endpoint, error)
	DeleteRunEndpoint(ctx context.Context, organization, by string) error
}

// EndpointSecrets is the owner of the secrets that sign what an organization's
// endpoint for runs gets.
const EndpointSecrets = "endpoint"

// Times returns up to n due times of a cron expression after a time, or
// ErrInvalid with field /cron_expression or /timezone.
type Times func(cron, zone string, after time.Time, n int) ([]time.Time, error)
