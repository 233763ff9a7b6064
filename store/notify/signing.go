package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

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
