package store

import (
	"context"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// UpdateSchedule writes Name, Cron, TimeZone, Enabled, Missed and NextAt, and
// returns the row; ErrNotFound. NextAt counts only where the times changed, or
// are wanted again: otherwise the row's has possibly moved on since it was read.
func (db *DB) UpdateSchedule(ctx context.Context, s event.Schedule, by string) (event.Schedule, error) {
	var r scheduleRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = scheduleOf(ctx, tx, s.Organization, s.ID); err != nil {
			return err
		}
		old := r
		r.Name, r.Cron, r.TimeZone, r.Enabled, r.Missed = s.Name, s.Cron, s.TimeZone, s.Enabled, s.Missed
		if r.Cron != old.Cron || r.TimeZone != old.TimeZone || r.Enabled != old.Enabled {
			r.NextAt = atPtr(s.NextAt).ptr()
		}
		if err := action.Fault(r.Check()); err != nil {
			return err
		}
		return db.update(ctx, tx, &old, &r, by)
	})
	return r.Schedule, err
}

// DeleteSchedule removes one; ErrNotFound. What its events and runs were stays.
func (db *DB) DeleteSchedule(ctx context.Context, organization, id, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := scheduleOf(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		return db.remove(ctx, tx, &r, by)
	})
}
