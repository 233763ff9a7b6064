// Package ingest turns events of other services into automation runs, each exactly once.
//
// A webhook delivery is verified on its raw bytes, stored as one durable row and
// acknowledged; nothing else happens while the sender waits (webhook). Workers parse the
// rows with the module of the service, find the organizations concerned, complete the
// events, ask each trigger whether it matches, and write events, runs and outbox in one
// transaction (inbox). Two unique keys guarantee that a trigger gets an event once. Polled
// events and due schedules take the same path, with the cursor or the due time in the same
// transaction (poll, schedule). Runs leave through the outbox to an endpoint (dispatch),
// or are claimed by workers.
//
// It promises that a verified delivery is processed at least once and takes effect once,
// with any number of instances and whenever one of them dies. It promises no order among
// deliveries.
//
// It knows no service: modules are given as [event.Provider], rows and credentials through
// the interfaces in ports.go.
package ingest

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Rows stores inbound work: deliveries until they are processed, triggers and schedules,
// and runs until they are claimed. Every method is one transaction and returns when it is
// durable.
type Rows interface {
	// Verified deliveries.

	// Receive writes a receipt as queued. If its endpoint has one with the same key,
	// nothing changes, except that a receipt that failed or reached nobody is queued
	// again. fresh reports whether there is something to process now.
	Receive(ctx context.Context, r event.Receipt) (fresh bool, err error)
	// ClaimReceipts leases up to limit receipts to the worker, the oldest first: those
	// that are queued and due, and those whose lease expired. It counts one attempt, and
	// one loss for expired leases. No receipt is leased twice.
	ClaimReceipts(ctx context.Context, worker string, limit int, lease time.Duration) ([]event.Receipt, error)
	// RenewReceipts renews the worker's leases.
	RenewReceipts(ctx context.Context, worker string, ids []string, lease time.Duration) error
	// Settle writes the outcome of claimed receipts in one transaction: events, runs and
	// outbox of each match whose trigger has no event with the key. Receipts whose lease
	// the worker lost are skipped with all their matches.
	Settle(ctx context.Context, worker string, list []event.Settlement) (event.SettleResult, error)

	// What starts runs.

	// TriggerSecrets returns a trigger, enabled or not, with its secrets, by its id alone,
	// as it appears in URLs; ErrNotFound.
	TriggerSecrets(ctx context.Context, id string) (event.TriggerSecrets, error)
	// WebhookTriggerSecrets returns the only webhook trigger of the provider that an automation
	// has, by the automation's id alone; ErrNotFound also if there are several triggers,
	// or several automations with the id.
	WebhookTriggerSecrets(ctx context.Context, automation, provider string) (event.TriggerSecrets, error)
	// ActiveTriggers returns an organization's enabled triggers of a provider, including
	// those of disabled automations.
	ActiveTriggers(ctx context.Context, organization, provider string) ([]event.Trigger, error)
	// UnverifiedEvents reports whether events that a broker did not verify may start
	// runs in the organization.
	UnverifiedEvents(ctx context.Context, organization string) (bool, error)

	// What comes due.

	// ClaimPoll leases a due group to the worker; false: there is none.
	ClaimPoll(ctx context.Context, worker string, lease time.Duration) (g event.PollGroup, found bool, err error)
	// RenewPoll renews the lease; false: the worker lost it.
	RenewPoll(ctx context.Context, worker string, g event.PollGroup, lease time.Duration) (held bool, err error)
	// SettlePoll writes cursor and events in one transaction and releases the group.
	// ErrConflict, with nothing written, if the worker lost the lease.
	SettlePoll(ctx context.Context, worker string, l event.PollOutcome) (runs []event.Run, err error)

	// DueSchedules returns enabled schedules that are due, of all organizations, the
	// most overdue first.
	DueSchedules(ctx context.Context, now time.Time, limit int) ([]event.Schedule, error)
	// FireSchedule moves s to its next time, nil for none, and writes the match, if any,
	// in the same transaction, if s is unchanged since it was read. Of several callers
	// for one due time, one gets fired.
	FireSchedule(ctx context.Context, s event.Schedule, next *time.Time, m *event.Match) (runs []event.Run, fired bool, err error)

	// Runs until they are claimed.

	// ClaimRunDeliveries leases due deliveries to the worker, of organizations with an enabled
	// endpoint. The run of each is claimed for the endpoint, for the duration life; a
	// delivery whose run has another worker, or ended, is void. Runs of disabled
	// automations wait.
	ClaimRunDeliveries(ctx context.Context, worker string, limit int, lease, life time.Duration) ([]event.Dispatch, error)
	// SettleRunDelivery writes the outcome of an attempt; a dead delivery fails its run. It
	// returns the run; held is false if the worker lost the lease.
	SettleRunDelivery(ctx context.Context, worker string, s event.DispatchResult) (run event.Run, held bool, err error)
}

// Integrations finds the integrations that events belong to, and calls services with their
// credentials. Errors are an [*action.Error]; ErrUnavailable has RetryAfter if the service
// sent one.
type Integrations interface {
	// IntegrationsByAccount returns the integrations with a provider's account, of all
	// organizations, except deleted ones; without credentials.
	IntegrationsByAccount(ctx context.Context, provider, account string) ([]action.Integration, error)
	// IntegrationsByBroker returns the integrations behind a connection of the broker
	// under one of its provider keys.
	IntegrationsByBroker(ctx context.Context, connection, key string) ([]action.Integration, error)
	// IntegrationStatus sets the status that a service or broker reported. It is
	// idempotent and never restores a deleted integration.
	IntegrationStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) error

	// Poll returns the events of an integration since the cursor.
	Poll(ctx context.Context, organization, integration string, cursor json.RawMessage) (event.PollResult, error)
	// Hydrate completes an event; see sources.Module.
	Hydrate(ctx context.Context, organization, integration string, e *event.Event) (changed bool, err error)
	// Recheck queries the broker or service for the status of an integration and stores
	// it.
	Recheck(ctx context.Context, in action.Integration) error
}
