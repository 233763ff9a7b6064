package inbound

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// The values of [event.Record.Status].
const (
	eventQueued     = "queued"
	eventProcessing = "processing"
	eventCompleted  = "completed"
	eventFailed     = "failed"
	eventSkipped    = "skipped"
)

// ListEvents returns a page of events of triggers and schedules, newest first.
func (st *Store) ListEvents(ctx context.Context, f event.RecordFilter) (action.Page[event.Record], error) {
	switch f.Status {
	case "", eventQueued, eventProcessing, eventCompleted, eventFailed, eventSkipped:
	default:
		return action.Page[event.Record]{}, database.Invalid("/status", fmt.Sprintf("There is no status %q of an event. Use queued, processing, completed, failed or skipped.", f.Status))
	}
	return database.ListQuery[recordRow, event.Record]{
		Cursor: f.Cursor, Limit: f.Limit, All: filterEvents(f, st.db.Read.NewSelect().TableExpr("events AS e")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return SelectEvents(f, st.db.Read, after, limit)
		},
		Value: (*recordRow).record, Position: func(r *recordRow) database.Cursor { return database.Cursor{Time: r.CreatedAt, ID: r.ID} },
	}.Page(ctx)
}

// SelectEvents selects a page of events, newest first, and one row more.
func SelectEvents(f event.RecordFilter, db bun.IDB, after database.Cursor, limit int) *bun.SelectQuery {
	q := filterEvents(f, selectRecords(db))
	if after.ID != "" {
		q = q.Where("(e.created_at, e.id) < (?, ?)", after.Time, after.ID)
	}
	return q.OrderExpr("e.created_at DESC, e.id DESC").Limit(int64(limit) + 1)
}

func filterEvents(f event.RecordFilter, q *bun.SelectQuery) *bun.SelectQuery {
	selective := f.Receipt != ""
	if selective {
		q = q.Where("e.inbox_id = ?", f.Receipt)
	}
	switch f.Status {
	case eventQueued, eventProcessing, eventFailed:
		selective = true
		q = q.Where("e.id IN (?)", eventsByRunStatus(f, q.DB()))
	case eventCompleted: // the most common status
		q = q.Where("EXISTS (SELECT 1 FROM runs AS o WHERE o.event_id = e.id AND o.status = 'succeeded')")
	case eventSkipped:
		q = q.Where("(e.skip_reason IS NOT NULL OR EXISTS (SELECT 1 FROM runs AS o WHERE o.event_id = e.id AND o.status = 'skipped'))")
	}
	if selective {
		// The expression makes the planner read and sort the few matching rows
		// instead of scanning the whole organization in order.
		q = q.Where("e.organization_id || '' = ?", f.Organization)
	} else {
		q = q.Where("e.organization_id = ?", f.Organization)
	}
	if f.Provider != "" {
		q = q.Where("e.provider = ?", f.Provider)
	}
	if f.Trigger != "" {
		q = q.Where("e.trigger_id = ?", f.Trigger)
	}
	if f.Automation != "" {
		q = q.Where("e.automation_id = ?", f.Automation)
	}
	if f.Skipped != nil {
		q = q.Where("(e.skip_reason IS NOT NULL) = ?", *f.Skipped)
	}
	return q
}

// eventsByRunStatus selects the events whose runs have one of the rare statuses
// that the filter's status stands for.
func eventsByRunStatus(f event.RecordFilter, db bun.IDB) *bun.SelectQuery {
	statuses := map[string][]event.RunStatus{
		eventQueued: {event.RunQueued}, eventProcessing: {event.RunClaimed, event.RunRunning, event.RunNeedsHuman}, eventFailed: {event.RunFailed},
	}[f.Status]
	q := db.NewSelect().TableExpr("runs AS r").Column("r.event_id").Where("r.organization_id = ?", f.Organization).
		Where("r.status IN (?)", bun.List(statuses)).Where(indexedStatusSQL)
	if f.Trigger != "" {
		q = q.Where("r.trigger_id = ?", f.Trigger)
	}
	return q
}

// selectRecords selects events with their runs, without the sealed column.
func selectRecords(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().Model((*recordRow)(nil)).ExcludeColumn("sealed").ColumnExpr("r.id AS run_id, r.status AS run_status, r.session_id, r.completed_at").
		Join("LEFT JOIN runs AS r ON r.event_id = e.id")
}

// Event returns an event; ErrNotFound.
func (st *Store) Event(ctx context.Context, organization, id string) (event.Record, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	return readRecord(ctx, st.db.Read, organization, id)
}

func readRecord(ctx context.Context, db bun.IDB, organization, id string) (event.Record, error) {
	r, err := database.One[recordRow](ctx, selectRecords(db).Where("e.id = ?", id).Where("e.organization_id = ?", organization), action.NewError("event_not_found"))
	return r.record(), err
}

// EventContext returns the sealed context of an event; nil after its retention
// and for skipped events.
func (st *Store) EventContext(ctx context.Context, organization, id string) (sealed []byte, err error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r, err := database.One[recordRow](ctx, database.RowsOf[recordRow](st.db.Read, organization).Column("sealed").Where("id = ?", id), action.NewError("event_not_found"))
	return r.Sealed, err
}

// ListReceipts returns a page of deliveries, newest first, without their
// payloads.
func (st *Store) ListReceipts(ctx context.Context, f event.ReceiptFilter) (action.Page[event.Receipt], error) {
	switch f.Status {
	case "", event.ReceiptQueued, event.ReceiptProcessing, event.ReceiptCompleted, event.ReceiptFailed:
	default:
		return action.Page[event.Receipt]{}, database.Invalid("/status", fmt.Sprintf("There is no status %q. Use queued, processing, completed or failed.", f.Status))
	}
	return database.ListQuery[receiptRow, event.Receipt]{
		Cursor: f.Cursor, Limit: f.Limit, All: filterReceipts(f, st.db.Read.NewSelect().Table("inbox")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return SelectReceipts(f, st.db.Read, after, limit)
		},
		Value: (*receiptRow).receipt, Position: func(r *receiptRow) database.Cursor { return database.Cursor{Time: r.ReceivedAt, ID: r.ID} },
	}.Page(ctx)
}

// SelectReceipts selects a page of deliveries, newest first, and one row more.
func SelectReceipts(f event.ReceiptFilter, db bun.IDB, after database.Cursor, limit int) *bun.SelectQuery {
	q := filterReceipts(f, db.NewSelect().Model((*receiptRow)(nil)).ExcludeColumn("sealed"))
	if after.ID != "" {
		q = q.Where("(received_at, id) < (?, ?)", after.Time, after.ID)
	}
	return q.OrderExpr("received_at DESC, id DESC").Limit(int64(limit) + 1)
}

func filterReceipts(f event.ReceiptFilter, q *bun.SelectQuery) *bun.SelectQuery {
	// An expression cannot use an index. Few deliveries are queued, so the planner
	// should read and sort them; most are completed, so for those it should scan
	// the organization's deliveries in order.
	organization := "organization_id = ?"
	switch f.Status {
	case event.ReceiptQueued, event.ReceiptProcessing:
		if f.Trigger == "" {
			organization = "organization_id || '' = ?"
		}
	}
	q = q.Where(organization, f.Organization)
	if f.Trigger != "" {
		q = q.Where("trigger_id = ?", f.Trigger)
	}
	if f.Provider != "" {
		q = q.Where("provider = ?", f.Provider)
	}
	switch f.Status {
	case "":
		return q
	case event.ReceiptCompleted:
		return q.Where("status NOT IN ('queued', 'processing', 'failed')")
	}
	return q.Where("status = ?", f.Status)
}

// Receipt returns a delivery with its payload; ErrNotFound.
func (st *Store) Receipt(ctx context.Context, organization, id string) (event.Receipt, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r, err := readReceipt(ctx, st.db.Read, organization, id)
	if err != nil {
		return event.Receipt{}, err
	}
	return r.receipt(), nil
}

func readReceipt(ctx context.Context, db bun.IDB, organization, id string) (*receiptRow, error) {
	r, err := database.One[receiptRow](ctx, database.RowsOf[receiptRow](db, organization).Where("id = ?", id), action.NewError("delivery_not_found"))
	return &r, err
}

// RedriveReceipt queues a delivery again that failed or matched nothing.
// ErrConflict for other deliveries; ErrGone if its payload was deleted.
func (st *Store) RedriveReceipt(ctx context.Context, organization, id, by string) (event.Receipt, error) {
	var r *receiptRow
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = readReceipt(ctx, tx, organization, id); err != nil {
			return err
		}
		switch {
		case r.Status != string(event.ReceiptFailed) && (r.Status != string(event.ReceiptCompleted) || r.Sealed == nil):
			return action.Errorf(action.ErrConflict, "not_failed", "This delivery is %s. Only a delivery that failed or matched no trigger can be processed again.", r.Status)
		case r.Sealed == nil:
			return action.NewError("payload_gone")
		}
		before := r.snapshot()
		r.Status, r.Attempt, r.Failures, r.Losses, r.NextAt, r.ProcessedAt, r.LastError = string(event.ReceiptQueued), 0, 0, 0, database.NewTimestamp(st.db.Now()), database.Timestamp{}, ""
		n, err := database.RowsAffected(tx.NewUpdate().Model(r).Column("status", "attempt", "failures", "losses", "next_at", "processed_at", "last_error").
			WherePK().Where("status IN ('failed', 'completed')").Where("sealed IS NOT NULL").Exec(ctx))
		switch {
		case err != nil:
			return fmt.Errorf("queueing delivery %s: %w", id, err)
		case n == 0: // the sender retried
			return action.Errorf(action.ErrConflict, "not_failed", "Its sender has just sent this delivery again. Wait for its result.")
		}
		e := action.PolicyEvent{Organization: organization, Kind: action.EventDelivery, Subject: id, By: by}
		return st.history.RecordChange(ctx, tx, e, before, r.snapshot())
	})
	if err != nil {
		return event.Receipt{}, err
	}
	return r.receipt(), nil
}

// snapshot returns what history events hold of a delivery.
func (r *receiptRow) snapshot() any {
	return struct {
		Endpoint string `json:"endpoint"`
		Status   string `json:"status"`
		Attempt  int    `json:"attempt"`
	}{r.Endpoint, r.Status, r.Attempt}
}
