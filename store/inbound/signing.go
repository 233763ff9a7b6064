package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// maxSecrets limits the unexpired secrets of an owner.
const maxSecrets = 5

// EndpointOwner is the owner of the secrets that sign requests to an
// organization's run endpoint. Other secrets are owned by their trigger.
const EndpointOwner = "endpoint"

// SigningRow is a row of the signing_secrets table.
type SigningRow struct {
	bun.BaseModel `bun:"table:signing_secrets"`

	ID           string             `bun:"id,pk"`
	Organization string             `bun:"organization_id"`
	Owner        string             `bun:"owner_id"`
	Sealed       []byte             `bun:"sealed"`
	CreatedAt    database.Timestamp `bun:"created_at"`
	ExpiresAt    database.Timestamp `bun:"expires_at"`
}

func (r *SigningRow) secret() event.Secret {
	return event.Secret{ID: r.ID, Sealed: r.Sealed, CreatedAt: r.CreatedAt.Time, ExpiresAt: r.ExpiresAt.Ptr()}
}

// Secrets returns the unexpired secrets of an owner, newest first.
func (st *Store) Secrets(ctx context.Context, db bun.IDB, organization, owner string) ([]event.Secret, error) {
	var rows []SigningRow
	if err := SelectLiveSecrets(db, organization, owner, database.NewTimestamp(st.db.Now())).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading the secrets of %s: %w", owner, err)
	}
	list := make([]event.Secret, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].secret())
	}
	return list, nil
}

// SelectLiveSecrets selects the unexpired secrets of an owner, newest first.
func SelectLiveSecrets(db bun.IDB, organization, owner string, now database.Timestamp) *bun.SelectQuery {
	return db.NewSelect().Model((*SigningRow)(nil)).Where("organization_id = ?", organization).Where("owner_id = ?", owner).
		Where("expires_at IS NULL OR expires_at > ?", now).OrderExpr("created_at DESC, id DESC")
}

// AddSecret inserts a secret and deletes the expired ones of its owner.
func (st *Store) AddSecret(ctx context.Context, tx bun.Tx, organization, owner string, s event.Secret) error {
	if s.ID == "" || len(s.Sealed) == 0 {
		return errors.New("a secret needs an id, and to be sealed")
	}
	now := database.NewTimestamp(st.db.Now())
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
	r := &SigningRow{ID: s.ID, Organization: organization, Owner: owner, Sealed: s.Sealed, CreatedAt: database.NewTimestamp(s.CreatedAt).Or(now), ExpiresAt: database.TimestampFromPtr(s.ExpiresAt)}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return fmt.Errorf("writing a secret of %s: %w", owner, err)
	}
	return nil
}

// DeleteSecrets deletes the secrets of an owner.
func DeleteSecrets(ctx context.Context, tx bun.Tx, organization, owner string) error {
	_, err := tx.NewDelete().Table("signing_secrets").Where("organization_id = ?", organization).Where("owner_id = ?", owner).Exec(ctx)
	if err != nil {
		return fmt.Errorf("deleting the secrets of %s: %w", owner, err)
	}
	return nil
}

// SweepSigningSecrets deletes up to limit (zero: 100) secrets that expired
// before a time, and returns their number.
func (st *Store) SweepSigningSecrets(ctx context.Context, before time.Time, limit int) (int, error) {
	return st.db.DeleteExpired(ctx, ExpiredSecrets(before), limit)
}

// ExpiredSecrets selects the secrets that expired before a time.
func ExpiredSecrets(before time.Time) database.Expired {
	return database.Expired{Table: "signing_secrets", Key: "id", Time: "expires_at", Before: database.NewTimestamp(before).Or(database.Epoch)}
}
