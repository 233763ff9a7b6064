package calls

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// queues counts pending and running work, each up to [MaxQueueCount].
func (st *Store) queues(ctx context.Context, organization string) (q action.Queues, err error) {
	for _, part := range []struct {
		rows *bun.SelectQuery
		into *action.Depth
	}{
		{RowsWithStatus(st.db.Read, "invocations", organization, "pending"), &q.Pending},
		{RowsWithStatus(st.db.Read, "invocations", organization, "approved"), &q.Approved},
		{RowsWithStatus(st.db.Read, "invocations", organization, "executing"), &q.Executing},
		{RowsWithStatus(st.db.Read, "runs", organization, "queued"), &q.Runs},
		{RowsWithStatus(st.db.Read, "outbox", organization, "pending"), &q.Outbox},
	} {
		if part.into.Count, err = countUpToMax(ctx, st.db.Read, part.rows); err != nil {
			return q, err
		}
		part.into.Capped = part.into.Count == MaxQueueCount
	}
	q.Deliveries, err = st.queuedDeliveries(ctx, organization)
	return q, err
}

// RowsWithStatus selects an organization's rows with a status that is indexed.
func RowsWithStatus(db bun.IDB, table, organization, status string) *bun.SelectQuery {
	return db.NewSelect().Table(table).ColumnExpr("1").Where("organization_id = ?", organization).Where("status = ?", status)
}

// queuedDeliveries counts an organization's deliveries among the first queued ones of all,
// because an index by organization would slow down every delivery.
func (st *Store) queuedDeliveries(ctx context.Context, organization string) (d action.Depth, err error) {
	var all int
	if err = OldestDeliveries(st.db.Read, organization).Scan(ctx, &d.Count, &all); err != nil {
		return d, fmt.Errorf("counting deliveries that wait: %w", err)
	}
	d.Capped = all == MaxQueueCount
	return d, nil
}

// OldestDeliveries counts the organization's among the first [MaxQueueCount] queued deliveries
// of all organizations.
func OldestDeliveries(db bun.IDB, organization string) *bun.SelectQuery {
	first := db.NewSelect().Table("inbox").Column("organization_id").Where("status = 'queued'").OrderExpr("next_at, id").Limit(MaxQueueCount)
	return db.NewSelect().TableExpr("(?) AS waiting", first).
		ColumnExpr("coalesce(sum(CASE WHEN organization_id = ? THEN 1 ELSE 0 END), 0)", organization).ColumnExpr("count(*)")
}

// MaxQueueCount bounds the counts of queued work.
const MaxQueueCount = 10_000

// DeliveriesWaiting returns the number of queued deliveries of all organizations, counted
// up to 10,000.
func (st *Store) DeliveriesWaiting(ctx context.Context) (int, error) {
	return countUpToMax(ctx, st.db.Read, st.db.Read.NewSelect().Table("inbox").ColumnExpr("1").Where("status = 'queued'"))
}

// RunsUndelivered returns the number of runs of all organizations that wait for delivery to
// their endpoint or for a worker, counted up to 10,000.
func (st *Store) RunsUndelivered(ctx context.Context) (int, error) {
	return countUpToMax(ctx, st.db.Read, st.db.Read.NewSelect().Table("outbox").ColumnExpr("1").Where("status = 'pending'"))
}

// CallsPending returns the number of pending approvals of all organizations, counted up to
// 10,000.
func (st *Store) CallsPending(ctx context.Context) (int, error) {
	return countUpToMax(ctx, st.db.Read, st.db.Read.NewSelect().Table("invocations").ColumnExpr("1").Where("status = 'pending'"))
}

// ToolsUnreviewed returns the number of tools of all organizations that were never reviewed
// or changed since their review, counted up to 10,000.
func (st *Store) ToolsUnreviewed(ctx context.Context) (int, error) {
	return countUpToMax(ctx, st.db.Read, st.db.Read.NewSelect().Table("tool_reviews").ColumnExpr("1").
		Where("current_behaviour IS NOT NULL").Where("reviewed_behaviour IS NULL OR reviewed_behaviour <> current_behaviour"))
}

// InboxLag returns how long the oldest due delivery has been due, or zero.
func (st *Store) InboxLag(ctx context.Context) (time.Duration, error) {
	return st.lag(ctx, st.db.Read.NewSelect().Table("inbox").Column("next_at").Where("status = 'queued'").Order("next_at"), 1)
}

// OutboxLag returns how long the oldest due run has been due, among 10,000 of them, or zero.
func (st *Store) OutboxLag(ctx context.Context) (time.Duration, error) {
	return st.lag(ctx, st.db.Read.NewSelect().Table("outbox").Column("next_at").Where("status = 'pending'"), MaxQueueCount)
}

func (st *Store) lag(ctx context.Context, due *bun.SelectQuery, limit int) (time.Duration, error) {
	var first database.Timestamp
	err := st.db.Read.NewSelect().TableExpr("(?) AS due", due.Limit(int64(limit))).ColumnExpr("min(next_at)").Scan(ctx, &first)
	if err != nil {
		return 0, fmt.Errorf("looking at what is due: %w", err)
	}
	if first.Ptr() == nil {
		return 0, nil
	}
	return max(0, st.db.Now().Sub(first.Time)), nil
}

func countUpToMax(ctx context.Context, db bun.IDB, rows *bun.SelectQuery) (n int, err error) {
	err = db.NewSelect().TableExpr("(?) AS waiting", rows.Limit(MaxQueueCount)).ColumnExpr("count(*)").Scan(ctx, &n)
	if err != nil {
		return 0, fmt.Errorf("counting what waits: %w", err)
	}
	return n, nil
}
