package inbound

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/store/database"
)

// minBodyAge is the minimum retention of body hashes. It is longer than any
// deduplication window.
const minBodyAge = time.Hour

// PurgeInbound clears event payloads and deletes ended receipts from before a
// time, up to limit rows (zero: 100), and returns their number. Each rule has
// its own transaction, and none if nothing is due.
func (st *Store) PurgeInbound(ctx context.Context, before time.Time, limit int) (n int, err error) {
	limit = database.LimitOrDefault(limit)
	for _, r := range RetentionRules(database.NewTimestamp(before)) {
		if n >= limit {
			return n, nil
		}
		purged, err := st.applyRule(ctx, r, limit-n)
		if n += purged; err != nil {
			return n, fmt.Errorf("forgetting what %s keeps: %w", r.table, err)
		}
	}
	if n < limit {
		purged, err := st.db.DeleteExpired(ctx, ExpiredBodies(before, st.db.Now()), limit-n)
		return n + purged, err
	}
	return n, nil
}

// ExpiredBodies keeps body hashes as long as deliveries, because a postponed
// delivery may be settled hours after it was received.
func ExpiredBodies(before, now time.Time) database.Expired {
	if latest := now.Add(-minBodyAge); before.After(latest) {
		before = latest
	}
	return database.Expired{Table: "inbox_bodies", Key: "endpoint, hash", Time: "received_at", Before: database.NewTimestamp(before)}
}

// retentionRule selects the expired rows of a table. The where clause repeats
// the predicate of a partial index verbatim.
type retentionRule struct {
	table, where, order string
	before              database.Timestamp
	keepRow             bool // only clear the payload
}

// RetentionRules returns the rules for rows from before a time.
func RetentionRules(before database.Timestamp) []retentionRule {
	return []retentionRule{
		{table: "events", where: "(shown IS NOT NULL OR sealed IS NOT NULL) AND created_at < ?", order: "created_at", before: before, keepRow: true},
		{table: "inbox", where: "status IN ('completed', 'failed') AND received_at < ?", order: "received_at", before: before},
	}
}

// applyRule applies a rule to the oldest rows. It checks with a read first.
func (st *Store) applyRule(ctx context.Context, r retentionRule, limit int) (n int, err error) {
	found, err := database.Exists(ctx, r.SelectExpired(st.db.Read, 1))
	if err != nil || !found {
		return 0, err
	}
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n, err = r.apply(ctx, tx, limit)
		return err
	}})
	return n, err
}

// SelectExpired selects the oldest rows of the rule.
func (f retentionRule) SelectExpired(db bun.IDB, limit int) *bun.SelectQuery {
	return db.NewSelect().Table(f.table).Column("id").Where(f.where, f.before).Order(f.order).Limit(int64(limit))
}

func (f retentionRule) apply(ctx context.Context, db bun.IDB, limit int) (int, error) {
	due, which := f.SelectExpired(db, limit), "id IN (?)"
	if database.Shared(db) {
		due, which = due.For("UPDATE SKIP LOCKED"), "id = ANY (ARRAY(?))"
	}
	if f.keepRow {
		return database.RowsAffected(db.NewUpdate().Table(f.table).Set("shown = NULL, sealed = NULL").Where(which, due).Exec(ctx))
	}
	return database.RowsAffected(db.NewDelete().Table(f.table).Where(which, due).Exec(ctx))
}
