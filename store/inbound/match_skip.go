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

// SkipEvent skips the queued run of an event; ErrConflict for other runs. The
// event's context keeps its retention.
func (st *Store) SkipEvent(ctx context.Context, organization, id, by string) (r event.Record, err error) {
	now := st.db.Now()
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if r, err = readRecord(ctx, tx, organization, id); err != nil {
			return err
		}
		before := r.Status()
		if err := skipRun(ctx, tx, &r, now); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Table("events").Set("skip_reason = ?", event.SkipManual).Where("id = ?", id).Exec(ctx)
		if err != nil {
			return fmt.Errorf("skipping event %s: %w", id, err)
		}
		r.Skip, r.RunStatus, r.EndedAt = event.SkipManual, event.RunSkipped, database.NewTimestamp(now).Ptr()
		e := action.PolicyEvent{Organization: organization, Kind: action.EventRun, Subject: r.Run, By: by}
		return st.history.RecordChange(ctx, tx, e, statusSnapshot{id, before}, statusSnapshot{id, r.Status()})
	})
	return r, err
}

// statusSnapshot is what history events hold of a manual change of an event.
type statusSnapshot struct {
	Event  string `json:"event_id"`
	Status string `json:"status"`
}

// skipRun skips a queued run and voids its delivery.
func skipRun(ctx context.Context, tx bun.Tx, r *event.Record, now time.Time) error {
	n, err := database.RowsAffected(tx.NewUpdate().Table("runs").Set("status = 'skipped', completed_at = ?", database.NewTimestamp(now)).
		Where("id = ?", r.Run).Where("status = 'queued'").Exec(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("skipping run %s: %w", r.Run, err)
	case n == 0 && r.Skip != "":
		return action.NewError("already_skipped", r.Skip)
	case n == 0:
		return action.NewError("run_taken")
	}
	return endRunDelivery(ctx, tx, r.Run, event.DeliveryVoid, now)
}
