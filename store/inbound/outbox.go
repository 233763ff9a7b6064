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

// ParcelRow is the delivery of a run to an endpoint.
type ParcelRow struct {
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

func (r *ParcelRow) parcel() event.Parcel {
	p := event.Parcel{
		ID: r.ID, Organization: r.Organization, Run: r.Run, Status: event.ParcelStatus(r.Status), Attempt: r.Attempt,
		FirstAt: r.FirstAt.Ptr(), NextAt: r.NextAt.Time, LastError: string(r.LastError), CreatedAt: r.CreatedAt.Time, EndedAt: r.DeliveredAt.Ptr(),
	}
	if r.LastStatus != nil {
		p.LastStatus = int(*r.LastStatus)
	}
	return p
}

// insertParcel inserts a new delivery of a run.
func insertParcel(ctx context.Context, tx bun.IDB, r *RunRow, now time.Time) error {
	id, err := database.NewID()
	if err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(&ParcelRow{
		ID: id, Organization: r.Organization, Run: r.ID, Status: string(event.ParcelPending), NextAt: database.NewTimestamp(now), CreatedAt: database.NewTimestamp(now),
	}).Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing the delivery of run %s: %w", r.ID, err)
	}
	return nil
}

// endParcel ends the active delivery of a run, if any. Lock order: the run
// first, then its delivery.
func endParcel(ctx context.Context, tx bun.IDB, run string, s event.ParcelStatus, now time.Time) error {
	_, err := tx.NewUpdate().Table("outbox").
		Set("status = ?, delivered_at = ?, holder = NULL, lease_until = NULL", string(s), database.NewTimestamp(now)).
		Where("run_id = ?", run).Where("status IN ('pending', 'sending')").Exec(ctx)
	if err != nil {
		return fmt.Errorf("ending the delivery of run %s: %w", run, err)
	}
	return nil
}

// Parcel returns the delivery of a run; ErrNotFound.
func (st *Store) Parcel(ctx context.Context, organization, id string) (event.Parcel, error) {
	var rows []ParcelRow
	err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", organization).Where("id = ?", id).Scan(ctx)
	if err != nil {
		return event.Parcel{}, fmt.Errorf("reading delivery %s: %w", id, err)
	}
	if len(rows) == 0 {
		return event.Parcel{}, action.NewError("parcel_not_found")
	}
	return rows[0].parcel(), nil
}

// ListParcels returns a page of deliveries, newest first.
func (st *Store) ListParcels(ctx context.Context, f event.ParcelFilter) (page action.Page[event.Parcel], err error) {
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	switch f.Status {
	case "", event.ParcelPending, event.ParcelSending, event.ParcelDelivered, event.ParcelDead, event.ParcelVoid:
	default:
		return page, database.Invalid("/status", fmt.Sprintf("There is no status %q of a delivery; it is pending, sending, delivered, dead or void.", f.Status))
	}
	limit := database.PageSize(f.Limit)
	var rows []ParcelRow
	if err := database.NewestFirst(FilterParcels(f, st.db.Read.NewSelect().Model(&rows)), after, limit).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing deliveries of runs: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, FilterParcels(f, st.db.Read.NewSelect().TableExpr("outbox AS o")))
	if err != nil {
		return page, fmt.Errorf("counting deliveries of runs: %w", err)
	}
	list := make([]event.Parcel, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].parcel())
	}
	return database.NewPage(list, limit, total, capped, func(p event.Parcel) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(p.CreatedAt), ID: p.ID}
	}), nil
}

// FilterParcels restricts q to the deliveries that f matches.
func FilterParcels(f event.ParcelFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("o.organization_id = ?", f.Organization)
	if f.Status != "" {
		q = q.Where("o.status = ?", string(f.Status))
	}
	return q
}
