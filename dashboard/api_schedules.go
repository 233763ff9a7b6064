package dashboard

import (
	"context"
	"net/http"
	"time"

	"sallyport/ingest/event"
)

// NewSchedule starts runs at times, as it is wished for.
type NewSchedule struct {
	Automation string       `json:"automation" minLength:"1" maxLength:"200" doc:"Id or name." example:"nightly-triage"`
	Name       string       `json:"name,omitempty" maxLength:"120" doc:"Absent: the cron expression."`
	Missed     event.Missed `json:"missed,omitempty" enum:"once,skip" doc:"What becomes of times at which nothing was up: one run for all of them (default), or none."`
	Enabled    *bool        `json:"enabled,omitempty" nullable:"false" doc:"Default true."`
	CronTimes
}

// CronTimes are times by a cron expression.
type CronTimes struct {
	Cron     string `json:"cron_expression" minLength:"1" maxLength:"200" doc:"Of 5 fields, or 6 with seconds first." example:"0 7 * * 1-5"`
	TimeZone string `json:"timezone,omitempty" maxLength:"80" doc:"An IANA name; default UTC." example:"Europe/Berlin"`
}

// ScheduleChange is what may change of a schedule.
type ScheduleChange struct {
	Name     *string       `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false"`
	Cron     *string       `json:"cron_expression,omitempty" minLength:"1" maxLength:"200" nullable:"false"`
	TimeZone *string       `json:"timezone,omitempty" minLength:"1" maxLength:"80" nullable:"false"`
	Missed   *event.Missed `json:"missed,omitempty" enum:"once,skip" nullable:"false"`
	Enabled  *bool         `json:"enabled,omitempty" nullable:"false"`
}

// ScheduleView is a schedule with the times to come.
type ScheduleView struct {
	event.Schedule
	AutomationName string      `json:"automation_name" example:"nightly-triage"`
	Next           []time.Time `json:"next" nullable:"false" doc:"The next five times; none while it is disabled."`
}

// DueTimes are times to come.
type DueTimes struct {
	Times []time.Time `json:"times" nullable:"false" doc:"The next five."`
}

func (s *Server) scheduleRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/schedules", tag: "schedules", summary: "List schedules",
	}, func(ctx context.Context, p *Principal, in *OfAutomation) (*body[List[ScheduleView]], error) {
		views, err := s.schedules(ctx, p, in.Automation)
		return listOf(views), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/schedules", tag: "schedules", summary: "Make a schedule", status: http.StatusCreated,
		doc: "Each due time starts one run of the automation.", errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewSchedule }) (*body[ScheduleView], error) {
		v, err := s.addSchedule(ctx, p, in.Body)
		return bodyOf(v), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/schedules/preview", tag: "schedules", summary: "Say when a cron expression is due", status: http.StatusOK,
		doc: "Saves nothing.",
	}, func(_ context.Context, _ *Principal, in *struct{ Body CronTimes }) (*body[DueTimes], error) {
		times, err := s.Times(in.Body.Cron, or(in.Body.TimeZone, "UTC"), s.now(), upcoming)
		return bodyOf(DueTimes{nonNil(times)}), err
	})
	s.scheduleOneRoutes("/api/v1/schedules/{id}")
}

func (s *Server) scheduleOneRoutes(one string) {
	register(s, route{
		method: "GET", path: one, tag: "schedules", summary: "Read a schedule",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[ScheduleView], error) {
		row, err := s.Triggers.Schedule(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.viewSchedule(ctx, row)
		return bodyOf(v), err
	})
	register(s, route{
		method: "PATCH", path: one, tag: "schedules", summary: "Change a schedule", doc: "Fields that are absent stay.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body ScheduleChange
	},
	) (*body[ScheduleView], error) {
		v, err := s.changeSchedule(ctx, p, in.ID, in.Body)
		return bodyOf(v), err
	})
	register(s, route{
		method: "DELETE", path: one, tag: "schedules", summary: "Remove a schedule", doc: "Its events and runs stay.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*empty, error) {
		if err := s.Triggers.DeleteSchedule(ctx, p.Organization, in.ID, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "schedule removed", "schedule", in.ID)
		return nil, nil
	})
}
