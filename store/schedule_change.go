package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// UpdateSchedule writes Name, Cron, TimeZone, Enabled, Missed and NextAt, and
// returns the row; ErrNotFound. NextAt counts only where the times changed, or
// are wanted again: otherwise the row's has possibly moved on since it was read.
func (db *DB) UpdateSchedule(ctx context.Context, s event.Schedule, by string) (event.Schedule, error) {
	var r *scheduleRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = scheduleRowOf(ctx, tx, s.Organization, s.ID); err != nil {
			return err
		}
		old := *r
		r.Name, r.Cron, r.TimeZone, r.Enabled, r.Missed = s.Name, s.Cron, s.TimeZone, s.Enabled, string(s.Missed)
		if r.Cron != old.Cron || r.TimeZone != old.TimeZone || r.Enabled != old.Enabled {
			r.NextAt = atPtr(s.NextAt)
		}
		return db.updateSchedule(ctx, tx, &old, r, by)
	})
	if err != nil {
		return event.Schedule{}, err
	}
	return r.schedule(), nil
}

func (db *DB) updateSchedule(ctx context.Context, tx bun.Tx, old, r *scheduleRow, by string) error {
	if err := r.check(); err != nil || *r == *old {
		return err
	}
	columns := []string{"name", "cron", "time_zone", "enabled", "missed", "updated_at"}
	if r.NextAt != old.NextAt { // or somebody fires it in this moment
		columns = append(columns, "next_at")
	}
	r.UpdatedAt = at(db.now())
	_, err := tx.NewUpdate().Model(r).Column(columns...).WherePK().Where("organization_id = ?", r.Organization).Exec(ctx)
	if err != nil {
		return fmt.Errorf("changing schedule %s: %w", r.ID, err)
	}
	return db.recordChange(ctx, tx, r.event(by), old.told(), r.told())
}

// DeleteSchedule removes one; ErrNotFound. What its events and runs were stays.
func (db *DB) DeleteSchedule(ctx context.Context, organization, id, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := scheduleRowOf(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		return db.deleteSchedule(ctx, tx, r, by)
	})
}

func (db *DB) deleteSchedule(ctx context.Context, tx bun.Tx, r *scheduleRow, by string) error {
	if _, err := tx.NewDelete().Model(r).WherePK().Where("organization_id = ?", r.Organization).Exec(ctx); err != nil {
		return fmt.Errorf("deleting schedule %s: %w", r.ID, err)
	}
	return db.recordChange(ctx, tx, r.event(by), r.told(), nil)
}
