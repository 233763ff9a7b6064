package inbound

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/store/database"
)

// minBodyAge is how long the hash of a body is kept at least, however short the
// retention is; longer than any window in which it tells of the same delivery.
const minBodyAge = time.Hour

// PurgeInbound wipes payloads of events and deletes ended receipts from before
// a time, up to limit rows (zero: 100), and says how many. Each kind is a
// transaction of its own, and none when there is nothing to do.
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

// ExpiredBodies are kept as long as deliveries are: one that was put off is settled
// hours after it came, and so is another with its body.
func ExpiredBodies(before, now time.Time) database.Expired {
	if latest := now.Add(-minBodyAge); before.After(latest) {
		before = latest
	}
	return database.Expired{Table: "inbox_bodies", Key: "endpoint, hash", Time: "received_at", Before: database.NewTimestamp(before)}
}

// forgetting is one kind of what inbound work leaves behind. The where names a
// partial index's predicate word by word.
type retentionRule struct {
	table, where, order string
	before              database.Timestamp
	keepRow             bool // the row stays without its payload
}

func RetentionRules(before database.Timestamp) []retentionRule {
	return []retentionRule{
		{table: "events", where: "(shown IS NOT NULL OR sealed IS NOT NULL) AND created_at < ?", order: "created_at", before: before, keepRow: true},
		{table: "inbox", where: "status IN ('completed', 'failed') AND received_at < ?", order: "received_at", before: before},
	}
}

// applyRule forgets the oldest ones. A reader looks first, as in a sweep.
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
