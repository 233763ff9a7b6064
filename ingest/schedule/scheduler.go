// Package schedule creates events at the times of cron expressions. Any number of
// schedulers may run on the same rows: a due time creates one event.
package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/match"
	"sallyport/internal/defaults"
	"sallyport/internal/redact"
)

// Config configures a [Scheduler]. The interfaces and NewID are required.
type Config struct {
	Rows  ingest.Rows
	Vault action.Vault
	JSON  *redact.JSON
	NewID func() string // ids of events and runs, ascending in time (UUIDv7)

	Timing
	Grace time.Duration `default:"1m"` // how late a due time may be before it counts as missed

	Began func(runs []event.Run) // called with runs that began; may be nil
	Now   func() time.Time       `default:"time.Now"`
	Log   *slog.Logger           `default:"discard"`
}

// Timing is the interval of a [Scheduler] that is a flag of the server. Zero
// means the default.
type Timing struct {
	Every time.Duration `default:"1s" help:"Interval of checking for due schedules (default: ${default})." name:"schedule-every" placeholder:"D"`
}

func (c *Config) setDefaults() error {
	if c.Rows == nil || c.Vault == nil || c.JSON == nil || c.NewID == nil {
		return errors.New("schedule.Config: Rows, Vault, JSON and NewID are required")
	}
	if c.Began == nil {
		c.Began = func([]event.Run) {}
	}
	defaults.Set(c)
	return nil
}

// Scheduler creates events of due schedules. Any number of schedulers may share the
// rows: a due time creates one event.
type Scheduler struct {
	Config
	match *match.Matcher
}

// NewScheduler returns a scheduler, for [Scheduler.Run].
func NewScheduler(c Config) (*Scheduler, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	return &Scheduler{Config: c, match: &match.Matcher{Vault: c.Vault, JSON: c.JSON, NewID: c.NewID, Now: c.Now, Log: c.Log}}, nil
}

// Run fires due schedules until ctx ends, finishes the current one and returns ctx's
// error.
func (s *Scheduler) Run(ctx context.Context) error {
	work, stop := loop.WithGrace(ctx, loop.ShutdownGrace)
	defer stop()
	for failures, pause := 0, time.Duration(0); loop.Sleep(ctx, pause); {
		if err := s.fireDue(ctx, work); err != nil {
			failures++
			s.Log.ErrorContext(ctx, "due schedules could not be read", "error", err)
			pause = loop.Backoff(s.Every, 30*s.Every, failures)
			continue
		}
		failures, pause = 0, s.Every
	}
	return ctx.Err()
}

// dueBatch is the number of schedules that are read at once.
const dueBatch = 100

// fireDue fires all due schedules. A failed one is left for the next round and
// delays no other.
func (s *Scheduler) fireDue(ctx, work context.Context) error {
	failed := map[string]bool{}
	for more := true; more; {
		due, err := s.Rows.DueSchedules(work, s.Now().UTC(), dueBatch+len(failed))
		if err != nil {
			return err
		}
		more = false
		for _, one := range due {
			if ctx.Err() != nil {
				return nil
			}
			if failed[one.ID] {
				continue
			}
			more = true // more may follow once these were fired
			if err := s.fire(work, one); err != nil {
				failed[one.ID] = true
				s.Log.ErrorContext(ctx, "a schedule could not be fired", "organization", one.Organization, "schedule", one.ID, "error", err)
			}
		}
	}
	return nil
}

func (s *Scheduler) fire(ctx context.Context, one event.Schedule) error {
	if one.NextAt == nil {
		return errors.New("a due schedule has no next time")
	}
	next, m, err := s.due(ctx, one)
	if err != nil {
		return err
	}
	runs, fired, err := s.Rows.FireSchedule(ctx, one, next, m)
	if err != nil {
		return err
	}
	if fired && next == nil {
		s.Log.WarnContext(ctx, "a schedule has no further due times", "organization", one.Organization, "schedule", one.ID)
	}
	if len(runs) > 0 {
		s.Began(runs)
	}
	return nil
}

// due returns the event of a due schedule, if any, and its next due time. A schedule
// that can no longer be parsed stops and reports that in its event.
func (s *Scheduler) due(ctx context.Context, one event.Schedule) (*time.Time, *event.Match, error) {
	table, err := parseCron(one.Cron, one.TimeZone)
	if err != nil {
		m, err := s.newEvent(ctx, one, occurrence{at: *one.NextAt}, time.UTC, "The schedule can no longer be parsed, so it was stopped. Set its expression and time zone again.")
		return nil, m, err
	}
	f := table.occurrence(*one.NextAt, s.Now().UTC(), s.Grace, one.Missed)
	var next *time.Time
	if !f.next.IsZero() {
		next = &f.next
	}
	if f.at.IsZero() {
		return next, nil, nil
	}
	m, err := s.newEvent(ctx, one, f, table.zone, "")
	return next, m, err
}

// eventContext is the context of a schedule's event.
type eventContext struct {
	Schedule scheduleRef `json:"schedule"`
	Cron     string      `json:"cron_expression"`
	TimeZone string      `json:"timezone"`
	DueAt    time.Time   `json:"due_at"`
	Missed   int         `json:"missed"` // earlier due times without an event; 1000 means 1000 or more
}

type scheduleRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// newEvent returns the event of a due time; skipped if there is a problem.
func (s *Scheduler) newEvent(ctx context.Context, one event.Schedule, f occurrence, zone *time.Location, problem string) (*event.Match, error) {
	due := f.at.UTC()
	whole, err := json.Marshal(eventContext{scheduleRef{one.ID, one.Name}, one.Cron, one.TimeZone, due, f.missed})
	if err != nil {
		return nil, err
	}
	r := s.match.Record(event.Event{
		Provider: event.ScheduleProvider, Type: event.ScheduleProvider, Native: one.Cron, Key: due.Format(time.RFC3339), OccurredAt: due,
		Title: one.Name + " at " + due.In(zone).Format("2006-01-02 15:04:05 MST"), Context: whole,
	}, "")
	r.Organization, r.Trigger, r.Automation = one.Organization, one.ID, one.Automation
	if problem != "" {
		r.Skip, r.Error = event.SkipRunFailed, problem
	}
	m := s.match.NewMatch(ctx, r, whole)
	return &m, nil
}
