package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// claimBytes bounds what one claim returns, but for the first delivery: a
// hundred of the largest ones are more than a worker has room for.
const claimBytes = 32 << 20

// unworked is one kind of deliveries that wait for a worker. The where names a
// partial index's predicate word by word.
type unworked struct {
	where, order string
	losses       int // that one of them more has then
	now          stamp
}

// unworkedKinds are those that a worker lost, and those that are due.
func unworkedKinds(now stamp) []unworked {
	return []unworked{
		{"status = 'processing' AND lease_until < ?", "lease_until", 1, now},
		{"status = 'queued' AND next_at <= ?", "next_at, id", 0, now},
	}
}

// due finds the oldest of them.
func (u unworked) due(db bun.IDB, limit int) *bun.SelectQuery {
	return db.NewSelect().Table("inbox").Column("id").Where(u.where, u.now).OrderExpr(u.order).Limit(int64(limit))
}

// claim takes them. The array is made once; see [sweep.update]. They are locked
// as they are found, so nothing is asked of them again: PostgreSQL would read
// all that is due for it.
func (u unworked) claim(db bun.IDB, worker string, until stamp, limit int) *bun.UpdateQuery {
	due := u.due(db, limit).Column("size", "next_at")
	if shared(db) {
		due = due.For("NO KEY UPDATE SKIP LOCKED")
	}
	sized := db.NewSelect().TableExpr("(?) AS due", due).ColumnExpr("id, sum(size) OVER (ORDER BY next_at, id) - size AS before")
	some := db.NewSelect().TableExpr("(?) AS sized", sized).Column("id").Where("before < ?", claimBytes)
	q := db.NewUpdate().Table("inbox").Set("status = 'processing', holder = ?, lease_until = ?, attempt = attempt + 1, losses = losses + ?", worker, until, u.losses)
	if shared(db) {
		return q.Where("id = ANY (ARRAY(?))", some)
	}
	return q.Where("id IN (?)", some)
}

// ClaimReceipts gives the worker up to limit queued receipts that are due, or
// whose worker lost them, the oldest first, with one attempt counted, and of the
// latter one loss. Others get other ones. There may be fewer than that when they are large. A claim
// whose commit was not answered lapses like that of a worker that died.
func (db *DB) ClaimReceipts(ctx context.Context, worker string, limit int, lease time.Duration) ([]event.Receipt, error) {
	now := db.now()
	var rows []receiptRow
	for _, kind := range unworkedKinds(at(now)) {
		if len(rows) >= limit {
			break
		}
		some, err := db.claimReceipts(ctx, kind, worker, at(now.Add(lease)), limit-len(rows))
		if err != nil {
			return nil, fmt.Errorf("claiming deliveries: %w", err)
		}
		rows = append(rows, some...)
	}
	slices.SortFunc(rows, func(a, b receiptRow) int {
		return cmp.Or(a.NextAt.t.Compare(b.NextAt.t), cmp.Compare(a.ID, b.ID))
	})
	return receipts(rows), nil
}

// claimReceipts takes those of one kind. A reader looks first, as in a sweep:
// whoever asks when nothing is due writes nothing.
func (db *DB) claimReceipts(ctx context.Context, kind unworked, worker string, until stamp, limit int) (rows []receiptRow, err error) {
	some, err := exists(ctx, kind.due(db.read, 1))
	if err != nil || !some {
		return nil, err
	}
	err = db.write.do(ctx, &job{single: true, slow: true, run: func(ctx context.Context, tx bun.IDB) error {
		rows = nil
		return kind.claim(tx, worker, until, limit).Returning("*").Scan(ctx, &rows)
	}})
	return rows, err
}

// RenewReceipts has the leases of those of the worker begin anew. One that is
// being settled is passed by.
func (db *DB) RenewReceipts(ctx context.Context, worker string, ids []string, lease time.Duration) error {
	until := at(db.now().Add(lease))
	for some := range slices.Chunk(ids, chunk) {
		err := db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
			_, err := renewReceipts(tx, worker, some, until).Exec(ctx)
			return err
		}})
		if err != nil {
			return fmt.Errorf("renewing the leases of deliveries: %w", err)
		}
	}
	return nil
}

func renewReceipts(db bun.IDB, worker string, ids []string, until stamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("inbox").Set("lease_until = ?", until)
	held := db.NewSelect().Table("inbox").Column("id").Where("id IN (?)", bun.List(ids)).
		Where("holder = ?", worker).Where("status = 'processing'")
	if shared(db) {
		return q.Where("id = ANY (ARRAY(?))", held.For("NO KEY UPDATE SKIP LOCKED"))
	}
	return q.Where("id IN (?)", held)
}
