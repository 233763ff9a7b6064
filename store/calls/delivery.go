package calls

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

const (
	// The status is an expression, so that only the index of ids is taken.
	seenSQL = `UPDATE invocations SET waiter_seen_at = ?0 WHERE id IN (?1) AND status || '' = 'pending' AND waiter_seen_at < ?0`

	// Lock the rows in a fixed order: two instances that update the same rows would
	// otherwise deadlock.
	seenInOrderSQL = `UPDATE invocations SET waiter_seen_at = ?0 WHERE id = ANY (ARRAY(SELECT id FROM invocations
  WHERE id IN (?1) AND status || '' = 'pending' AND waiter_seen_at < ?0 ORDER BY id FOR NO KEY UPDATE)) AND status || '' = 'pending'`

	DeliveredSQL = `UPDATE invocations SET delivered_at = ?1
WHERE organization_id = ?2 AND id = ?3 AND completed_at IS NOT NULL AND delivered_at IS NULL`
)

// MarkSeen implements [action.Ledger]. It splits many IDs over several transactions
// so that other writes can run in between.
func (st *Store) MarkSeen(ctx context.Context, ids []string, now time.Time) error {
	for batch := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		err := st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
			_, err := MarkSeen(tx, batch, database.NewTimestamp(now)).Exec(ctx)
			return err
		}})
		if err != nil {
			return fmt.Errorf("noting that callers wait: %w", err)
		}
	}
	return nil
}

// MarkSeen records that callers still wait for the rows. An out-of-order update
// never moves the time backwards.
func MarkSeen(db bun.IDB, ids []string, now database.Timestamp) *bun.RawQuery {
	if database.Shared(db) && len(ids) > 1 {
		return db.NewRaw(seenInOrderSQL, now, bun.List(ids))
	}
	return db.NewRaw(seenSQL, now, bun.List(ids))
}

// MarkAnswered implements [action.Ledger].
func (st *Store) MarkAnswered(ctx context.Context, organization, id string) error {
	return st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewRaw(`UPDATE invocations SET answered = 1 WHERE organization_id = ? AND id = ? AND status = 'pending'`,
			organization, id).Exec(ctx)
		return err
	}})
}

// MarkDelivered implements [action.Ledger].
func (st *Store) MarkDelivered(ctx context.Context, organization, id string, now time.Time) error {
	args := []any{database.NewTimestamp(now), organization, id}
	return st.db.Write.Enqueue(ctx, &database.Job{Row: id, SingleStatement: true, Unordered: true, Batchable: &database.BatchStatement{Stmt: st.stmts.delivered, Args: func() []any { return args }, Done: nil}, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := st.stmts.delivered.Exec(ctx, tx, args...)
		return err
	}})
}

// Settled implements [action.Ledger].
func (st *Store) Settled(ctx context.Context, ids []string) ([]action.Invocation, error) {
	if err := st.db.Write.Flush(ctx, ids...); err != nil {
		return nil, err
	}
	var settled []action.Invocation
	for batch := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		list, err := st.list(ctx, st.db.Read.NewSelect().Model((*InvocationRow)(nil)).
			Where("id IN (?)", bun.List(batch)).Where("status <> 'pending'"))
		if err != nil {
			return nil, fmt.Errorf("looking for settled invocations: %w", err)
		}
		settled = append(settled, list...)
	}
	return settled, nil
}

// Unclaimed implements [action.Ledger].
func (st *Store) Unclaimed(ctx context.Context, t time.Time, limit int) ([]action.Invocation, error) {
	list, err := st.list(ctx, SelectUnclaimed(st.db.Read, t, limit))
	if err != nil {
		return nil, fmt.Errorf("looking for unclaimed invocations: %w", err)
	}
	return list, nil
}

// SelectUnclaimed selects calls that were approved before t and are not claimed yet.
func SelectUnclaimed(db bun.IDB, t time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*InvocationRow)(nil)).
		Where("status = 'approved'").Where("approved_at < ?", database.NewTimestamp(t)).Order("approved_at").Limit(int64(limit))
}

// list returns the invocations of q without sealed columns.
func (st *Store) list(ctx context.Context, q *bun.SelectQuery) ([]action.Invocation, error) {
	var rows []InvocationRow
	if err := q.Column(PublicColumnNames...).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	return invocations(rows)
}

// SaveCallerFeatures implements [action.Ledger]. Of several callers of a call each may be
// asked, so what they can adds up.
func (st *Store) SaveCallerFeatures(ctx context.Context, organization, invocation string, can action.ClientFeatures) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewRaw(returnsSQL, int(can), organization, invocation).Exec(ctx); err != nil {
			return fmt.Errorf("noting who comes back for invocation %s: %w", invocation, err)
		}
		return nil
	})
}

const returnsSQL = `INSERT INTO returning_callers (invocation_id, can)
SELECT id, ? FROM invocations WHERE organization_id = ? AND id = ? AND status IN ('pending', 'approved')
ON CONFLICT (invocation_id) DO UPDATE SET can = returning_callers.can | excluded.can`

const returningSQL = `SELECT c.can FROM returning_callers c JOIN invocations i ON i.id = c.invocation_id
WHERE c.invocation_id = ?2 AND i.organization_id = ?1`

// CallerFeatures implements [action.Ledger].
func (st *Store) CallerFeatures(ctx context.Context, organization, invocation string) (action.ClientFeatures, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	var can int
	err := st.stmts.returning.One(ctx, st.db.Read, []any{organization, invocation}, []any{&can})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("reading who comes back for invocation %s: %w", invocation, err)
	}
	return action.ClientFeatures(can), nil
}
