package store

import (
	"context"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// MaxSchedules is how many an organization may have.
const MaxSchedules = 200

type scheduleRow struct {
	bun.BaseModel `bun:"table:schedules"`
	event.Schedule
}

func (r *scheduleRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventSchedule, Subject: r.ID, By: by}
}

// snapshot is without the due times, which change by themselves.
func (r *scheduleRow) snapshot() any {
	s := r.Schedule
	s.NextAt, s.LastAt = nil, nil
	return s
}

// CreateSchedule writes one and returns it as it is stored, with an id when none
// was said. ErrNotFound when the organization has no such automation; ErrTooMany.
func (db *DB) CreateSchedule(ctx context.Context, s event.Schedule) (event.Schedule, error) {
	r := &scheduleRow{Schedule: s}
	r.LastAt, r.NextAt = nil, atPtr(r.NextAt).ptr()
	if err := first(idOr(&r.ID), action.Fault(r.Check())); err != nil {
		return event.Schedule{}, err
	}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := automationOf(ctx, tx, r.Organization, r.Automation); err != nil {
			return err
		}
		return db.create(ctx, tx, r, r.CreatedBy, MaxSchedules)
	})
	return r.Schedule, err
}

// Schedule returns one; ErrNotFound.
func (db *DB) Schedule(ctx context.Context, organization, id string) (event.Schedule, error) {
	r, err := scheduleOf(ctx, db.read, organization, id)
	return r.Schedule, err
}

func scheduleOf(ctx context.Context, db bun.IDB, organization, id string) (scheduleRow, error) {
	return one[scheduleRow](ctx, rowsOf[scheduleRow](db, organization).Where("id = ?", id),
		action.NewError("schedule_not_found"))
}

// ListSchedules returns those of an automation, or with an empty one all of the
// organization, first come first.
func (db *DB) ListSchedules(ctx context.Context, organization, automation string) ([]event.Schedule, error) {
	return list[event.Schedule](ctx, schedulesOf(db.read, organization, automation))
}

func schedulesOf(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return ofAutomation[scheduleRow](db, organization, automation)
}
