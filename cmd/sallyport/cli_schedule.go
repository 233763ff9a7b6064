package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"sallyport/api"
)

type scheduleCommand struct {
	Create  scheduleCreate  `cmd:"" help:"Create a schedule for an automation."`
	Times   scheduleTimes   `cmd:"" help:"Preview the next times of a cron expression."`
	List    scheduleList    `cmd:"" help:"List schedules."`
	Show    scheduleShow    `cmd:"" help:"Show a schedule and its next times."`
	Update  scheduleUpdate  `cmd:"" help:"Change a schedule."`
	Enable  scheduleEnable  `cmd:"" help:"Enable a schedule."`
	Disable scheduleDisable `cmd:"" help:"Disable a schedule."`
	Remove  scheduleRemove  `cmd:"" help:"Remove a schedule."`
}

type scheduleCreate struct {
	remote
	api.NewSchedule
}

func (c *scheduleCreate) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.CreateSchedule, api.Body[api.NewSchedule]{Body: c.NewSchedule}, showSchedule)
}

// scheduleLine is a schedule in a line.
func scheduleLine(s *api.ScheduleView) string {
	return fmt.Sprintf("schedule %s (%s): %q in %s, %s", s.Name, s.ID, s.Cron, s.TimeZone, onOff(s.Enabled))
}

func showSchedule(w io.Writer, s *api.ScheduleView) {
	said(scheduleLine(s))(w)
	said(fmt.Sprintf("starts runs of %s; times that were missed: %s", s.AutomationName, s.Missed))(w)
	showTimes(w, s.Next, s.TimeZone)
}

// showTimes shows times as the clocks of their zone do.
func showTimes(w io.Writer, next []time.Time, zone string) {
	at, err := time.LoadLocation(zone)
	if err != nil {
		at = time.UTC
	}
	for _, t := range next {
		fmt.Fprintln(w, "  ", t.In(at).Format("Mon 2006-01-02 15:04:05 MST"))
	}
}

type scheduleTimes struct {
	remote
	api.CronTimes
}

func (c *scheduleTimes) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.PreviewSchedule, api.Body[api.CronTimes]{Body: c.CronTimes}, func(w io.Writer, due *api.DueTimes) {
		showTimes(w, due.Times, c.TimeZone)
	})
}

type scheduleList struct {
	remote
	api.OfAutomation
}

func (*scheduleList) route() api.Operation { return api.ListSchedules.Operation }

func (c *scheduleList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListSchedules, c.OfAutomation,
		columns[api.ScheduleView]("AUTOMATION=automation_name CRON=cron_expression ZONE=timezone STATE=enabled NEXT=next_run_at NAME=name ID=id"))
}

// theSchedule names one.
type theSchedule struct {
	remote
	ID string `arg:"" help:"ID of the schedule."`
}

func (s *theSchedule) change(ctx context.Context, std *stdio, change api.ScheduleChange) error {
	return perform(ctx, &s.remote, std, api.UpdateSchedule, api.ByIDWith[api.ScheduleChange]{ByID: api.ByID{ID: s.ID}, Body: change}, showSchedule)
}

type scheduleShow struct{ theSchedule }

func (c *scheduleShow) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.GetSchedule, api.ByID{ID: c.ID}, showSchedule)
}

type scheduleUpdate struct {
	theSchedule
	api.ScheduleChange
}

func (c *scheduleUpdate) Run(ctx context.Context, std *stdio) error {
	if c.ScheduleChange == (api.ScheduleChange{}) {
		return wrongUse("say what to change: --cron EXPRESSION, --zone ZONE, --missed once|skip or --rename NAME")
	}
	return c.change(ctx, std, c.ScheduleChange)
}

type scheduleEnable struct{ theSchedule }

func (c *scheduleEnable) Run(ctx context.Context, std *stdio) error {
	return c.change(ctx, std, api.ScheduleChange{Enabled: new(true)})
}

type scheduleDisable struct{ theSchedule }

func (c *scheduleDisable) Run(ctx context.Context, std *stdio) error {
	return c.change(ctx, std, api.ScheduleChange{Enabled: new(false)})
}

type scheduleRemove struct{ theSchedule }

func (c *scheduleRemove) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.DeleteSchedule, api.ByID{ID: c.ID}, done("schedule "+c.ID+" is removed"))
}
