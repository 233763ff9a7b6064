package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/ingest/event"
)

type automationCommand struct {
	Create  automationCreate                              `cmd:"" help:"Create an automation."`
	List    request[api.None, api.List[event.Automation]] `cmd:"" help:"List automations."`
	Show    automationShow                                `cmd:"" help:"Show an automation and its triggers."`
	Update  automationUpdate                              `cmd:"" help:"Change an automation: its instructions, workspace or limits."`
	Enable  automationEnable                              `cmd:"" help:"Let events start runs again."`
	Disable automationDisable                             `cmd:"" help:"Stop events from starting runs; queued runs wait."`
	Remove  automationRemove                              `cmd:"" help:"Remove an automation with its triggers and schedules."`
}

// automationRef is the argument that names an automation.
type automationRef struct {
	clientFlags
	api.ByAutomation
}

// instructionFlags set the instructions of an automation.
type instructionFlags struct {
	Instructions     *string `placeholder:"TEXT" xor:"instructions" help:"Instructions for the agent."`
	InstructionsFile string  `placeholder:"FILE" type:"path" xor:"instructions" help:"File with the instructions."`
}

// text returns the instructions, or nil if neither flag is set.
func (i *instructionFlags) text() (*string, error) {
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
	clientFlags
	instructionFlags
	api.NewAutomation
	Disabled bool `help:"Create it disabled."`
}

func (c *automationCreate) Run(ctx context.Context, std *command.Streams) error {
	text, err := c.text()
	if err != nil {
		return err
	}
	if text != nil {
		c.NewAutomation.Instructions = *text
	}
	c.Enabled = new(!c.Disabled)
	return perform(ctx, &c.clientFlags, std, api.CreateAutomation, api.Body[api.NewAutomation]{Body: c.NewAutomation}, func(w io.Writer, a *event.Automation) {
		printLine(w, "automation "+a.Name+" ("+a.ID+") is created")
		if a.Instructions == "" {
			printLine(w, "it has no instructions; add some with: "+c.hint("automation", "update", a.Name, "--instructions", "TEXT"))
		}
		printLine(w, "choose what starts it: "+c.hint("trigger", "create", a.Name, "PROVIDER")+", or "+c.hint("schedule", "create", a.Name, "CRON"))
		printLine(w, "choose the integrations of its agent: "+c.hint("integration", "bind", a.Name, "INTEGRATION")+", after connecting them: "+c.hint("integration", "connect", "PROVIDER"))
	})
}

type automationShow struct{ automationRef }

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
	query := api.OfAutomation{Automation: a.ID}
	triggers, _, err := Fetch(ctx, server, api.ListTriggers, query)
	if err != nil {
		return err
	}
	schedules, _, err := Fetch(ctx, server, api.ListSchedules, query)
	if err != nil {
		return err
	}
	printLine(std.Out, fmt.Sprintf("automation %s (%s), %s", a.Name, a.ID, enabledText(a.Enabled)))
	if a.Group != "" {
		printLine(std.Out, "sessions are in group "+a.Group)
	}
	for _, line := range runSettings(&a.RunSettings) {
		printLine(std.Out, line)
	}
	for line := range strings.Lines(a.Instructions) {
		printLine(std.Out, "    "+strings.TrimRight(line, "\r\n"))
	}
	for i := range triggers.Items {
		printLine(std.Out, triggerLine(&triggers.Items[i]))
		if at := triggers.Items[i].URL; at != "" {
			printLine(std.Out, "    at "+at)
		}
	}
	for i := range schedules.Items {
		printLine(std.Out, scheduleLine(&schedules.Items[i]))
	}
	return nil
}

// runSettings describes what the runs of an automation work on, and their limits.
func runSettings(r *event.RunSettings) (lines []string) {
	for _, one := range []struct{ what, value string }{
		{"workspace", r.Workspace},
		{"branch", r.Branch},
		{"model", r.Model},
		{"provider of sandboxes", r.Provider},
		{"time limit of a run", seconds(r.TimeLimit)},
		{"tokens of a run", count(r.MaxTokens)},
		{"calls of a run", count(r.MaxCalls)},
		{"runs at the same time", count(int64(r.MaxRuns))},
		{"a run ends when", string(r.EndsWhen)},
		{"tells", strings.Join(r.Tell, ", ")},
	} {
		if one.value != "" {
			lines = append(lines, one.what+": "+one.value)
		}
	}
	if r.MaxCost > 0 {
		lines = append(lines, "cost of a run: "+usd(r.MaxCost))
	}
	return lines
}

// count formats a limit; zero is none.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

type automationUpdate struct {
	automationRef
	instructionFlags
	api.AutomationChange
}

func (c *automationUpdate) Run(ctx context.Context, std *command.Streams) (err error) {
	if c.AutomationChange.Instructions, err = c.text(); err != nil {
		return err
	}
	if reflect.ValueOf(c.AutomationChange).IsZero() {
		return command.UsageErrorf("nothing to change: pass --rename NAME, --instructions TEXT, --workspace NAME or another flag; see --help")
	}
	return c.change(ctx, std, c.AutomationChange, "is changed")
}

// change updates the automation and prints the result.
func (a *automationRef) change(ctx context.Context, std *command.Streams, change api.AutomationChange, message string) error {
	in := api.ByAutomationWith[api.AutomationChange]{ByAutomation: a.ByAutomation, Body: change}
	return perform(ctx, &a.clientFlags, std, api.UpdateAutomation, in, func(w io.Writer, updated *event.Automation) {
		printLine(w, "automation "+updated.Name+" "+message)
	})
}

type automationEnable struct{ automationRef }

func (c *automationEnable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.AutomationChange{Enabled: new(true)}, "is enabled")
}

type automationDisable struct{ automationRef }

func (c *automationDisable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.AutomationChange{Enabled: new(false)}, "is disabled: events are recorded but start no runs; queued runs wait until it is enabled")
}

type automationRemove struct{ automationRef }

func (c *automationRemove) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.DeleteAutomation, c.ByAutomation, confirmation("automation "+c.Automation+" is removed, with "+c.removedCounts(ctx, server)))
}

// removedCounts counts the resources that are removed with the automation, as
// far as the caller can read them.
func (a *automationRef) removedCounts(ctx context.Context, server *Client) string {
	query := api.OfAutomation{Automation: a.Automation}
	automation, _, _ := Fetch(ctx, server, api.GetAutomation, a.ByAutomation)
	triggers, _, _ := Fetch(ctx, server, api.ListTriggers, query)
	schedules, _, _ := Fetch(ctx, server, api.ListSchedules, query)
	modes, _, _ := Fetch(ctx, server, api.ListModes, api.None{})
	runs, _, _ := Fetch(ctx, server, api.ListRuns, api.RunQuery{Automation: a.Automation, Status: event.RunQueued})
	ownModes := slices.DeleteFunc(modes.Items, func(m api.ModeView) bool { return automation.ID == "" || m.Automation != automation.ID })
	return fmt.Sprintf("%s, %s, %s and its bindings; %s will not start (automation_deleted)",
		command.Plural(len(triggers.Items), "trigger"), command.Plural(len(schedules.Items), "schedule"), command.Plural(len(ownModes), "mode"), command.Plural(runs.Total, "queued run"))
}

type scheduleCommand struct {
	Create  request[api.Body[api.NewSchedule], api.ScheduleView]  `cmd:"" help:"Create a schedule for an automation."`
	Times   scheduleTimes                                         `cmd:"" help:"Preview the next times of a cron expression."`
	List    request[api.OfAutomation, api.List[api.ScheduleView]] `cmd:"" help:"List schedules."`
	Show    request[api.ByID, api.ScheduleView]                   `cmd:"" help:"Show a schedule and its next times."`
	Update  scheduleUpdate                                        `cmd:"" help:"Change a schedule."`
	Enable  scheduleEnable                                        `cmd:"" help:"Enable a schedule."`
	Disable scheduleDisable                                       `cmd:"" help:"Disable a schedule."`
	Remove  request[api.ByID, api.None]                           `cmd:"" help:"Remove a schedule."`
}

// scheduleLine describes a schedule in a line.
func scheduleLine(s *api.ScheduleView) string {
	return fmt.Sprintf("schedule %s (%s): %q in %s, %s", s.Name, s.ID, s.Cron, s.TimeZone, enabledText(s.Enabled))
}

func showSchedule(w io.Writer, s *api.ScheduleView) {
	printLine(w, scheduleLine(s))
	printLine(w, fmt.Sprintf("starts runs of %s; missed times: %s", s.AutomationName, s.Missed))
	showTimes(w, s.Next, s.TimeZone)
}

// showTimes prints times in their time zone.
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
	clientFlags
	api.CronTimes
}

func (c *scheduleTimes) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.clientFlags, std, api.PreviewSchedule, api.Body[api.CronTimes]{Body: c.CronTimes}, func(w io.Writer, preview *api.DueTimes) {
		showTimes(w, preview.Times, c.TimeZone)
	})
}

// scheduleRef is the argument that names a schedule.
type scheduleRef struct {
	clientFlags
	ID string `arg:"" help:"ID of the schedule."`
}

func (s *scheduleRef) change(ctx context.Context, std *command.Streams, change api.ScheduleChange) error {
	return perform(ctx, &s.clientFlags, std, api.UpdateSchedule, api.ByIDWith[api.ScheduleChange]{ByID: api.ByID{ID: s.ID}, Body: change}, showSchedule)
}

type scheduleUpdate struct {
	scheduleRef
	api.ScheduleChange
}

func (c *scheduleUpdate) Run(ctx context.Context, std *command.Streams) error {
	if c.ScheduleChange == (api.ScheduleChange{}) {
		return command.UsageErrorf("nothing to change: pass --cron EXPRESSION, --zone ZONE, --missed once|skip or --rename NAME")
	}
	return c.change(ctx, std, c.ScheduleChange)
}

type scheduleEnable struct{ scheduleRef }

func (c *scheduleEnable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.ScheduleChange{Enabled: new(true)})
}

type scheduleDisable struct{ scheduleRef }

func (c *scheduleDisable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.ScheduleChange{Enabled: new(false)})
}
