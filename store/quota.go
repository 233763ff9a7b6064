package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type quotaRow struct {
	bun.BaseModel `bun:"table:quotas"`
	action.Quota
	UpdatedAt time.Time
}

func (r *quotaRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventQuota, Subject: r.Key.String(), By: by}
}

func (r *quotaRow) snapshot() any { return r.Quota }

// SetQuota writes the quota of a key and scope, or changes it. A key of a
// connector must name one that exists (ErrNotFound).
func (db *DB) SetQuota(ctx context.Context, q action.Quota) error {
	if err := q.Check(); err != nil {
		return err
	}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, q.Organization, q.Key.Source); err != nil {
			return err
		}
		return upsert(ctx, db, tx, &quotaRow{Quota: q}, q.UpdatedBy)
	})
}

// UnsetQuota removes a quota; ErrNotFound.
func (db *DB) UnsetQuota(ctx context.Context, organization string, key action.Key, per action.QuotaScope, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := tx.NewSelect().Model(&quotaRow{Quota: action.Quota{Organization: organization, Key: key, Per: per}}).WherePK()
		r, err := one[quotaRow](ctx, q, action.NewError("quota_not_found", per, key))
		if err != nil {
			return err
		}
		return db.remove(ctx, tx, &r, by)
	})
}

// ListQuotas returns the organization's quotas, by key and scope.
func (db *DB) ListQuotas(ctx context.Context, organization string) ([]action.Quota, error) {
	return list[action.Quota](ctx, quotas(db.read, organization))
}

func quotas(db bun.IDB, organization string) *bun.SelectQuery {
	return rowsOf[quotaRow](db, organization).ExcludeColumn("updated_at").Order("source_id", "action", "per")
}
