package inbound

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// RunDeliveryRow is the delivery of a run to an endpoint.
type RunDeliveryRow struct {
	bun.BaseModel `bun:"table:outbox,alias:o"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Run          string              `bun:"run_id"`
	Status       string              `bun:"status"`
	Attempt      int                 `bun:"attempt"`
	FirstAt      database.Timestamp  `bun:"first_at"`
	NextAt       database.Timestamp  `bun:"next_at"`
	Holder       database.NullString `bun:"holder"`
	LeaseUntil   database.Timestamp  `bun:"lease_until"`
	LastStatus   *int64              `bun:"last_status"`
	LastError    database.NullString `bun:"last_error"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	DeliveredAt  database.Timestamp  `bun:"delivered_at"`
}

func (r *RunDeliveryRow) delivery() event.RunDelivery {
	p := event.RunDelivery{
		ID: r.ID, Organization: r.Organization, Run: r.Run, Status: event.RunDeliveryStatus(r.Status), Attempt: r.Attempt,
		FirstAt: r.FirstAt.Ptr(), NextAt: r.NextAt.Time, LastError: string(r.LastError), CreatedAt: r.CreatedAt.Time, EndedAt: r.DeliveredAt.Ptr(),
	}
	if r.LastStatus != nil {
		p.LastStatus = int(*r.LastStatus)
	}
	return p
}

// insertRunDelivery inserts a new delivery of a run.
func insertRunDelivery(ctx context.Context, tx bun.IDB, r *RunRow, now time.Time) error {
	id, err := database.NewID()
	if err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(&RunDeliveryRow{
		ID: id, Organization: r.Organization, Run: r.ID, Status: string(event.DeliveryPending), NextAt: database.NewTimestamp(now), CreatedAt: database.NewTimestamp(now),
	}).Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing the delivery of run %s: %w", r.ID, err)
	}
	return nil
}

// endRunDelivery ends the active delivery of a run, if any. Lock order: the run
// first, then its delivery.
func endRunDelivery(ctx context.Context, tx bun.IDB, run string, s event.RunDeliveryStatus, now time.Time) error {
	_, err := tx.NewUpdate().Table("outbox").
		Set("status = ?, delivered_at = ?, holder = NULL, lease_until = NULL", string(s), database.NewTimestamp(now)).
		Where("run_id = ?", run).Where("status IN ('pending', 'sending')").Exec(ctx)
	if err != nil {
		return fmt.Errorf("ending the delivery of run %s: %w", run, err)
	}
	return nil
}

// RunDelivery returns the delivery of a run; ErrNotFound.
func (st *Store) RunDelivery(ctx context.Context, organization, id string) (event.RunDelivery, error) {
	var rows []RunDeliveryRow
	err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", organization).Where("id = ?", id).Scan(ctx)
	if err != nil {
		return event.RunDelivery{}, fmt.Errorf("reading delivery %s: %w", id, err)
	}
	if len(rows) == 0 {
		return event.RunDelivery{}, action.NewError("parcel_not_found")
	}
	return rows[0].delivery(), nil
}

// ListRunDeliveries returns a page of deliveries, newest first.
func (st *Store) ListRunDeliveries(ctx context.Context, f event.RunDeliveryFilter) (page action.Page[event.RunDelivery], err error) {
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	switch f.Status {
	case "", event.DeliveryPending, event.DeliverySending, event.DeliveryDelivered, event.DeliveryDead, event.DeliveryVoid:
	default:
		return page, database.Invalid("/status", fmt.Sprintf("There is no status %q of a delivery; it is pending, sending, delivered, dead or void.", f.Status))
	}
	limit := database.PageSize(f.Limit)
	var rows []RunDeliveryRow
	if err := database.NewestFirst(FilterRunDeliveries(f, st.db.Read.NewSelect().Model(&rows)), after, limit).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing deliveries of runs: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, FilterRunDeliveries(f, st.db.Read.NewSelect().TableExpr("outbox AS o")))
	if err != nil {
		return page, fmt.Errorf("counting deliveries of runs: %w", err)
	}
	list := make([]event.RunDelivery, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].delivery())
	}
	return database.NewPage(list, limit, total, capped, func(p event.RunDelivery) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(p.CreatedAt), ID: p.ID}
	}), nil
}

// FilterRunDeliveries restricts q to the deliveries that f matches.
func FilterRunDeliveries(f event.RunDeliveryFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("o.organization_id = ?", f.Organization)
	if f.Status != "" {
		q = q.Where("o.status = ?", string(f.Status))
	}
	return q
}
