package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type quotaRow struct {
	bun.BaseModel `bun:"table:quotas"`

	Organization string `bun:"organization_id,pk"`
	Source       string `bun:"source_id,pk"`
	Action       string `bun:"action,pk"`
	Per          string `bun:"per,pk"`
	Calls        int    `bun:"calls"`
	Seconds      int    `bun:"seconds"`
	UpdatedBy    string `bun:"updated_by"`
	UpdatedAt    stamp  `bun:"updated_at"`
}

func (r *quotaRow) quota() *action.Quota {
	if r == nil {
		return nil
	}
	return &action.Quota{
		Organization: r.Organization, Key: action.Key{Source: r.Source, Action: r.Action}, Per: action.QuotaScope(r.Per),
		Rate: action.Rate{Calls: r.Calls, Seconds: r.Seconds}, UpdatedBy: r.UpdatedBy,
	}
}

func (r *quotaRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventQuota, Subject: r.quota().Key.String(), By: by}
}

// SetQuota writes the quota of a key and scope, or changes it. A key of a
// connector must name one that exists (ErrNotFound).
func (db *DB) SetQuota(ctx context.Context, q action.Quota) error {
	if err := q.Check(); err != nil {
		return err
	}
	r := &quotaRow{
		Organization: q.Organization, Source: q.Key.Source, Action: q.Key.Action, Per: string(q.Per),
		Calls: q.Calls, Seconds: q.Seconds, UpdatedBy: q.UpdatedBy, UpdatedAt: at(db.now()),
	}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, q.Organization, q.Key.Source); err != nil {
			return err
		}
		old, err := quotaRowOf(ctx, tx, *r)
		if err != nil || old != nil && old.quota().Rate == q.Rate {
			return err
		}
		_, err = tx.NewInsert().Model(r).On("CONFLICT (organization_id, source_id, action, per) DO UPDATE").
			Set("calls = EXCLUDED.calls, seconds = EXCLUDED.seconds, updated_by = EXCLUDED.updated_by, updated_at = EXCLUDED.updated_at").
			Exec(ctx)
		if err != nil {
			return fmt.Errorf("setting the quota of %s: %w", q.Key, err)
		}
		return db.policyChanged(ctx, tx, r.event(q.UpdatedBy), old.quota(), r.quota())
	})
}

// UnsetQuota removes a quota; ErrNotFound.
func (db *DB) UnsetQuota(ctx context.Context, organization string, key action.Key, per action.QuotaScope, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := quotaRowOf(ctx, tx, quotaRow{Organization: organization, Source: key.Source, Action: key.Action, Per: string(per)})
		if err != nil {
			return err
		}
		if old == nil {
			return action.Errorf(action.ErrNotFound, "quota_not_found", "No quota per %s is set for %s.", per, key)
		}
		if _, err := tx.NewDelete().Model(old).WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("unsetting the quota of %s: %w", key, err)
		}
		return db.policyChanged(ctx, tx, old.event(by), old.quota(), nil)
	})
}

// ListQuotas returns the organization's quotas, by key and scope.
func (db *DB) ListQuotas(ctx context.Context, organization string) ([]action.Quota, error) {
	return listQuotas(ctx, db.read, organization)
}

func listQuotas(ctx context.Context, db bun.IDB, organization string) ([]action.Quota, error) {
	var rows []quotaRow
	if err := quotas(db, organization).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing quotas: %w", err)
	}
	list := make([]action.Quota, 0, len(rows))
	for i := range rows {
		list = append(list, *rows[i].quota())
	}
	return list, nil
}

func quotas(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Model((*quotaRow)(nil)).Where("organization_id = ?", organization).Order("source_id", "action", "per")
}

// quotaRowOf reads the row with the key of r; nil when there is none.
func quotaRowOf(ctx context.Context, tx bun.Tx, r quotaRow) (*quotaRow, error) {
	err := tx.NewSelect().Model(&r).WherePK().Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a quota: %w", err)
	}
	return &r, nil
}
