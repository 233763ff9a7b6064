package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// MaxSchedules is how many an organization may have.
const MaxSchedules = 200

type scheduleRow struct {
	bun.BaseModel `bun:"table:schedules"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Automation   string `bun:"automation_id"`
	Name         string `bun:"name"`
	Cron         string `bun:"cron"`
	TimeZone     string `bun:"time_zone"`
	Enabled      bool   `bun:"enabled"`
	Missed       string `bun:"missed"`
	NextAt       stamp  `bun:"next_at"`
	LastAt       stamp  `bun:"last_at"`
	CreatedBy    string `bun:"created_by"`
	CreatedAt    stamp  `bun:"created_at"`
	UpdatedAt    stamp  `bun:"updated_at"`
}

func (r *scheduleRow) schedule() event.Schedule {
	return event.Schedule{
		ID: r.ID, Organization: r.Organization, Automation: r.Automation, Name: r.Name, Cron: r.Cron, TimeZone: r.TimeZone, Enabled: r.Enabled,
		Missed: event.Missed(r.Missed), NextAt: r.NextAt.ptr(), LastAt: r.LastAt.ptr(), CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.t,
		UpdatedAt: r.UpdatedAt.t,
	}
}

// told is what history says of a schedule: not when it is due, which changes by
// itself.
func (r *scheduleRow) told() any {
	if r == nil {
		return nil
	}
	s := r.schedule()
	s.NextAt, s.LastAt = nil, nil
	return s
}

func (r *scheduleRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventSchedule, Subject: r.ID, By: by}
}

// check refuses what a schedule cannot be; whether there are such times is for
// the caller to say, who gives the next one.
func (r *scheduleRow) check() error {
	name := strings.ReplaceAll(r.Name, "*", "x") // it is called by its expression, and nobody takes that for a pattern of names
	if err := checkTitle("/name", "schedule", name); err != nil {
		return err
	}
	switch missed := event.Missed(r.Missed); {
	case r.Cron == "" || !line(r.Cron, maxName):
		return invalid("/cron_expression", fmt.Sprintf("A schedule needs a cron expression of at most %d bytes.", maxName))
	case r.TimeZone == "" || !line(r.TimeZone, maxName):
		return invalid("/timezone", `A schedule needs the name of a time zone, such as "UTC" or "Europe/Berlin".`)
	case missed != event.MissedOnce && missed != event.MissedSkip:
		return invalid("/missed", "What was missed is made up for once, or skipped.")
	}
	if !r.Enabled {
		r.NextAt = stamp{}
	}
	return nil
}

// CreateSchedule writes one and returns it as it is stored, with an id when none
// was said. ErrNotFound when the organization has no such automation; ErrTooMany.
func (db *DB) CreateSchedule(ctx context.Context, s event.Schedule) (event.Schedule, error) {
	now := at(db.now())
	r := &scheduleRow{
		ID: s.ID, Organization: s.Organization, Automation: s.Automation, Name: s.Name, Cron: s.Cron, TimeZone: s.TimeZone, Enabled: s.Enabled,
		Missed: string(s.Missed), NextAt: atPtr(s.NextAt), CreatedBy: s.CreatedBy, CreatedAt: at(s.CreatedAt).or(now), UpdatedAt: now,
	}
	if err := first(idOr(&r.ID), r.check()); err != nil {
		return event.Schedule{}, err
	}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := automationRowOf(ctx, tx, r.Organization, r.Automation, false); err != nil {
			return err
		}
		if err := checkCount(ctx, tx, r.Organization, "schedules", MaxSchedules); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing schedule %s: %w", r.ID, err)
		}
		return db.recordChange(ctx, tx, r.event(r.CreatedBy), nil, r.told())
	})
	if err != nil {
		return event.Schedule{}, err
	}
	return r.schedule(), nil
}

// Schedule returns one; ErrNotFound.
func (db *DB) Schedule(ctx context.Context, organization, id string) (event.Schedule, error) {
	r, err := scheduleRowOf(ctx, db.read, organization, id)
	if err != nil {
		return event.Schedule{}, err
	}
	return r.schedule(), nil
}

func scheduleRowOf(ctx context.Context, db bun.IDB, organization, id string) (*scheduleRow, error) {
	r := &scheduleRow{ID: id}
	err := db.NewSelect().Model(r).WherePK().Where("organization_id = ?", organization).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.Errorf(action.ErrNotFound, "schedule_not_found", "There is no such schedule; list the schedules to see which there are.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading schedule %s: %w", id, err)
	}
	return r, nil
}

// ListSchedules returns those of an automation, or with an empty one all of the
// organization, first come first.
func (db *DB) ListSchedules(ctx context.Context, organization, automation string) ([]event.Schedule, error) {
	var rows []scheduleRow
	if err := schedulesOf(db.read, organization, automation).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing schedules: %w", err)
	}
	list := make([]event.Schedule, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].schedule())
	}
	return list, nil
}

func schedulesOf(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return ofAutomation(db.NewSelect().Model((*scheduleRow)(nil)), organization, automation)
}
