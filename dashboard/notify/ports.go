package notify

import (
	"context"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Rows stores channels and their notifications.
type Rows interface {
	NotifyChannels(ctx context.Context, organization string) ([]action.NotifyChannel, error)
	NotifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error)
	// QueueCalls creates notifications for the calls and environment requests
	// that were held before a time.
	QueueCalls(ctx context.Context, c action.NotifyChannel, held time.Time, from action.NotifyCursor) (created int, next action.NotifyCursor, err error)
	// CloseSettled closes the notifications of calls and requests that were settled.
	CloseSettled(ctx context.Context, c action.NotifyChannel, from action.NotifyCursor) (closed int, next action.NotifyCursor, err error)
	// ClaimChannels leases channels with due notifications to the worker.
	// Channels that were claimed before an error are returned with it.
	ClaimChannels(ctx context.Context, worker string, lease time.Duration) ([]action.NotifyChannel, error)
	// NextNotification returns nil when nothing is due.
	NextNotification(ctx context.Context, c action.NotifyChannel) (*action.DueNotification, error)
	// SettleNotification returns false when the worker lost the channel.
	SettleNotification(ctx context.Context, worker string, o action.NotifyOutcome) (held bool, err error)
	ReleaseChannel(ctx context.Context, worker string, c action.NotifyChannel) error
	SigningSecrets(ctx context.Context, organization, owner string) ([]event.Secret, error)
}
