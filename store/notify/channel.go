package notify

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/inbound"
)

// ChannelRow is a row of the table notify_channels.
type ChannelRow struct {
	bun.BaseModel `bun:"table:notify_channels,alias:c"`
	action.NotifyChannel
	Holder     string `bun:",nullzero"`
	LeaseUntil *time.Time
}

// Event implements [history.Recorded].
func (r *ChannelRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventNotify, Subject: string(r.Kind), By: by}
}

// Snapshot implements [history.Recorded]. It holds only the host of the URL: every
// member reads history, and the path may be a secret.
func (r *ChannelRow) Snapshot() any {
	host := ""
	if u, err := url.Parse(r.URL); err == nil {
		host = u.Host
	}
	return struct {
		Enabled     bool               `json:"enabled"`
		Wants       action.NotifyWants `json:"wants"`
		Host        string             `json:"host,omitempty"`
		Integration string             `json:"integration_id,omitempty"`
		Target      string             `json:"channel,omitempty"`
	}{r.Enabled, r.Wants, host, r.Integration, r.Target}
}

func channelQuery(db bun.IDB, organization string, kind action.NotifyKind) *bun.SelectQuery {
	return database.RowsOf[ChannelRow](db, organization).Where("kind = ?", kind)
}

func readChannel(ctx context.Context, db bun.IDB, organization string, kind action.NotifyKind) (ChannelRow, error) {
	return database.One[ChannelRow](ctx, channelQuery(db, organization, kind), action.NewError("notify_not_found", kind))
}

// NotifyChannel returns a channel of an organization; ErrNotFound.
func (st *Store) NotifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error) {
	r, err := readChannel(ctx, st.db.Read, organization, kind)
	return r.NotifyChannel, err
}

// NotifyChannels returns the channels of an organization, or of all if it is empty.
func (st *Store) NotifyChannels(ctx context.Context, organization string) ([]action.NotifyChannel, error) {
	q := st.db.Read.NewSelect().Model((*ChannelRow)(nil)).ExcludeColumn("holder", "lease_until").Order("organization_id", "kind")
	if organization != "" {
		q = q.Where("organization_id = ?", organization)
	}
	return database.List[action.NotifyChannel](ctx, q)
}

// SetNotifyChannel writes the settings of a channel in the name of c.UpdatedBy, adds
// the secret of a webhook unless it is nil, and returns the channel. Failed
// notifications are retried at once.
func (st *Store) SetNotifyChannel(ctx context.Context, c action.NotifyChannel, secret *event.Secret) (action.NotifyChannel, error) {
	if err := c.Check(); err != nil {
		return action.NotifyChannel{}, err
	}
	if (redact.JSON{}).RedactText(c.URL, nil) != c.URL {
		return action.NotifyChannel{}, database.Invalid("/url", "This URL seems to contain a credential, which people could read. Leave it out: requests are signed.")
	}
	// Of the delivery status only the last success stays.
	c.Failures, c.LastError, c.LastErrorAt, c.LastSentAt, c.RetryAt = 0, "", nil, nil, nil
	r := &ChannelRow{NotifyChannel: c}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := database.Optional[ChannelRow](ctx, channelQuery(tx, c.Organization, c.Kind))
		if err != nil {
			return err
		}
		if old != nil {
			r.LastSentAt = old.LastSentAt
		}
		if err := history.Replace(ctx, st.history, tx, old, r, c.UpdatedBy); err != nil {
			return err
		}
		if secret != nil {
			if err := st.inbound.AddSecret(ctx, tx, r.Organization, webhookSecretOwner, *secret); err != nil {
				return err
			}
		}
		return rescheduleNotifications(ctx, tx, r)
	})
	return r.NotifyChannel, err
}

// rescheduleNotifications makes failed notifications due, or ends all notifications of
// a disabled channel.
func rescheduleNotifications(ctx context.Context, tx bun.IDB, r *ChannelRow) error {
	updates := []*bun.UpdateQuery{tx.NewUpdate().Table("notifications").Set("next_at = ?", r.UpdatedAt).Where("status = 'pending'").Where("next_at > ?", r.UpdatedAt)}
	if !r.Enabled {
		updates = []*bun.UpdateQuery{
			voidPending(tx, database.NewTimestamp(r.UpdatedAt)),
			tx.NewUpdate().Table("notifications").Set("status = 'done', ended_at = ?", r.UpdatedAt).Where("status = 'sent'"),
		}
	}
	for _, q := range updates {
		if _, err := q.Where("organization_id = ?", r.Organization).Where("kind = ?", r.Kind).Exec(ctx); err != nil {
			return fmt.Errorf("rescheduling notifications: %w", err)
		}
	}
	return nil
}

// DeleteNotifyChannel removes a channel with its secrets and notifications;
// ErrNotFound.
func (st *Store) DeleteNotifyChannel(ctx context.Context, organization string, kind action.NotifyKind, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readChannel(ctx, tx, organization, kind)
		if err != nil {
			return err
		}
		_, err = tx.NewDelete().Table("notifications").Where("organization_id = ?", organization).Where("kind = ?", string(kind)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting notifications: %w", err)
		}
		if kind == action.NotifyWebhook {
			if err := inbound.DeleteSecrets(ctx, tx, organization, webhookSecretOwner); err != nil {
				return err
			}
		}
		return st.history.Remove(ctx, tx, &r, by)
	})
}

// SigningSecrets returns the unexpired secrets of an owner (a trigger, the endpoint for
// runs, or the webhook channel), newest first; ErrNotFound if there is no such owner.
func (st *Store) SigningSecrets(ctx context.Context, organization, owner string) ([]event.Secret, error) {
	if _, err := ownerKind(ctx, st.db.Read, organization, owner); err != nil {
		return nil, err
	}
	return st.inbound.Secrets(ctx, st.db.Read, organization, owner)
}

// SecretOwners returns the owners that have unexpired secrets.
func (st *Store) SecretOwners(ctx context.Context, organization string) (map[string]bool, error) {
	var owners []string
	err := st.db.Read.NewSelect().Model((*inbound.SigningRow)(nil)).Distinct().Column("owner_id").Where("organization_id = ?", organization).
		Where("expires_at IS NULL OR expires_at > ?", database.NewTimestamp(st.db.Now())).Scan(ctx, &owners)
	if err != nil {
		return nil, fmt.Errorf("reading the owners of secrets: %w", err)
	}
	set := make(map[string]bool, len(owners))
	for _, o := range owners {
		set[o] = true
	}
	return set, nil
}

// webhookSecretOwner owns the secrets that sign requests to the notification webhook.
const webhookSecretOwner = "notify"

// ownerKind returns the kind of event that records a change of an owner's secrets;
// ErrNotFound if there is no such owner.
func ownerKind(ctx context.Context, db bun.IDB, organization, owner string) (kind string, err error) {
	switch owner {
	case inbound.EndpointOwner:
		_, err := inbound.ReadEndpoint(ctx, db, organization)
		return action.EventEndpoint, err
	case webhookSecretOwner:
		_, err := readChannel(ctx, db, organization, action.NotifyWebhook)
		return action.EventNotify, err
	}
	_, err = inbound.ReadTrigger(ctx, db, organization, owner)
	return action.EventTrigger, err
}

// RotateSecret adds a secret, and limits the expiry of the others to a time. Expired
// ones are deleted. ErrNotFound if there is no such owner; ErrTooMany if too many
// others remain.
func (st *Store) RotateSecret(ctx context.Context, organization, owner string, s event.Secret, othersUntil time.Time, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		kind, err := ownerKind(ctx, tx, organization, owner)
		if err != nil {
			return err
		}
		before, err := st.inbound.Secrets(ctx, tx, organization, owner)
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Table("signing_secrets").Set("expires_at = ?", database.NewTimestamp(othersUntil).Or(database.Epoch)).
			Where("organization_id = ?", organization).Where("owner_id = ?", owner).
			Where("expires_at IS NULL OR expires_at > ?", database.NewTimestamp(othersUntil).Or(database.Epoch)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("ending the secrets of %s: %w", owner, err)
		}
		if err := st.inbound.AddSecret(ctx, tx, organization, owner, s); err != nil {
			return err
		}
		after, err := st.inbound.Secrets(ctx, tx, organization, owner)
		if err != nil {
			return err
		}
		type snapshot struct {
			Secrets []event.Secret `json:"secrets"`
		}
		return st.history.RecordChange(ctx, tx, action.PolicyEvent{Organization: organization, Kind: kind, Subject: owner, By: by}, snapshot{before}, snapshot{after})
	})
}
