package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// bodyAge is how long the hash of a body is kept at least, however short the
// retention is; longer than any window in which it tells of the same delivery.
const bodyAge = time.Hour

// ForgetInbound wipes payloads of events and deletes ended receipts from before
// a time, up to limit rows (zero: 100), and says how many. Each kind is a
// transaction of its own, and none when there is nothing to do.
func (db *DB) ForgetInbound(ctx context.Context, before time.Time, limit int) (n int, err error) {
	limit = orHundred(limit)
	for _, f := range forgettings(at(before)) {
		if n >= limit {
			return n, nil
		}
		some, err := db.forgetInbound(ctx, f, limit-n)
		if n += some; err != nil {
			return n, fmt.Errorf("forgetting what %s keeps: %w", f.table, err)
		}
	}
	if n < limit {
		some, err := db.forget(ctx, oldBodies(before, db.now()), limit-n)
		return n + some, err
	}
	return n, nil
}

// oldBodies are kept as long as deliveries are: one that was put off is settled
// hours after it came, and so is another with its body.
func oldBodies(before, now time.Time) stale {
	if until := now.Add(-bodyAge); before.After(until) {
		before = until
	}
	return stale{table: "inbox_bodies", key: "endpoint, hash", time: "received_at", before: at(before)}
}

// forgetting is one kind of what inbound work leaves behind. The where names a
// partial index's predicate word by word.
type forgetting struct {
	table, where, order string
	before              stamp
	wipe                bool // the row stays without its payload
}

func forgettings(before stamp) []forgetting {
	return []forgetting{
		{table: "events", where: "(shown IS NOT NULL OR sealed IS NOT NULL) AND created_at < ?", order: "created_at", before: before, wipe: true},
		{table: "inbox", where: "status IN ('completed', 'failed') AND received_at < ?", order: "received_at", before: before},
	}
}

// forgetInbound forgets the oldest ones. A reader looks first, as in a sweep.
func (db *DB) forgetInbound(ctx context.Context, f forgetting, limit int) (n int, err error) {
	some, err := exists(ctx, f.oldest(db.read, 1))
	if err != nil || !some {
		return 0, err
	}
	err = db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
		n, err = f.apply(ctx, tx, limit)
		return err
	}})
	return n, err
}

func (f forgetting) oldest(db bun.IDB, limit int) *bun.SelectQuery {
	return db.NewSelect().Table(f.table).Column("id").Where(f.where, f.before).Order(f.order).Limit(int64(limit))
}

func (f forgetting) apply(ctx context.Context, db bun.IDB, limit int) (int, error) {
	due, which := f.oldest(db, limit), "id IN (?)"
	if shared(db) {
		due, which = due.For("UPDATE SKIP LOCKED"), "id = ANY (ARRAY(?))"
	}
	if f.wipe {
		return affected(db.NewUpdate().Table(f.table).Set("shown = NULL, sealed = NULL").Where(which, due).Exec(ctx))
	}
	return affected(db.NewDelete().Table(f.table).Where(which, due).Exec(ctx))
}
