package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// maxSecrets is how many secrets of one owner are good at once.
const maxSecrets = 5

// endpointSecrets is the owner of the secrets that sign what an organization's
// endpoint for runs gets. Those of others are owned by their triggers.
const endpointSecrets = "endpoint"

type signingRow struct {
	bun.BaseModel `bun:"table:signing_secrets"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Owner        string `bun:"owner_id"`
	Sealed       []byte `bun:"sealed"`
	CreatedAt    stamp  `bun:"created_at"`
	ExpiresAt    stamp  `bun:"expires_at"`
}

func (r *signingRow) secret() event.Secret {
	return event.Secret{ID: r.ID, Sealed: r.Sealed, CreatedAt: r.CreatedAt.t, ExpiresAt: r.ExpiresAt.ptr()}
}

// SigningSecrets returns the secrets of a trigger, or of the endpoint for runs,
// that have not expired, the newest first; ErrNotFound when there is no such
// owner.
func (db *DB) SigningSecrets(ctx context.Context, organization, owner string) ([]event.Secret, error) {
	if _, err := ownerOf(ctx, db.read, organization, owner); err != nil {
		return nil, err
	}
	return db.secrets(ctx, db.read, organization, owner)
}

// SecretOwners are the owners of which [DB.SigningSecrets] would return any.
func (db *DB) SecretOwners(ctx context.Context, organization string) (map[string]bool, error) {
	var owners []string
	err := db.read.NewSelect().Model((*signingRow)(nil)).Distinct().Column("owner_id").Where("organization_id = ?", organization).
		Where("expires_at IS NULL OR expires_at > ?", at(db.now())).Scan(ctx, &owners)
	if err != nil {
		return nil, fmt.Errorf("reading who has secrets: %w", err)
	}
	set := make(map[string]bool, len(owners))
	for _, o := range owners {
		set[o] = true
	}
	return set, nil
}

func (db *DB) secrets(ctx context.Context, from bun.IDB, organization, owner string) ([]event.Secret, error) {
	var rows []signingRow
	if err := liveSecrets(from, organization, owner, at(db.now())).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading the secrets of %s: %w", owner, err)
	}
	list := make([]event.Secret, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].secret())
	}
	return list, nil
}

func liveSecrets(db bun.IDB, organization, owner string, now stamp) *bun.SelectQuery {
	return db.NewSelect().Model((*signingRow)(nil)).Where("organization_id = ?", organization).Where("owner_id = ?", owner).
		Where("expires_at IS NULL OR expires_at > ?", now).OrderExpr("created_at DESC, id DESC")
}

// notifySecrets is the owner of those that sign what its webhook for held calls gets.
const notifySecrets = "notify"

// ownerOf finds whose secrets are meant, and what history calls a change of
// them; ErrNotFound.
func ownerOf(ctx context.Context, db bun.IDB, organization, owner string) (kind string, err error) {
	switch owner {
	case endpointSecrets:
		_, err := endpointRowOf(ctx, db, organization)
		return action.EventEndpoint, err
	case notifySecrets:
		_, err := channelRowOf(ctx, db, organization, action.NotifyWebhook)
		return action.EventNotify, err
	}
	_, err = triggerOf(ctx, db, organization, owner)
	return action.EventTrigger, err
}

// RotateSecret adds a secret, and has the others end at a time, or at their own
// if that is sooner. Those that ended are gone. ErrNotFound when there is no such
// owner; ErrTooMany while too many others go on.
func (db *DB) RotateSecret(ctx context.Context, organization, owner string, s event.Secret, othersUntil time.Time, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		kind, err := ownerOf(ctx, tx, organization, owner)
		if err != nil {
			return err
		}
		was, err := db.secrets(ctx, tx, organization, owner)
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Table("signing_secrets").Set("expires_at = ?", at(othersUntil).or(epoch)).
			Where("organization_id = ?", organization).Where("owner_id = ?", owner).
			Where("expires_at IS NULL OR expires_at > ?", at(othersUntil).or(epoch)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("ending the secrets of %s: %w", owner, err)
		}
		if err := db.addSecret(ctx, tx, organization, owner, s); err != nil {
			return err
		}
		is, err := db.secrets(ctx, tx, organization, owner)
		if err != nil {
			return err
		}
		type told struct {
			Secrets []event.Secret `json:"secrets"`
		}
		return db.recordChange(ctx, tx, action.PolicyEvent{Organization: organization, Kind: kind, Subject: owner, By: by}, told{was}, told{is})
	})
}

// addSecret writes one after those went that ended.
func (db *DB) addSecret(ctx context.Context, tx bun.Tx, organization, owner string, s event.Secret) error {
	if s.ID == "" || len(s.Sealed) == 0 {
		return errors.New("a secret needs an id, and to be sealed")
	}
	now := at(db.now())
	_, err := tx.NewDelete().Table("signing_secrets").Where("organization_id = ?", organization).Where("owner_id = ?", owner).
		Where("expires_at <= ?", now).Exec(ctx)
	if err != nil {
		return fmt.Errorf("forgetting old secrets of %s: %w", owner, err)
	}
	n, err := tx.NewSelect().Table("signing_secrets").Where("organization_id = ?", organization).Where("owner_id = ?", owner).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting the secrets of %s: %w", owner, err)
	}
	if n >= maxSecrets {
		return action.NewError("too_many_secrets", n)
	}
	r := &signingRow{ID: s.ID, Organization: organization, Owner: owner, Sealed: s.Sealed, CreatedAt: at(s.CreatedAt).or(now), ExpiresAt: atPtr(s.ExpiresAt)}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return fmt.Errorf("writing a secret of %s: %w", owner, err)
	}
	return nil
}

func deleteSecrets(ctx context.Context, tx bun.Tx, organization, owner string) error {
	_, err := tx.NewDelete().Table("signing_secrets").Where("organization_id = ?", organization).Where("owner_id = ?", owner).Exec(ctx)
	if err != nil {
		return fmt.Errorf("deleting the secrets of %s: %w", owner, err)
	}
	return nil
}

// SweepSigningSecrets forgets at most limit (zero: 100) secrets that expired
// before a time, and returns how many.
func (db *DB) SweepSigningSecrets(ctx context.Context, before time.Time, limit int) (int, error) {
	return db.forget(ctx, oldSecrets(before), limit)
}

func oldSecrets(before time.Time) stale {
	return stale{table: "signing_secrets", key: "id", time: "expires_at", before: at(before).or(epoch)}
}
