package notify

import (
	"context"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Rows keep channels, and what was told by them.
type Rows interface {
	NotifyChannels(ctx context.Context, organization string) ([]action.NotifyChannel, error)
	NotifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error)
	// LookForCalls makes notifications of calls, and of requests for variables,
	// that were held before a time.
	LookForCalls(ctx context.Context, c action.NotifyChannel, held time.Time, from action.NotifyCursor) (made int, next action.NotifyCursor, err error)
	LookForEnds(ctx context.Context, c action.NotifyChannel, from action.NotifyCursor) (closed int, next action.NotifyCursor, err error)
	// ClaimChannels gives the worker, for the lease, channels by which something
	// is due. What it claimed before an error is returned with it.
	ClaimChannels(ctx context.Context, worker string, lease time.Duration) ([]action.NotifyChannel, error)
	// NextNotification returns nil when nothing is due.
	NextNotification(ctx context.Context, c action.NotifyChannel) (*action.DueNotification, error)
	// SettleNotification returns false when the worker lost the channel.
	SettleNotification(ctx context.Context, worker string, o action.NotifyOutcome) (held bool, err error)
	ReleaseChannel(ctx context.Context, worker string, c action.NotifyChannel) error
	SigningSecrets(ctx context.Context, organization, owner string) ([]event.Secret, error)
}
