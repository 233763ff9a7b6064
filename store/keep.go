package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// chunk bounds the ids in one statement.
const chunk = 250

const (
	// The status is an expression, so that only the index of ids is taken.
	seenSQL = `UPDATE invocations SET waiter_seen_at = ?0 WHERE id IN (?1) AND status || '' = 'pending' AND waiter_seen_at < ?0`

	// Rows are locked in one order, whoever asks: two instances that note the
	// same callers would otherwise wait for each other.
	seenInOrderSQL = `UPDATE invocations SET waiter_seen_at = ?0 WHERE id = ANY (ARRAY(SELECT id FROM invocations
  WHERE id IN (?1) AND status || '' = 'pending' AND waiter_seen_at < ?0 ORDER BY id FOR NO KEY UPDATE)) AND status || '' = 'pending'`

	deliveredSQL = `UPDATE invocations SET delivered_at = ?1
WHERE organization_id = ?2 AND id = ?3 AND completed_at IS NOT NULL AND delivered_at IS NULL`
)

// Seen implements [action.Ledger]. Many ids take several transactions, so that
// others get between them.
func (db *DB) Seen(ctx context.Context, ids []string, now time.Time) error {
	for some := range slices.Chunk(ids, chunk) {
		err := db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
			_, err := seen(tx, some, at(now)).Exec(ctx)
			return err
		}})
		if err != nil {
			return fmt.Errorf("noting that callers wait: %w", err)
		}
	}
	return nil
}

// seen notes that callers wait for the rows; a late note does not turn time
// back.
func seen(db bun.IDB, ids []string, now stamp) *bun.RawQuery {
	if shared(db) && len(ids) > 1 {
		return db.NewRaw(seenInOrderSQL, now, bun.List(ids))
	}
	return db.NewRaw(seenSQL, now, bun.List(ids))
}

// Answered implements [action.Ledger].
func (db *DB) Answered(ctx context.Context, organization, id string) error {
	return db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewRaw(`UPDATE invocations SET answered = 1 WHERE organization_id = ? AND id = ? AND status = 'pending'`,
			organization, id).Exec(ctx)
		return err
	}})
}

// Delivered implements [action.Ledger].
func (db *DB) Delivered(ctx context.Context, organization, id string, now time.Time) error {
	args := []any{at(now), organization, id}
	return db.write.enqueue(ctx, &job{row: id, single: true, passes: true, quick: &quick{&db.stmts.delivered, func() []any { return args }, nil}, run: func(ctx context.Context, tx bun.IDB) error {
		_, err := db.stmts.delivered.exec(ctx, tx, args...)
		return err
	}})
}

// Settled implements [action.Ledger].
func (db *DB) Settled(ctx context.Context, ids []string) ([]action.Invocation, error) {
	if err := db.write.flush(ctx, ids...); err != nil {
		return nil, err
	}
	var settled []action.Invocation
	for some := range slices.Chunk(ids, chunk) {
		list, err := db.list(ctx, db.read.NewSelect().Model((*invocationRow)(nil)).
			Where("id IN (?)", bun.List(some)).Where("status <> 'pending'"))
		if err != nil {
			return nil, fmt.Errorf("looking for settled invocations: %w", err)
		}
		settled = append(settled, list...)
	}
	return settled, nil
}

// Unclaimed implements [action.Ledger].
func (db *DB) Unclaimed(ctx context.Context, t time.Time, limit int) ([]action.Invocation, error) {
	list, err := db.list(ctx, unclaimed(db.read, t, limit))
	if err != nil {
		return nil, fmt.Errorf("looking for unclaimed invocations: %w", err)
	}
	return list, nil
}

func unclaimed(db bun.IDB, t time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*invocationRow)(nil)).
		Where("status = 'approved'").Where("approved_at < ?", at(t)).Order("approved_at").Limit(int64(limit))
}

// list reads the invocations that q finds, without what is sealed.
func (db *DB) list(ctx context.Context, q *bun.SelectQuery) ([]action.Invocation, error) {
	var rows []invocationRow
	if err := q.Column(shown...).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	return invocations(rows)
}
