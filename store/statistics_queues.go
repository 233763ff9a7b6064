package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// queues counts what waits or runs now, each to 10,000.
func (db *DB) queues(ctx context.Context, organization string) (q action.Queues, err error) {
	for _, part := range []struct {
		rows *bun.SelectQuery
		into *action.Depth
	}{
		{waitingIn(db.read, "invocations", organization, "pending"), &q.Pending},
		{waitingIn(db.read, "invocations", organization, "approved"), &q.Approved},
		{waitingIn(db.read, "invocations", organization, "executing"), &q.Executing},
		{waitingIn(db.read, "runs", organization, "queued"), &q.Runs},
		{waitingIn(db.read, "outbox", organization, "pending"), &q.Outbox},
	} {
		if part.into.Count, err = countSome(ctx, db.read, part.rows); err != nil {
			return q, err
		}
		part.into.Capped = part.into.Count == maxBacklog
	}
	q.Deliveries, err = db.deliveriesOf(ctx, organization)
	return q, err
}

// waitingIn is what of an organization stands at a status, for which there is
// an index.
func waitingIn(db bun.IDB, table, organization, status string) *bun.SelectQuery {
	return db.NewSelect().Table(table).ColumnExpr("1").Where("organization_id = ?", organization).Where("status = ?", status)
}

// deliveriesOf counts those of an organization among the first of all that
// wait: an index by organization would cost every delivery something.
func (db *DB) deliveriesOf(ctx context.Context, organization string) (d action.Depth, err error) {
	var all int
	if err = firstDeliveries(db.read, organization).Scan(ctx, &d.Count, &all); err != nil {
		return d, fmt.Errorf("counting deliveries that wait: %w", err)
	}
	d.Capped = all == maxBacklog
	return d, nil
}

func firstDeliveries(db bun.IDB, organization string) *bun.SelectQuery {
	first := db.NewSelect().Table("inbox").Column("organization_id").Where("status = 'queued'").OrderExpr("next_at, id").Limit(maxBacklog)
	return db.NewSelect().TableExpr("(?) AS waiting", first).
		ColumnExpr("coalesce(sum(CASE WHEN organization_id = ? THEN 1 ELSE 0 END), 0)", organization).ColumnExpr("count(*)")
}
