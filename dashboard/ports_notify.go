package dashboard

import (
	"context"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Notify keeps where approvers hear of held calls elsewhere. The secrets of
// webhooks are those of the owner [NotifySecrets].
type Notify interface {
	// NotifyChannel returns ErrNotFound when there is none of the kind.
	NotifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error)
	NotifyChannels(ctx context.Context, organization string) ([]action.NotifyChannel, error)
	// SetNotifyChannel replaces what people choose of a channel, in the name of
	// c.UpdatedBy, and adds the secret when there is one.
	SetNotifyChannel(ctx context.Context, c action.NotifyChannel, secret *event.Secret) (action.NotifyChannel, error)
	// DeleteNotifyChannel also forgets what was told; ErrNotFound.
	DeleteNotifyChannel(ctx context.Context, organization string, kind action.NotifyKind, by string) error
	// Notifications returns the newest of what was told, and of what is to be.
	Notifications(ctx context.Context, organization string, limit int) ([]action.Notification, error)
}

// NotifySecrets is whose the secrets are that sign webhooks of held calls.
const NotifySecrets = "notify"
