package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/ingest/event"
)

type automationCommand struct {
	Create  automationCreate  `cmd:"" help:"Create an automation."`
	List    automationList    `cmd:"" help:"List automations."`
	Show    automationShow    `cmd:"" help:"Show an automation and its triggers."`
	Update  automationUpdate  `cmd:"" help:"Change the name or instructions of an automation."`
	Enable  automationEnable  `cmd:"" help:"Let events start runs again."`
	Disable automationDisable `cmd:"" help:"Stop events from starting runs; queued runs wait."`
	Remove  automationRemove  `cmd:"" help:"Remove an automation with its triggers and schedules."`
}

// theAutomation names one.
type theAutomation struct {
	remote
	api.ByAutomation
}

// instructions are what an automation tells its agent.
type instructions struct {
	Instructions     *string `placeholder:"TEXT" xor:"instructions" help:"Instructions for the agent."`
	InstructionsFile string  `placeholder:"FILE" type:"path" xor:"instructions" help:"File with the instructions."`
}

// read returns the text that was given; nil: none was.
func (i *instructions) read() (*string, error) {
	if i.InstructionsFile == "" {
		return i.Instructions, nil
	}
	text, err := os.ReadFile(i.InstructionsFile)
	if err != nil {
		return nil, fmt.Errorf("reading the instructions: %w", err)
	}
	return new(strings.TrimSpace(string(text))), nil
}

type automationCreate struct {
	remote
	instructions
	api.NewAutomation
	Disabled bool `help:"Create it disabled."`
}

func (c *automationCreate) Run(ctx context.Context, std *command.Streams) error {
	text, err := c.read()
	if err != nil {
		return err
	}
	if text != nil {
		c.NewAutomation.Instructions = *text
	}
	c.Enabled = new(!c.Disabled)
	return perform(ctx, &c.remote, std, api.CreateAutomation, api.Body[api.NewAutomation]{Body: c.NewAutomation}, func(w io.Writer, a *event.Automation) {
		said("automation " + a.Name + " (" + a.ID + ") is made")(w)
		if a.Instructions == "" {
			said("it has no instructions; give some with: " + c.hint("automation", "update", a.Name, "--instructions", "TEXT"))(w)
		}
		said("say what starts it with: " + c.hint("trigger", "create", a.Name, "PROVIDER") + ", or " + c.hint("schedule", "create", a.Name, "CRON"))(w)
		said("say what its agent may use with: " + c.hint("integration", "bind", a.Name, "INTEGRATION") + ", once it is connected: " + c.hint("integration", "connect", "PROVIDER"))(w)
	})
}

type automationList struct{ remote }

func (*automationList) route() api.Operation { return api.ListAutomations.Operation }

func (c *automationList) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.ListAutomations, api.None{}, columns[event.Automation]("NAME=name STATE=enabled CREATED=created_at ID=id"))
}

type automationShow struct{ theAutomation }

func (c *automationShow) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	a, raw, err := Fetch(ctx, server, api.GetAutomation, c.ByAutomation)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.PrintJSON(raw)
	}
	of := api.OfAutomation{Automation: a.ID}
	triggers, _, err := Fetch(ctx, server, api.ListTriggers, of)
	if err != nil {
		return err
	}
	schedules, _, err := Fetch(ctx, server, api.ListSchedules, of)
	if err != nil {
		return err
	}
	said(fmt.Sprintf("automation %s (%s), %s", a.Name, a.ID, onOff(a.Enabled)))(std.Out)
	for line := range strings.Lines(a.Instructions) {
		said("    " + strings.TrimRight(line, "\r\n"))(std.Out)
	}
	for i := range triggers.Items {
		said(triggerLine(&triggers.Items[i]))(std.Out)
		if at := triggers.Items[i].URL; at != "" {
			said("    at " + at)(std.Out)
		}
	}
	for i := range schedules.Items {
		said(scheduleLine(&schedules.Items[i]))(std.Out)
	}
	return nil
}

type automationUpdate struct {
	theAutomation
	instructions
	api.AutomationChange
}

func (c *automationUpdate) Run(ctx context.Context, std *command.Streams) (err error) {
	if c.AutomationChange.Instructions, err = c.read(); err != nil {
		return err
	}
	if c.AutomationChange == (api.AutomationChange{}) {
		return command.UsageErrorf("say what to change: --rename NAME, --instructions TEXT or --instructions-file FILE")
	}
	return c.change(ctx, std, c.AutomationChange, "is changed")
}

// change changes the automation and says what is so now.
func (a *theAutomation) change(ctx context.Context, std *command.Streams, change api.AutomationChange, done string) error {
	in := api.ByAutomationWith[api.AutomationChange]{ByAutomation: a.ByAutomation, Body: change}
	return perform(ctx, &a.remote, std, api.UpdateAutomation, in, func(w io.Writer, now *event.Automation) {
		said("automation " + now.Name + " " + done)(w)
	})
}

type automationEnable struct{ theAutomation }

func (c *automationEnable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.AutomationChange{Enabled: new(true)}, "is enabled")
}

type automationDisable struct{ theAutomation }

func (c *automationDisable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.AutomationChange{Enabled: new(false)}, "is disabled: events are kept, and start nothing; runs that are queued wait until it is enabled")
}

type automationRemove struct{ theAutomation }

func (c *automationRemove) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	return perform(ctx, &c.remote, std, api.DeleteAutomation, c.ByAutomation, done("automation "+c.Automation+" is removed, with "+c.belongings(ctx, server)))
}

// belongings are what goes with the automation, as far as it can be read.
func (a *theAutomation) belongings(ctx context.Context, server *Client) string {
	of := api.OfAutomation{Automation: a.Automation}
	it, _, _ := Fetch(ctx, server, api.GetAutomation, a.ByAutomation)
	triggers, _, _ := Fetch(ctx, server, api.ListTriggers, of)
	schedules, _, _ := Fetch(ctx, server, api.ListSchedules, of)
	modes, _, _ := Fetch(ctx, server, api.ListModes, api.None{})
	runs, _, _ := Fetch(ctx, server, api.ListRuns, api.RunQuery{Automation: a.Automation, Status: event.RunQueued})
	own := slices.DeleteFunc(modes.Items, func(m api.ModeView) bool { return it.ID == "" || m.Automation != it.ID })
	return fmt.Sprintf("%s, %s, %s and its bindings; %s will not begin (automation_deleted)",
		command.Plural(len(triggers.Items), "trigger"), command.Plural(len(schedules.Items), "schedule"), command.Plural(len(own), "mode"), command.Plural(runs.Total, "queued run"))
}

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

func (c *scheduleCreate) Run(ctx context.Context, std *command.Streams) error {
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

func (c *scheduleTimes) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.PreviewSchedule, api.Body[api.CronTimes]{Body: c.CronTimes}, func(w io.Writer, due *api.DueTimes) {
		showTimes(w, due.Times, c.TimeZone)
	})
}

type scheduleList struct {
	remote
	api.OfAutomation
}

func (*scheduleList) route() api.Operation { return api.ListSchedules.Operation }

func (c *scheduleList) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.ListSchedules, c.OfAutomation,
		columns[api.ScheduleView]("AUTOMATION=automation_name CRON=cron_expression ZONE=timezone STATE=enabled NEXT=next_run_at NAME=name ID=id"))
}

// theSchedule names one.
type theSchedule struct {
	remote
	ID string `arg:"" help:"ID of the schedule."`
}

func (s *theSchedule) change(ctx context.Context, std *command.Streams, change api.ScheduleChange) error {
	return perform(ctx, &s.remote, std, api.UpdateSchedule, api.ByIDWith[api.ScheduleChange]{ByID: api.ByID{ID: s.ID}, Body: change}, showSchedule)
}

type scheduleShow struct{ theSchedule }

func (c *scheduleShow) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.GetSchedule, api.ByID{ID: c.ID}, showSchedule)
}

type scheduleUpdate struct {
	theSchedule
	api.ScheduleChange
}

func (c *scheduleUpdate) Run(ctx context.Context, std *command.Streams) error {
	if c.ScheduleChange == (api.ScheduleChange{}) {
		return command.UsageErrorf("say what to change: --cron EXPRESSION, --zone ZONE, --missed once|skip or --rename NAME")
	}
	return c.change(ctx, std, c.ScheduleChange)
}

type scheduleEnable struct{ theSchedule }

func (c *scheduleEnable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.ScheduleChange{Enabled: new(true)})
}

type scheduleDisable struct{ theSchedule }

func (c *scheduleDisable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.ScheduleChange{Enabled: new(false)})
}

type scheduleRemove struct{ theSchedule }

func (c *scheduleRemove) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.DeleteSchedule, api.ByID{ID: c.ID}, done("schedule "+c.ID+" is removed"))
}
