package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// DueSchedules returns enabled schedules whose time has come, of all
// organizations, the most overdue first.
func (db *DB) DueSchedules(ctx context.Context, now time.Time, limit int) ([]event.Schedule, error) {
	return list[event.Schedule](ctx, dueSchedules(db.read, at(now), limit))
}

// dueSchedules needs not ask which are enabled: the others have no next time.
func dueSchedules(db bun.IDB, now stamp, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*scheduleRow)(nil)).Where("next_at IS NOT NULL").Where("next_at <= ?", now).
		Order("next_at").Limit(int64(limit))
}

// FireSchedule moves s, as it was read, to its next time, nil for none, and
// writes the match, if there is one, in the same transaction. Of many who do
// it for one due time one is told that it did, and none when the schedule was
// changed meanwhile: its next time is another.
func (db *DB) FireSchedule(ctx context.Context, s event.Schedule, next *time.Time, m *event.Match) (runs []event.Run, fired bool, err error) {
	if s.NextAt == nil {
		return nil, false, nil
	}
	err = db.once(ctx, func(ctx context.Context, tx bun.IDB) error {
		runs = nil
		n, err := affected(moveOn(tx, &s, atPtr(next)).Exec(ctx))
		if fired = n > 0; err != nil || !fired || m == nil {
			return err
		}
		runs, err = db.writeMatches(ctx, tx, ofSchedules, []event.Match{*m})
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("firing schedule %s: %w", s.ID, err)
	}
	return runs, fired, nil
}

func moveOn(db bun.IDB, s *event.Schedule, next stamp) *bun.UpdateQuery {
	return db.NewUpdate().Table("schedules").Set("next_at = ?, last_at = next_at", next).
		Where("id = ?", s.ID).Where("organization_id = ?", s.Organization).Where("enabled").
		Where("next_at = ?", atPtr(s.NextAt)).Where("updated_at = ?", at(s.UpdatedAt))
}
