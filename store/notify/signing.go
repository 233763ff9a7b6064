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

// SigningSecrets returns the secrets of a trigger, or of the endpoint for runs,
// that have not expired, the newest first; ErrNotFound when there is no such
// owner.
func (st *Store) SigningSecrets(ctx context.Context, organization, owner string) ([]event.Secret, error) {
	if _, err := ownerOf(ctx, st.db.Read, organization, owner); err != nil {
		return nil, err
	}
	return st.inbound.Secrets(ctx, st.db.Read, organization, owner)
}

// SecretOwners are the owners of which [DB.SigningSecrets] would return any.
func (st *Store) SecretOwners(ctx context.Context, organization string) (map[string]bool, error) {
	var owners []string
	err := st.db.Read.NewSelect().Model((*inbound.SigningRow)(nil)).Distinct().Column("owner_id").Where("organization_id = ?", organization).
		Where("expires_at IS NULL OR expires_at > ?", database.NewTimestamp(st.db.Now())).Scan(ctx, &owners)
	if err != nil {
		return nil, fmt.Errorf("reading who has secrets: %w", err)
	}
	set := make(map[string]bool, len(owners))
	for _, o := range owners {
		set[o] = true
	}
	return set, nil
}

// notifySecrets is the owner of those that sign what its webhook for held calls gets.
const notifySecrets = "notify"

// ownerOf finds whose secrets are meant, and what history calls a change of
// them; ErrNotFound.
func ownerOf(ctx context.Context, db bun.IDB, organization, owner string) (kind string, err error) {
	switch owner {
	case inbound.EndpointOwner:
		_, err := inbound.ReadEndpoint(ctx, db, organization)
		return action.EventEndpoint, err
	case notifySecrets:
		_, err := channelRowOf(ctx, db, organization, action.NotifyWebhook)
		return action.EventNotify, err
	}
	_, err = inbound.ReadTrigger(ctx, db, organization, owner)
	return action.EventTrigger, err
}

// RotateSecret adds a secret, and has the others end at a time, or at their own
// if that is sooner. Those that ended are gone. ErrNotFound when there is no such
// owner; ErrTooMany while too many others go on.
func (st *Store) RotateSecret(ctx context.Context, organization, owner string, s event.Secret, othersUntil time.Time, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		kind, err := ownerOf(ctx, tx, organization, owner)
		if err != nil {
			return err
		}
		was, err := st.inbound.Secrets(ctx, tx, organization, owner)
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
		is, err := st.inbound.Secrets(ctx, tx, organization, owner)
		if err != nil {
			return err
		}
		type told struct {
			Secrets []event.Secret `json:"secrets"`
		}
		return st.history.RecordChange(ctx, tx, action.PolicyEvent{Organization: organization, Kind: kind, Subject: owner, By: by}, told{was}, told{is})
	})
}
