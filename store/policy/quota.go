package policy

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// QuotaRow is a row of the table quotas.
type QuotaRow struct {
	bun.BaseModel `bun:"table:quotas"`
	action.Quota
	UpdatedAt time.Time
}

// Event implements [history.Recorded].
func (r *QuotaRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventQuota, Subject: r.Key.String(), By: by}
}

// Snapshot implements [history.Recorded].
func (r *QuotaRow) Snapshot() any { return r.Quota }

// SetQuota creates or changes the quota of a key and scope. The connector of the key
// must exist (ErrNotFound).
func (st *Store) SetQuota(ctx context.Context, q action.Quota) error {
	if err := q.Check(); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, q.Organization, q.Key.Source); err != nil {
			return err
		}
		return history.Upsert(ctx, st.history, tx, &QuotaRow{Quota: q}, q.UpdatedBy)
	})
}

// UnsetQuota removes a quota; ErrNotFound.
func (st *Store) UnsetQuota(ctx context.Context, organization string, key action.Key, per action.QuotaScope, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := tx.NewSelect().Model(&QuotaRow{Quota: action.Quota{Organization: organization, Key: key, Per: per}}).WherePK()
		r, err := database.One[QuotaRow](ctx, q, action.NewError("quota_not_found", per, key))
		if err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, &r, by)
	})
}

// ListQuotas returns the quotas of an organization, by key and scope.
func (st *Store) ListQuotas(ctx context.Context, organization string) ([]action.Quota, error) {
	return database.List[action.Quota](ctx, QuotasQuery(st.db.Read, organization))
}

// QuotasQuery is the query of [Store.ListQuotas].
func QuotasQuery(db bun.IDB, organization string) *bun.SelectQuery {
	return database.RowsOf[QuotaRow](db, organization).ExcludeColumn("updated_at").Order("source_id", "action", "per")
}
