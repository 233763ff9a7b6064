package notify

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

// channelRow is a channel by which an organization's approvers are notified.
type channelRow struct {
	bun.BaseModel `bun:"table:notify_channels,alias:c"`

	Organization string              `bun:"organization_id,pk"`
	Kind         string              `bun:"kind,pk"`
	Enabled      bool                `bun:"enabled"`
	Wants        string              `bun:"wants"`
	URL          database.NullString `bun:"url"`
	Sealed       []byte              `bun:"sealed"`
	Integration  database.NullString `bun:"integration_id"`
	Target       database.NullString `bun:"target"`
	Failures     int                 `bun:"failures"`
	RetryAt      database.Timestamp  `bun:"retry_at"`
	LastError    database.NullString `bun:"last_error"`
	LastErrorAt  database.Timestamp  `bun:"last_error_at"`
	LastSentAt   database.Timestamp  `bun:"last_sent_at"`
	Holder       database.NullString `bun:"holder"`
	LeaseUntil   database.Timestamp  `bun:"lease_until"`
	UpdatedBy    string              `bun:"updated_by"`
	UpdatedAt    database.Timestamp  `bun:"updated_at"`
}

func (r *channelRow) channel() action.NotifyChannel {
	return action.NotifyChannel{
		Organization: r.Organization, Kind: action.NotifyKind(r.Kind), Enabled: r.Enabled, Wants: action.NotifyWants(r.Wants),
		URL: string(r.URL), Sealed: r.Sealed, Integration: string(r.Integration), Target: string(r.Target),
		UpdatedBy: r.UpdatedBy, UpdatedAt: r.UpdatedAt.Time, Failures: r.Failures, LastError: string(r.LastError),
		LastErrorAt: r.LastErrorAt.Ptr(), LastSentAt: r.LastSentAt.Ptr(), RetryAt: r.RetryAt.Ptr(),
	}
}

// snapshot is the state of a channel in history. It holds only the host of the URL:
// every member reads history, and the path may be a secret.
func (r *channelRow) snapshot() any {
	if r == nil {
		return nil
	}
	host := ""
	if u, err := url.Parse(string(r.URL)); err == nil {
		host = u.Host
	}
	return struct {
		Enabled     bool                `json:"enabled"`
		Wants       string              `json:"wants"`
		Host        string              `json:"host,omitempty"`
		Integration database.NullString `json:"integration_id,omitempty"`
		Target      database.NullString `json:"channel,omitempty"`
	}{r.Enabled, r.Wants, host, r.Integration, r.Target}
}

func (r *channelRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventNotify, Subject: r.Kind, By: by}
}

func readChannel(ctx context.Context, db bun.IDB, organization string, kind action.NotifyKind) (*channelRow, error) {
	r := &channelRow{Organization: organization, Kind: string(kind)}
	err := db.NewSelect().Model(r).WherePK().Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.NewError("notify_not_found", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a notification channel: %w", err)
	}
	return r, nil
}

// NotifyChannel returns a channel of an organization; ErrNotFound.
func (st *Store) NotifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error) {
	r, err := readChannel(ctx, st.db.Read, organization, kind)
	if err != nil {
		return action.NotifyChannel{}, err
	}
	return r.channel(), nil
}

// NotifyChannels returns the channels of an organization, or of all if it is empty.
func (st *Store) NotifyChannels(ctx context.Context, organization string) ([]action.NotifyChannel, error) {
	var rows []channelRow
	q := st.db.Read.NewSelect().Model(&rows).Order("organization_id", "kind")
	if organization != "" {
		q = q.Where("organization_id = ?", organization)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading notification channels: %w", err)
	}
	list := make([]action.NotifyChannel, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].channel())
	}
	return list, nil
}

// SetNotifyChannel writes the settings of a channel in the name of c.UpdatedBy, adds
// the secret of a webhook unless it is nil, and returns the channel. Failed
// notifications are retried at once.
func (st *Store) SetNotifyChannel(ctx context.Context, c action.NotifyChannel, secret *event.Secret) (action.NotifyChannel, error) {
	r := &channelRow{
		Organization: c.Organization, Kind: string(c.Kind), Enabled: c.Enabled, Wants: string(c.Wants), URL: database.NullString(c.URL), Sealed: c.Sealed,
		Integration: database.NullString(c.Integration), Target: database.NullString(c.Target), UpdatedBy: c.UpdatedBy, UpdatedAt: database.NewTimestamp(st.db.Now()),
	}
	if err := c.Check(); err != nil {
		return action.NotifyChannel{}, err
	}
	if (redact.JSON{}).RedactText(c.URL, nil) != c.URL {
		return action.NotifyChannel{}, database.Invalid("/url", "This URL holds what looks like a credential, and people read it; leave that out: what is sent is signed.")
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := readChannel(ctx, tx, r.Organization, c.Kind)
		if err != nil && !errors.Is(err, action.ErrNotFound) {
			return err
		}
		if old != nil {
			r.LastSentAt = old.LastSentAt
		}
		_, err = tx.NewInsert().Model(r).On("CONFLICT (organization_id, kind) DO UPDATE").
			Set("enabled = EXCLUDED.enabled, wants = EXCLUDED.wants, url = EXCLUDED.url, sealed = EXCLUDED.sealed").
			Set("integration_id = EXCLUDED.integration_id, target = EXCLUDED.target").
			Set("failures = 0, retry_at = NULL, last_error = NULL, last_error_at = NULL, holder = NULL, lease_until = NULL").
			Set("updated_by = EXCLUDED.updated_by, updated_at = EXCLUDED.updated_at").Exec(ctx)
		if err != nil {
			return fmt.Errorf("writing a notification channel: %w", err)
		}
		if secret != nil {
			if err := st.inbound.AddSecret(ctx, tx, r.Organization, webhookSecretOwner, *secret); err != nil {
				return err
			}
		}
		if err := rescheduleNotifications(ctx, tx, r); err != nil {
			return err
		}
		return st.history.RecordChange(ctx, tx, r.event(r.UpdatedBy), old.snapshot(), r.snapshot())
	})
	return r.channel(), err
}

// rescheduleNotifications makes failed notifications due, or ends all notifications of
// a disabled channel.
func rescheduleNotifications(ctx context.Context, tx bun.IDB, r *channelRow) error {
	if !r.Enabled {
		return endNotifications(ctx, tx, r)
	}
	_, err := tx.NewUpdate().Table("notifications").Set("next_at = ?", r.UpdatedAt).Where("organization_id = ?", r.Organization).
		Where("kind = ?", r.Kind).Where("status = 'pending'").Where("next_at > ?", r.UpdatedAt).Exec(ctx)
	if err != nil {
		return fmt.Errorf("rescheduling notifications: %w", err)
	}
	return nil
}

func endNotifications(ctx context.Context, tx bun.IDB, r *channelRow) error {
	for _, q := range []*bun.UpdateQuery{
		voidPending(tx, r.UpdatedAt),
		tx.NewUpdate().Table("notifications").Set("status = 'done', ended_at = ?", r.UpdatedAt).Where("status = 'sent'"),
	} {
		if _, err := q.Where("organization_id = ?", r.Organization).Where("kind = ?", r.Kind).Exec(ctx); err != nil {
			return fmt.Errorf("ending notifications: %w", err)
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
		if _, err := tx.NewDelete().Model(r).WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("deleting a notification channel: %w", err)
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
		return st.history.RecordChange(ctx, tx, r.event(by), r.snapshot(), nil)
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
