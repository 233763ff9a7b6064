package ingest

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Rows keeps what comes in until it is worked off: deliveries, what starts runs,
// and runs until somebody has them. Every method is one transaction and returns when
// it is durable.
type Rows interface {
	// Verified deliveries.

	// Receive writes a receipt as queued. When its endpoint has one with the same
	// key already nothing changes, but that one is queued anew that failed or
	// reached nobody. fresh tells that there is something to be worked off now.
	Receive(ctx context.Context, r event.Receipt) (fresh bool, err error)
	// ClaimReceipts gives the worker up to limit queued receipts that are due, or
	// whose worker lost them, the oldest first, with one attempt counted, and of
	// the latter one loss. Others get other ones.
	ClaimReceipts(ctx context.Context, worker string, limit int, lease time.Duration) ([]event.Receipt, error)
	// RenewReceipts has the leases of those of the worker begin anew.
	RenewReceipts(ctx context.Context, worker string, ids []string, lease time.Duration) error
	// Settle writes what came of claimed receipts, all in one transaction:
	// events, runs and outbox of each match whose trigger has no event of the key
	// yet. A receipt that the worker lost is left as it is, with all that came of
	// it.
	Settle(ctx context.Context, worker string, list []event.Settlement) (event.Settled, error)

	// What starts runs.

	// TriggerLock returns a trigger, enabled or not, with its secrets, by its id
	// alone, which is all that a URL has; ErrNotFound.
	TriggerLock(ctx context.Context, id string) (event.Lock, error)
	// AutomationLock returns the one webhook trigger of that provider that an
	// automation has, by the automation's id alone; ErrNotFound also when there
	// are several, or several automations of the id.
	AutomationLock(ctx context.Context, automation, provider string) (event.Lock, error)
	// ActiveTriggers returns an organization's enabled triggers of a provider,
	// those of disabled automations too.
	ActiveTriggers(ctx context.Context, organization, provider string) ([]event.Trigger, error)
	// UnverifiedEvents tells whether events that a broker did not verify may
	// start something in the organization.
	UnverifiedEvents(ctx context.Context, organization string) (bool, error)

	// What comes due.

	// ClaimPoll gives the worker a group that is due and that nobody holds; false:
	// there is none.
	ClaimPoll(ctx context.Context, worker string, lease time.Duration) (g event.PollGroup, found bool, err error)
	// RenewPoll has the lease begin anew; false: the worker lost it.
	RenewPoll(ctx context.Context, worker string, g event.PollGroup, lease time.Duration) (held bool, err error)
	// SettlePoll writes cursor and events in one transaction, and gives the group
	// back. Nothing is written, and ErrConflict returned, when the worker lost it.
	SettlePoll(ctx context.Context, worker string, l event.Look) (runs []event.Run, err error)

	// DueSchedules returns enabled schedules whose time has come, of all
	// organizations, the most overdue first.
	DueSchedules(ctx context.Context, now time.Time, limit int) ([]event.Schedule, error)
	// FireSchedule moves s, as it was read, to its next time, nil for none, and
	// writes the match, if there is one, in the same transaction. Of many who do
	// it for one due time one is told that it did, and none when s was changed.
	FireSchedule(ctx context.Context, s event.Schedule, next *time.Time, m *event.Match) (runs []event.Run, fired bool, err error)

	// Runs until somebody has them.

	// ClaimParcels gives the worker parcels that are due, of organizations that
	// have an enabled endpoint. The run of each is claimed by the endpoint with it,
	// for life; one that somebody else has, or that ended, is void. Runs of a
	// disabled automation wait.
	ClaimParcels(ctx context.Context, worker string, limit int, lease, life time.Duration) ([]event.Dispatch, error)
	// SettleParcel writes what came of an attempt; a dead one fails its run. It
	// returns the run, and false when the worker lost the parcel.
	SettleParcel(ctx context.Context, worker string, s event.Sent) (run event.Run, held bool, err error)
}

// Integrations finds whose events they are, and speaks to services with the
// credential of an integration. Errors are an [*action.Error]; ErrUnavailable has
// RetryAfter where the service told.
type Integrations interface {
	// IntegrationsByAccount returns the integrations of a provider's account, of
	// all organizations, that are not deleted; without credentials.
	IntegrationsByAccount(ctx context.Context, provider, account string) ([]action.Integration, error)
	// IntegrationsByBroker returns those that the broker keeps as a connection
	// under one of its provider keys.
	IntegrationsByBroker(ctx context.Context, connection, key string) ([]action.Integration, error)
	// IntegrationStatus notes what a service or broker said of an integration. It
	// changes nothing that is so already, and never revives a deleted one.
	IntegrationStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) error

	// Poll looks for what happened at the integration since the cursor.
	Poll(ctx context.Context, organization, integration string, cursor json.RawMessage) (event.Polled, error)
	// Hydrate completes an event; see sources.Module.
	Hydrate(ctx context.Context, organization, integration string, e *event.Event) (changed bool, err error)
	// Recheck asks the broker or service itself how an integration does, and
	// notes what it answers.
	Recheck(ctx context.Context, in action.Integration) error
}
