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

// ClaimPoll claims for the worker the most overdue poll group that nobody holds
// or whose lease expired; found is false if there is none. The claim increments
// the group's fencing token, so that a previous holder can no longer write.
func (st *Store) ClaimPoll(ctx context.Context, worker string, lease time.Duration) (g event.PollGroup, found bool, err error) {
	// Check with a read first: mostly nothing is due.
	due, err := database.Exists(ctx, DuePolls(st.db.Read.NewSelect(), st.db.ClockNow()))
	if err != nil || !due {
		return g, false, wrapError("reading due polls", err)
	}
	var rows []pollGroupRow
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		now, until := st.db.LeaseTimes(lease)
		return ClaimPoll(tx, worker, now, until).Scan(ctx, &rows)
	}})
	if err != nil || len(rows) == 0 {
		return g, false, wrapError("claiming a poll", err)
	}
	return rows[0].group(), true, nil
}

// DuePolls selects the next due group.
func DuePolls(q *bun.SelectQuery, now any) *bun.SelectQuery {
	return q.Table("poll_groups").Column("id").Where(duePollSQL, now).Order("next_at").Limit(1)
}

const duePollSQL = "next_at <= ?0 AND (holder IS NULL OR lease_until <= ?0)"

// ClaimPoll claims a due group. On PostgreSQL it skips groups that a concurrent
// transaction claims.
func ClaimPoll(db bun.IDB, worker string, now, until any) *bun.UpdateQuery {
	q := db.NewUpdate().Model((*pollGroupRow)(nil)).Set("holder = ?, lease_until = ?, turn = turn + 1", worker, until)
	due := DuePolls(db.NewSelect(), now)
	if database.Shared(db) {
		q = q.Where("id = ANY (ARRAY(?))", due.For("NO KEY UPDATE SKIP LOCKED"))
	} else {
		q = q.Where("id IN (?)", due)
	}
	return q.Where(duePollSQL, now).Returning("*")
}

// RenewPoll extends the lease of a claimed group; held is false if the worker
// lost it.
func (st *Store) RenewPoll(ctx context.Context, worker string, g event.PollGroup, lease time.Duration) (held bool, err error) {
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		_, until := st.db.LeaseTimes(lease)
		n, err := database.RowsAffected(tx.NewUpdate().Table("poll_groups").Set("lease_until = ?", until).
			Where("id = ?", g.ID).Where("holder = ?", worker).Where("turn = ?", g.FencingToken).Exec(ctx))
		held = n == 1
		return err
	}})
	return held && err == nil, wrapError("renewing the lease of a poll", err)
}

// wrapError adds the operation to an error; nil stays nil.
func wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

type pollGroupRow struct {
	bun.BaseModel `bun:"table:poll_groups,alias:g"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Provider     string              `bun:"provider"`
	Integration  string              `bun:"integration_id"`
	Cursor       database.NullString `bun:"cursor"`
	PollSeconds  int                 `bun:"poll_seconds"`
	NextAt       database.Timestamp  `bun:"next_at"`
	LastAt       database.Timestamp  `bun:"last_at"`
	Failures     int                 `bun:"failures"`
	LastError    database.NullString `bun:"last_error"`
	Lost         database.NullString `bun:"lost"`
	LostAt       database.Timestamp  `bun:"lost_at"`
	Turn         int64               `bun:"turn"`
	Holder       database.NullString `bun:"holder"`
	LeaseUntil   database.Timestamp  `bun:"lease_until"`
}

func (r *pollGroupRow) group() event.PollGroup {
	g := event.PollGroup{
		ID: r.ID, Organization: r.Organization, Provider: r.Provider, Integration: r.Integration, PollSeconds: r.PollSeconds, NextAt: r.NextAt.Time,
		LastAt: r.LastAt.Ptr(), Failures: r.Failures, LastError: string(r.LastError), Lost: string(r.Lost), LostAt: r.LostAt.Ptr(), FencingToken: r.Turn,
	}
	if r.Cursor != "" {
		g.Cursor = []byte(r.Cursor)
	}
	return g
}

// PollGroups returns the polling state of an organization by provider.
func (st *Store) PollGroups(ctx context.Context, organization string) ([]event.PollGroup, error) {
	return database.ListAs(ctx, database.RowsOf[pollGroupRow](st.db.Read, organization).Order("provider", "integration_id"), (*pollGroupRow).group)
}

// syncPollGroup creates, updates or deletes the group of a trigger: it exists
// while one of its triggers is enabled and uses the shortest interval. Call it
// in the transaction of every change of a trigger; these are exclusive.
func (st *Store) syncPollGroup(ctx context.Context, tx bun.Tx, t *event.Trigger) error {
	if t.Kind != event.Polling {
		return nil
	}
	var seconds int
	if err := MinPollSeconds(tx, t).Scan(ctx, &seconds); err != nil {
		return fmt.Errorf("reading the triggers that poll %s: %w", t.Integration, err)
	}
	if seconds == 0 {
		_, err := tx.NewDelete().Table("poll_groups").Where("organization_id = ?", t.Organization).Where("provider = ?", t.Provider).
			Where("integration_id = ?", t.Integration).Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting the poll group of %s: %w", t.Integration, err)
		}
		return nil
	}
	return st.UpsertPollGroup(ctx, tx, t, seconds)
}

// MinPollSeconds selects the shortest interval of the group's triggers; zero if
// none is enabled.
func MinPollSeconds(db bun.IDB, t *event.Trigger) *bun.SelectQuery {
	return db.NewSelect().Table("triggers").ColumnExpr("coalesce(min(poll_seconds), 0)").
		Where("organization_id = ?", t.Organization).Where("provider = ?", t.Provider).Where("enabled = ?", true).
		Where("kind = ?", string(event.Polling)).Where("integration_id = ?", t.Integration)
}

// UpsertPollGroup creates the group, due immediately, or changes its interval.
// The next poll keeps its time, except that a healthy group is never due later
// than the new interval requires.
func (st *Store) UpsertPollGroup(ctx context.Context, tx bun.Tx, t *event.Trigger, seconds int) error {
	id, err := database.NewID()
	if err != nil {
		return err
	}
	now := st.db.Now()
	_, err = tx.NewInsert().Model(&pollGroupRow{
		ID: id, Organization: t.Organization, Provider: t.Provider, Integration: t.Integration, PollSeconds: seconds, NextAt: database.NewTimestamp(now),
	}).On("CONFLICT (organization_id, provider, integration_id) DO UPDATE").Set("poll_seconds = EXCLUDED.poll_seconds").
		Set("next_at = CASE WHEN g.failures = 0 AND g.next_at > ?0 AND g.poll_seconds > ?1 THEN ?0 ELSE g.next_at END",
			database.NewTimestamp(now.Add(time.Duration(seconds)*time.Second)), seconds).Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing the poll group of %s: %w", t.Integration, err)
	}
	return nil
}

// SettlePoll writes the cursor and events and releases the group in one
// transaction. ErrConflict, and nothing is written, if the worker lost the
// group.
func (st *Store) SettlePoll(ctx context.Context, worker string, l event.PollOutcome) (runs []event.Run, err error) {
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		n, err := database.RowsAffected(releasePollGroup(tx, worker, &l, database.NewTimestamp(st.db.Now())).Exec(ctx))
		switch {
		case err != nil:
			return err
		case n == 0:
			return action.NewError("poll_lost")
		}
		runs, err = st.writeMatches(ctx, tx, TriggersTable, l.Matches)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settling the poll of integration %s: %w", l.Group.Integration, err)
	}
	return runs, nil
}

// releasePollGroup writes the outcome and ends the worker's lease.
func releasePollGroup(db bun.IDB, worker string, l *event.PollOutcome, now database.Timestamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("poll_groups").Set("holder = NULL, lease_until = NULL, next_at = ?, last_at = ?", database.NewTimestamp(l.NextAt).Or(now), now)
	if l.Cursor != nil {
		q = q.Set("cursor = ?", string(l.Cursor))
	}
	if l.LastError == "" {
		q = q.Set("failures = 0, last_error = NULL")
	} else {
		q = q.Set("failures = failures + 1, last_error = ?", l.LastError)
	}
	if l.Lost != "" {
		q = q.Set("lost = ?, lost_at = ?", l.Lost, now)
	}
	return q.Where("id = ?", l.Group.ID).Where("organization_id = ?", l.Group.Organization).
		Where("holder = ?", worker).Where("turn = ?", l.Group.FencingToken)
}
