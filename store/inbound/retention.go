package inbound

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/store/database"
)

// bodyAge is how long the hash of a body is kept at least, however short the
// retention is; longer than any window in which it tells of the same delivery.
const bodyAge = time.Hour

// ForgetInbound wipes payloads of events and deletes ended receipts from before
// a time, up to limit rows (zero: 100), and says how many. Each kind is a
// transaction of its own, and none when there is nothing to do.
func (st *Store) ForgetInbound(ctx context.Context, before time.Time, limit int) (n int, err error) {
	limit = database.LimitOrDefault(limit)
	for _, f := range Forgettings(database.NewTimestamp(before)) {
		if n >= limit {
			return n, nil
		}
		some, err := st.forgetInbound(ctx, f, limit-n)
		if n += some; err != nil {
			return n, fmt.Errorf("forgetting what %s keeps: %w", f.table, err)
		}
	}
	if n < limit {
		some, err := st.db.DeleteExpired(ctx, OldBodies(before, st.db.Now()), limit-n)
		return n + some, err
	}
	return n, nil
}

// OldBodies are kept as long as deliveries are: one that was put off is settled
// hours after it came, and so is another with its body.
func OldBodies(before, now time.Time) database.Expired {
	if until := now.Add(-bodyAge); before.After(until) {
		before = until
	}
	return database.Expired{Table: "inbox_bodies", Key: "endpoint, hash", Time: "received_at", Before: database.NewTimestamp(before)}
}

// forgetting is one kind of what inbound work leaves behind. The where names a
// partial index's predicate word by word.
type forgetting struct {
	table, where, order string
	before              database.Timestamp
	wipe                bool // the row stays without its payload
}

func Forgettings(before database.Timestamp) []forgetting {
	return []forgetting{
		{table: "events", where: "(shown IS NOT NULL OR sealed IS NOT NULL) AND created_at < ?", order: "created_at", before: before, wipe: true},
		{table: "inbox", where: "status IN ('completed', 'failed') AND received_at < ?", order: "received_at", before: before},
	}
}

// forgetInbound forgets the oldest ones. A reader looks first, as in a sweep.
func (st *Store) forgetInbound(ctx context.Context, f forgetting, limit int) (n int, err error) {
	some, err := database.Exists(ctx, f.Oldest(st.db.Read, 1))
	if err != nil || !some {
		return 0, err
	}
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n, err = f.apply(ctx, tx, limit)
		return err
	}})
	return n, err
}

func (f forgetting) Oldest(db bun.IDB, limit int) *bun.SelectQuery {
	return db.NewSelect().Table(f.table).Column("id").Where(f.where, f.before).Order(f.order).Limit(int64(limit))
}

func (f forgetting) apply(ctx context.Context, db bun.IDB, limit int) (int, error) {
	due, which := f.Oldest(db, limit), "id IN (?)"
	if database.Shared(db) {
		due, which = due.For("UPDATE SKIP LOCKED"), "id = ANY (ARRAY(?))"
	}
	if f.wipe {
		return database.RowsAffected(db.NewUpdate().Table(f.table).Set("shown = NULL, sealed = NULL").Where(which, due).Exec(ctx))
	}
	return database.RowsAffected(db.NewDelete().Table(f.table).Where(which, due).Exec(ctx))
}
