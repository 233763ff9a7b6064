package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

type parcelRow struct {
	bun.BaseModel `bun:"table:outbox,alias:o"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Run          string `bun:"run_id"`
	Status       string `bun:"status"`
	Attempt      int    `bun:"attempt"`
	FirstAt      stamp  `bun:"first_at"`
	NextAt       stamp  `bun:"next_at"`
	Holder       opt    `bun:"holder"`
	LeaseUntil   stamp  `bun:"lease_until"`
	LastStatus   *int64 `bun:"last_status"`
	LastError    opt    `bun:"last_error"`
	CreatedAt    stamp  `bun:"created_at"`
	DeliveredAt  stamp  `bun:"delivered_at"`
}

func (r *parcelRow) parcel() event.Parcel {
	p := event.Parcel{
		ID: r.ID, Organization: r.Organization, Run: r.Run, Status: event.ParcelStatus(r.Status), Attempt: r.Attempt,
		FirstAt: r.FirstAt.ptr(), NextAt: r.NextAt.t, LastError: string(r.LastError), CreatedAt: r.CreatedAt.t, EndedAt: r.DeliveredAt.ptr(),
	}
	if r.LastStatus != nil {
		p.LastStatus = int(*r.LastStatus)
	}
	return p
}

// putParcel writes a new delivery of a run.
func putParcel(ctx context.Context, tx bun.IDB, r *runRow, now time.Time) error {
	id, err := newID()
	if err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(&parcelRow{
		ID: id, Organization: r.Organization, Run: r.ID, Status: string(event.ParcelPending), NextAt: at(now), CreatedAt: at(now),
	}).Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing the delivery of run %s: %w", r.ID, err)
	}
	return nil
}

// closeParcel ends the delivery of a run, if there is one under way. It comes
// after the run: whoever has both locks them in this order.
func closeParcel(ctx context.Context, tx bun.IDB, run string, s event.ParcelStatus, now time.Time) error {
	_, err := tx.NewUpdate().Table("outbox").
		Set("status = ?, delivered_at = ?, holder = NULL, lease_until = NULL", string(s), at(now)).
		Where("run_id = ?", run).Where("status IN ('pending', 'sending')").Exec(ctx)
	if err != nil {
		return fmt.Errorf("ending the delivery of run %s: %w", run, err)
	}
	return nil
}

// Parcel returns the delivery of a run; ErrNotFound.
func (db *DB) Parcel(ctx context.Context, organization, id string) (event.Parcel, error) {
	var rows []parcelRow
	err := db.read.NewSelect().Model(&rows).Where("organization_id = ?", organization).Where("id = ?", id).Scan(ctx)
	if err != nil {
		return event.Parcel{}, fmt.Errorf("reading delivery %s: %w", id, err)
	}
	if len(rows) == 0 {
		return event.Parcel{}, action.NewError("parcel_not_found")
	}
	return rows[0].parcel(), nil
}

// ListParcels returns a page of deliveries, newest first.
func (db *DB) ListParcels(ctx context.Context, f event.ParcelFilter) (page action.Page[event.Parcel], err error) {
	after, err := parseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	switch f.Status {
	case "", event.ParcelPending, event.ParcelSending, event.ParcelDelivered, event.ParcelDead, event.ParcelVoid:
	default:
		return page, invalid("/status", fmt.Sprintf("There is no status %q of a delivery; it is pending, sending, delivered, dead or void.", f.Status))
	}
	limit := pageSize(f.Limit)
	var rows []parcelRow
	if err := newestFirst(matchParcels(f, db.read.NewSelect().Model(&rows)), after, limit).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing deliveries of runs: %w", err)
	}
	total, capped, err := countUpTo(ctx, matchParcels(f, db.read.NewSelect().TableExpr("outbox AS o")))
	if err != nil {
		return page, fmt.Errorf("counting deliveries of runs: %w", err)
	}
	list := make([]event.Parcel, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].parcel())
	}
	return newPage(list, limit, total, capped, func(p event.Parcel) cursor { return cursor{at(p.CreatedAt), p.ID} }), nil
}

func matchParcels(f event.ParcelFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("o.organization_id = ?", f.Organization)
	if f.Status != "" {
		q = q.Where("o.status = ?", string(f.Status))
	}
	return q
}
