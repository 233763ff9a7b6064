package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// maxBacklog is how far what waits is counted.
const maxBacklog = 10_000

// DeliveriesWaiting returns how many deliveries of all organizations wait to be
// worked off, counted to 10,000.
func (db *DB) DeliveriesWaiting(ctx context.Context) (int, error) {
	return countSome(ctx, db.read, db.read.NewSelect().Table("inbox").ColumnExpr("1").Where("status = 'queued'"))
}

// RunsUndelivered returns how many runs of all organizations wait for their
// endpoint, or for whoever claims them, counted to 10,000.
func (db *DB) RunsUndelivered(ctx context.Context) (int, error) {
	return countSome(ctx, db.read, db.read.NewSelect().Table("outbox").ColumnExpr("1").Where("status = 'pending'"))
}

// CallsPending returns how many calls of all organizations wait for a person,
// counted to 10,000.
func (db *DB) CallsPending(ctx context.Context) (int, error) {
	return countSome(ctx, db.read, db.read.NewSelect().Table("invocations").ColumnExpr("1").Where("status = 'pending'"))
}

// ToolsUnreviewed returns how many tools that connectors of all organizations
// list nobody reviewed, or behave otherwise than when somebody did; counted to
// 10,000.
func (db *DB) ToolsUnreviewed(ctx context.Context) (int, error) {
	return countSome(ctx, db.read, db.read.NewSelect().Table("tool_reviews").ColumnExpr("1").
		Where("current_behaviour IS NOT NULL").Where("reviewed_behaviour IS NULL OR reviewed_behaviour <> current_behaviour"))
}

// InboxLag returns for how long the delivery has been due that is due the
// longest; zero when none is.
func (db *DB) InboxLag(ctx context.Context) (time.Duration, error) {
	return db.lag(ctx, db.read.NewSelect().Table("inbox").Column("next_at").Where("status = 'queued'").Order("next_at"), 1)
}

// OutboxLag returns for how long the run has been due for its endpoint, or for
// whoever claims it, that is due the longest, of the 10,000 that it looks at;
// zero when none is.
func (db *DB) OutboxLag(ctx context.Context) (time.Duration, error) {
	return db.lag(ctx, db.read.NewSelect().Table("outbox").Column("next_at").Where("status = 'pending'"), maxBacklog)
}

func (db *DB) lag(ctx context.Context, due *bun.SelectQuery, limit int) (time.Duration, error) {
	var first stamp
	err := db.read.NewSelect().TableExpr("(?) AS due", due.Limit(int64(limit))).ColumnExpr("min(next_at)").Scan(ctx, &first)
	if err != nil {
		return 0, fmt.Errorf("looking at what is due: %w", err)
	}
	if first.ptr() == nil {
		return 0, nil
	}
	return max(0, db.now().Sub(first.t)), nil
}

func countSome(ctx context.Context, db bun.IDB, rows *bun.SelectQuery) (n int, err error) {
	err = db.NewSelect().TableExpr("(?) AS waiting", rows.Limit(maxBacklog)).ColumnExpr("count(*)").Scan(ctx, &n)
	if err != nil {
		return 0, fmt.Errorf("counting what waits: %w", err)
	}
	return n, nil
}
