package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// GoneUploads gives up uploads that nobody sealed and nobody added to since
// before, and returns at most limit of those whose files are to be removed:
// these, and those of sessions that are deleted. They take no file from then on.
func (db *DB) GoneUploads(ctx context.Context, before time.Time, limit int) ([]action.UploadRef, error) {
	open := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Table("evidence_uploads").Where("sealed_at IS NULL").Where("gone_at IS NULL").Where("touched_at < ?", at(before))
	}
	some, err := exists(ctx, open(db.read.NewSelect().ColumnExpr("1")).Limit(1))
	if err == nil && some {
		err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
			ids := open(tx.NewSelect().ColumnExpr("session_id, id")).Order("touched_at").Limit(int64(orHundred(limit)))
			_, err := tx.NewUpdate().Table("evidence_uploads").Set("gone_at = ?", at(db.now())).
				Where("(session_id, id) IN (?)", ids).Where("sealed_at IS NULL").Where("touched_at < ?", at(before)).Exec(ctx)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("giving up uploads: %w", err)
	}
	var rows []uploadRow
	err = db.read.NewSelect().Model(&rows).Where("gone_at IS NOT NULL").Order("gone_at").Limit(int64(orHundred(limit))).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for uploads that are gone: %w", err)
	}
	refs := make([]action.UploadRef, 0, len(rows))
	for _, r := range rows {
		refs = append(refs, action.UploadRef{Organization: r.Organization, Session: r.Session, ID: r.ID})
	}
	return refs, nil
}

// ForgetUpload deletes the rows of an upload that is gone, once its files are
// removed.
func (db *DB) ForgetUpload(ctx context.Context, ref action.UploadRef) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Table("evidence_uploads").Where("organization_id = ?", ref.Organization).
			Where("session_id = ?", ref.Session).Where("id = ?", ref.ID).Where("gone_at IS NOT NULL").Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting upload %s: %w", ref.ID, err)
		}
		return nil
	})
}
