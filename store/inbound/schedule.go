package inbound

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// maxSchedules limits the schedules of an organization.
const maxSchedules = 200

// ScheduleRow is a row of the schedules table.
type ScheduleRow struct {
	bun.BaseModel `bun:"table:schedules"`
	event.Schedule
}

// Event returns the history event of a change of the schedule.
func (r *ScheduleRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventSchedule, Subject: r.ID, By: by}
}

// Snapshot omits the due times, which change automatically.
func (r *ScheduleRow) Snapshot() any {
	s := r.Schedule
	s.NextAt, s.LastAt = nil, nil
	return s
}

// CreateSchedule inserts a schedule and returns it as stored. An empty ID is
// generated. ErrNotFound if the organization has no such automation;
// ErrTooMany.
func (st *Store) CreateSchedule(ctx context.Context, s event.Schedule) (event.Schedule, error) {
	r := &ScheduleRow{Schedule: s}
	r.LastAt, r.NextAt = nil, database.TimestampFromPtr(r.NextAt).Ptr()
	if err := cmp.Or(database.EnsureID(&r.ID), action.FromEventCheck(r.Check())); err != nil {
		return event.Schedule{}, err
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := readAutomation(ctx, tx, r.Organization, r.Automation); err != nil {
			return err
		}
		return st.history.Create(ctx, tx, r, r.CreatedBy, maxSchedules)
	})
	return r.Schedule, err
}

// Schedule returns a schedule; ErrNotFound.
func (st *Store) Schedule(ctx context.Context, organization, id string) (event.Schedule, error) {
	r, err := readSchedule(ctx, st.db.Read, organization, id)
	return r.Schedule, err
}

func readSchedule(ctx context.Context, db bun.IDB, organization, id string) (ScheduleRow, error) {
	return database.One[ScheduleRow](ctx, database.RowsOf[ScheduleRow](db, organization).Where("id = ?", id),
		action.NewError("schedule_not_found"))
}

// ListSchedules returns the schedules of an automation, or with an empty
// automation those of the organization, oldest first.
func (st *Store) ListSchedules(ctx context.Context, organization, automation string) ([]event.Schedule, error) {
	return database.List[event.Schedule](ctx, SelectSchedules(st.db.Read, organization, automation))
}

// SelectSchedules selects the schedules of an automation or organization.
func SelectSchedules(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return selectByAutomation[ScheduleRow](db, organization, automation)
}

// UpdateSchedule writes Name, Cron, TimeZone, Enabled, Missed and NextAt, and
// returns the row; ErrNotFound. NextAt is only written if Cron, TimeZone or
// Enabled changed, because the stored time may have advanced since the caller
// read it.
func (st *Store) UpdateSchedule(ctx context.Context, s event.Schedule, by string) (event.Schedule, error) {
	var r ScheduleRow
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = readSchedule(ctx, tx, s.Organization, s.ID); err != nil {
			return err
		}
		old := r
		r.Name, r.Cron, r.TimeZone, r.Enabled, r.Missed = s.Name, s.Cron, s.TimeZone, s.Enabled, s.Missed
		if r.Cron != old.Cron || r.TimeZone != old.TimeZone || r.Enabled != old.Enabled {
			r.NextAt = database.TimestampFromPtr(s.NextAt).Ptr()
		}
		if err := action.FromEventCheck(r.Check()); err != nil {
			return err
		}
		return st.history.Update(ctx, tx, &old, &r, by)
	})
	return r.Schedule, err
}

// DeleteSchedule deletes a schedule; its events and runs stay. ErrNotFound.
func (st *Store) DeleteSchedule(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readSchedule(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, &r, by)
	})
}

// DueSchedules returns the due schedules of all organizations, the most overdue
// first.
func (st *Store) DueSchedules(ctx context.Context, now time.Time, limit int) ([]event.Schedule, error) {
	return database.List[event.Schedule](ctx, DueSchedules(st.db.Read, database.NewTimestamp(now), limit))
}

// DueSchedules does not check enabled: disabled schedules have no next time.
func DueSchedules(db bun.IDB, now database.Timestamp, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*ScheduleRow)(nil)).Where("next_at IS NOT NULL").Where("next_at <= ?", now).
		Order("next_at").Limit(int64(limit))
}

// FireSchedule advances s to its next time (nil for none) and writes the match,
// if any, in the same transaction. Of concurrent callers only one gets fired =
// true, and none if the schedule changed since it was read.
func (st *Store) FireSchedule(ctx context.Context, s event.Schedule, next *time.Time, m *event.Match) (runs []event.Run, fired bool, err error) {
	if s.NextAt == nil {
		return nil, false, nil
	}
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		runs = nil
		n, err := database.RowsAffected(advanceSchedule(tx, &s, database.TimestampFromPtr(next)).Exec(ctx))
		if fired = n > 0; err != nil || !fired || m == nil {
			return err
		}
		runs, err = st.writeMatches(ctx, tx, schedulesTable, []event.Match{*m})
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("firing schedule %s: %w", s.ID, err)
	}
	return runs, fired, nil
}

func advanceSchedule(db bun.IDB, s *event.Schedule, next database.Timestamp) *bun.UpdateQuery {
	return db.NewUpdate().Table("schedules").Set("next_at = ?, last_at = next_at", next).
		Where("id = ?", s.ID).Where("organization_id = ?", s.Organization).Where("enabled").
		Where("next_at = ?", database.TimestampFromPtr(s.NextAt)).Where("updated_at = ?", database.NewTimestamp(s.UpdatedAt))
}
