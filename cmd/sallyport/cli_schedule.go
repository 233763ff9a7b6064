package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"sallyport/ingest/event"
)

type scheduleCommand struct {
	Create  scheduleCreate  `cmd:"" help:"Start runs of an automation at times."`
	Times   scheduleTimes   `cmd:"" help:"Show when a cron expression is due, and save nothing."`
	List    scheduleList    `cmd:"" help:"List schedules."`
	Show    scheduleShow    `cmd:"" help:"Show a schedule and the next times."`
	Update  scheduleUpdate  `cmd:"" help:"Change a schedule."`
	Enable  scheduleEnable  `cmd:"" help:"Let a schedule start runs again."`
	Disable scheduleDisable `cmd:"" help:"Have a schedule start nothing."`
	Remove  scheduleRemove  `cmd:"" help:"Remove a schedule."`
}

const schedulesPath = "/api/v1/schedules"

// scheduleRow is a schedule as the API shows it.
type scheduleRow struct {
	event.Schedule
	AutomationName string      `json:"automation_name"`
	Next           []time.Time `json:"next"`
}

// said is a schedule in a line.
func (s *scheduleRow) said() string {
	return fmt.Sprintf("%s (%s): %q in %s, %s", s.Name, s.ID, s.Cron, s.TimeZone, onOff(s.Enabled))
}

// times are a cron expression in a time zone.
type times struct {
	Cron string `arg:"" help:"Five fields, minute hour day month weekday, or six with seconds first, in quotes."`
	Zone string `placeholder:"ZONE" help:"IANA name of the time zone, such as Europe/Berlin (default: UTC)."`
}

func (t *times) into(body map[string]any) {
	body["cron_expression"] = t.Cron
	if t.Zone != "" {
		body["timezone"] = t.Zone
	}
}

type scheduleCreate struct {
	remote
	Automation string `arg:"" help:"Name or id of the automation."`
	times
	Name   string `help:"What to call it (default: the expression)."`
	Missed string `enum:"once,skip" default:"once" help:"What becomes of times at which nothing was up: once (one run for all of them, default) or skip."`
}

func (c *scheduleCreate) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{"automation": c.Automation, "missed": c.Missed}
	if c.Name != "" {
		body["name"] = c.Name
	}
	c.into(body)
	return alter(ctx, &c.remote, std, http.MethodPost, schedulesPath, body, showSchedule)
}

func showSchedule(w io.Writer, s *scheduleRow) {
	said("schedule " + s.said())(w)
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
	times
}

func (c *scheduleTimes) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{}
	c.into(body)
	return alter(ctx, &c.remote, std, http.MethodPost, schedulesPath+"/preview", body, func(w io.Writer, due *struct {
		Times []time.Time `json:"times"`
	},
	) {
		showTimes(w, due.Times, c.Zone)
	})
}

type scheduleList struct {
	remote
	Automation string `placeholder:"REF" help:"Only of this automation."`
}

func (c *scheduleList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, schedulesPath, queryOf(given{"automation": c.Automation}), func(w io.Writer, all *list[scheduleRow]) {
		rows := make([][]string, 0, len(all.Items))
		for _, s := range all.Items {
			rows = append(rows, []string{s.AutomationName, s.Cron, s.TimeZone, onOff(s.Enabled), since(s.NextAt), s.Name, s.ID})
		}
		table(w, []string{"AUTOMATION", "CRON", "ZONE", "STATE", "NEXT", "NAME", "ID"}, rows)
	})
}

// theSchedule names one.
type theSchedule struct {
	remote
	ID string `arg:"" help:"Id of the schedule."`
}

func (s *theSchedule) path() string { return schedulesPath + "/" + url.PathEscape(s.ID) }

func (s *theSchedule) enable(ctx context.Context, std *stdio, enabled bool) error {
	return alter(ctx, &s.remote, std, http.MethodPatch, s.path(), map[string]any{"enabled": enabled}, showSchedule)
}

type scheduleShow struct{ theSchedule }

func (c *scheduleShow) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, c.path(), nil, showSchedule)
}

type scheduleUpdate struct {
	theSchedule
	Cron   string `placeholder:"EXPRESSION" help:"When it is due: five fields, or six with seconds first, in quotes."`
	Zone   string `placeholder:"ZONE" help:"IANA name of the time zone."`
	Missed string `enum:"once,skip," default:"" help:"What becomes of times at which nothing was up: once or skip."`
	Rename string `placeholder:"NAME" help:"What to call it from now on."`
}

func (c *scheduleUpdate) Run(ctx context.Context, std *stdio) error {
	body := given{"cron_expression": c.Cron, "timezone": c.Zone, "missed": c.Missed, "name": c.Rename}.set()
	if len(body) == 0 {
		return wrongUse("say what to change: --cron EXPRESSION, --zone ZONE, --missed once|skip or --rename NAME")
	}
	return alter(ctx, &c.remote, std, http.MethodPatch, c.path(), body, showSchedule)
}

type scheduleEnable struct{ theSchedule }

func (c *scheduleEnable) Run(ctx context.Context, std *stdio) error { return c.enable(ctx, std, true) }

type scheduleDisable struct{ theSchedule }

func (c *scheduleDisable) Run(ctx context.Context, std *stdio) error {
	return c.enable(ctx, std, false)
}

type scheduleRemove struct{ theSchedule }

func (c *scheduleRemove) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, c.path(), "schedule "+c.ID+" is removed")
}
