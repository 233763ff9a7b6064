package api

import (
	"time"

	"sallyport/ingest/event"
)

// Routes.
var (
	ListSchedules = Route[OfAutomation, List[ScheduleView]]{Operation{
		Method: "GET", Path: "/api/v1/schedules", Who: Member, Tag: "schedules",
		Summary: "List schedules",
	}}
	CreateSchedule = Route[Body[NewSchedule], ScheduleView]{Operation{
		Method: "POST", Path: "/api/v1/schedules", Who: Decider, Tag: "schedules", Status: 201, Errors: []int{404, 409},
		Summary: "Create a schedule",
		Doc:     "Each due time starts one run of the automation.",
	}}
	PreviewSchedule = Route[Body[CronTimes], DueTimes]{Operation{
		Method: "POST", Path: "/api/v1/schedules/preview", Who: Member, Tag: "schedules", Status: 200,
		Summary: "Preview a cron expression",
		Doc:     "Saves nothing.",
	}}
	GetSchedule = Route[ByID, ScheduleView]{Operation{
		Method: "GET", Path: "/api/v1/schedules/{id}", Who: Member, Tag: "schedules",
		Summary: "Get a schedule",
	}}
	UpdateSchedule = Route[ByIDWith[ScheduleChange], ScheduleView]{Operation{
		Method: "PATCH", Path: "/api/v1/schedules/{id}", Who: Decider, Tag: "schedules", Errors: []int{409},
		Summary: "Change a schedule",
		Doc:     "Missing fields stay unchanged.",
	}}
	DeleteSchedule = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/schedules/{id}", Who: Decider, Tag: "schedules",
		Summary: "Delete a schedule",
		Doc:     "Its events and runs stay.",
	}}
)

// NewSchedule is a schedule to create.
type NewSchedule struct {
	Automation string       `json:"automation" minLength:"1" maxLength:"200" doc:"ID or name." example:"nightly-triage" kong:"arg,help='Name or ID of the automation.'"`
	Name       string       `json:"name,omitempty" maxLength:"120" doc:"Missing: the cron expression." kong:"help='Name of the schedule (default: the expression).'"`
	Missed     event.Missed `json:"missed,omitempty" enum:"once,skip" doc:"Runs for times missed during downtime: one run for all of them (default), or none." kong:"default='once',help='Runs for times missed during downtime: once (one run for all of them) or skip (default: once).'"`
	Enabled    *bool        `json:"enabled,omitempty" nullable:"false" doc:"Default true." kong:"-"`
	CronTimes
}

// CronTimes is a cron expression in a time zone.
type CronTimes struct {
	Cron     string `json:"cron_expression" minLength:"1" maxLength:"200" doc:"5 fields, or 6 with seconds first." example:"0 7 * * 1-5" kong:"arg,help='Cron expression in quotes: five fields, or six with seconds first.'"`
	TimeZone string `json:"timezone,omitempty" maxLength:"80" doc:"IANA time zone; default UTC." example:"Europe/Berlin" kong:"name='zone',placeholder='ZONE',help='IANA time zone, such as Europe/Berlin (default: UTC).'"`
}

// ScheduleChange changes a schedule.
type ScheduleChange struct {
	Name     *string       `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"name='rename',placeholder='NAME',help='New name.'"`
	Cron     *string       `json:"cron_expression,omitempty" minLength:"1" maxLength:"200" nullable:"false" kong:"placeholder='EXPRESSION',help='Cron expression in quotes: five fields, or six with seconds first.'"`
	TimeZone *string       `json:"timezone,omitempty" minLength:"1" maxLength:"80" nullable:"false" kong:"name='zone',placeholder='ZONE',help='IANA time zone, such as Europe/Berlin.'"`
	Missed   *event.Missed `json:"missed,omitempty" enum:"once,skip" nullable:"false" kong:"enum='',help='Runs for times missed during downtime: once or skip.'"`
	Enabled  *bool         `json:"enabled,omitempty" nullable:"false" kong:"-"`
}

// ScheduleView is a schedule with its next due times.
type ScheduleView struct {
	event.Schedule
	AutomationName string      `json:"automation_name" example:"nightly-triage"`
	Next           []time.Time `json:"next" nullable:"false" doc:"The next five times; none while it is disabled."`
}

// DueTimes are the next due times.
type DueTimes struct {
	Times []time.Time `json:"times" nullable:"false" doc:"The next five times."`
}
