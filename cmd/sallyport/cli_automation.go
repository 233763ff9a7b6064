package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"sallyport/ingest/event"
)

type automationCommand struct {
	Create  automationCreate  `cmd:"" help:"Make an automation: what agents are to do without a person beside them."`
	List    automationList    `cmd:"" help:"List automations."`
	Show    automationShow    `cmd:"" help:"Show an automation, and what starts it."`
	Update  automationUpdate  `cmd:"" help:"Change the name or the instructions of an automation."`
	Enable  automationEnable  `cmd:"" help:"Let events start runs again."`
	Disable automationDisable `cmd:"" help:"Keep events, and have them start nothing; runs that are queued wait."`
	Remove  automationRemove  `cmd:"" help:"Remove an automation with its triggers and schedules."`
}

const automationsPath = "/api/v1/automations"

// theAutomation names one.
type theAutomation struct {
	remote
	Automation string `arg:"" help:"Name or id of the automation."`
}

func (a *theAutomation) path() string { return automationsPath + "/" + url.PathEscape(a.Automation) }

// instructions are what an automation tells its agent.
type instructions struct {
	Instructions     *string `placeholder:"TEXT" xor:"instructions" help:"What the agent is to do."`
	InstructionsFile string  `placeholder:"FILE" type:"path" xor:"instructions" help:"The same from a file."`
}

func (i *instructions) into(body map[string]any) error {
	if i.InstructionsFile != "" {
		text, err := os.ReadFile(i.InstructionsFile)
		if err != nil {
			return fmt.Errorf("reading the instructions: %w", err)
		}
		body["instructions"] = strings.TrimSpace(string(text))
	}
	if i.Instructions != nil {
		body["instructions"] = *i.Instructions
	}
	return nil
}

type automationCreate struct {
	remote
	instructions
	Name     string `arg:"" help:"What to call it."`
	Disabled bool   `help:"Begin disabled."`
}

func (c *automationCreate) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{"name": c.Name, "enabled": !c.Disabled}
	if err := c.into(body); err != nil {
		return err
	}
	return alter(ctx, &c.remote, std, http.MethodPost, automationsPath, body, func(w io.Writer, a *event.Automation) {
		said("automation " + a.Name + " (" + a.ID + ") is made")(w)
		if a.Instructions == "" {
			said("it has no instructions; give some with: " + c.hint("automation", "update", a.Name, "--instructions", "TEXT"))(w)
		}
		said("say what starts it with: " + c.hint("trigger", "create", a.Name, "PROVIDER") + ", or " + c.hint("schedule", "create", a.Name, "CRON"))(w)
		said("say what its agent may use with: " + c.hint("integration", "bind", a.Name, "INTEGRATION") + ", once it is connected: " + c.hint("integration", "connect", "PROVIDER"))(w)
	})
}

type automationList struct{ remote }

func (c *automationList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, automationsPath, nil, func(w io.Writer, all *list[event.Automation]) {
		rows := make([][]string, 0, len(all.Items))
		for _, a := range all.Items {
			rows = append(rows, []string{a.Name, onOff(a.Enabled), since(&a.CreatedAt), a.ID})
		}
		table(w, []string{"NAME", "STATE", "CREATED", "ID"}, rows)
	})
}

func onOff(enabled bool) string {
	if enabled {
		return "enabled"
	}
	return "disabled"
}

type automationShow struct{ theAutomation }

func (c *automationShow) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var a event.Automation
	raw, err := server.read(ctx, c.path(), nil, &a)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.printJSON(raw)
	}
	var triggers list[triggerRow]
	var schedules list[scheduleRow]
	query := queryOf(given{"automation": a.ID})
	if _, err := server.read(ctx, triggersPath, query, &triggers); err != nil {
		return err
	}
	if _, err := server.read(ctx, schedulesPath, query, &schedules); err != nil {
		return err
	}
	said(fmt.Sprintf("automation %s (%s), %s", a.Name, a.ID, onOff(a.Enabled)))(std.Out)
	for line := range strings.Lines(a.Instructions) {
		said("    " + strings.TrimRight(line, "\r\n"))(std.Out)
	}
	for i := range triggers.Items {
		said("trigger " + triggers.Items[i].said())(std.Out)
		if at := triggers.Items[i].URL; at != "" {
			said("    at " + at)(std.Out)
		}
	}
	for i := range schedules.Items {
		said("schedule " + schedules.Items[i].said())(std.Out)
	}
	return nil
}

type automationUpdate struct {
	theAutomation
	instructions
	Rename string `placeholder:"NAME" help:"What to call it from now on."`
}

func (c *automationUpdate) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{}
	if c.Rename != "" {
		body["name"] = c.Rename
	}
	if err := c.into(body); err != nil {
		return err
	}
	if len(body) == 0 {
		return wrongUse("say what to change: --rename NAME, --instructions TEXT or --instructions-file FILE")
	}
	return c.change(ctx, std, body, "is changed")
}

// change changes the automation and says what is so now.
func (a *theAutomation) change(ctx context.Context, std *stdio, body map[string]any, done string) error {
	return alter(ctx, &a.remote, std, http.MethodPatch, a.path(), body, func(w io.Writer, now *event.Automation) {
		said("automation " + now.Name + " " + done)(w)
	})
}

type automationEnable struct{ theAutomation }

func (c *automationEnable) Run(ctx context.Context, std *stdio) error {
	return c.change(ctx, std, map[string]any{"enabled": true}, "is enabled")
}

type automationDisable struct{ theAutomation }

func (c *automationDisable) Run(ctx context.Context, std *stdio) error {
	return c.change(ctx, std, map[string]any{"enabled": false}, "is disabled: events are kept, and start nothing; runs that are queued wait until it is enabled")
}

type automationRemove struct{ theAutomation }

func (c *automationRemove) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	return c.remove(ctx, std, c.path(), "automation "+c.Automation+" is removed, with "+c.belongings(ctx, server))
}

// belongings are what goes with the automation, as far as it can be read.
func (a *theAutomation) belongings(ctx context.Context, server *client) string {
	var it event.Automation
	var triggers list[triggerRow]
	var schedules list[scheduleRow]
	var runs list[runRow]
	var modes list[modeRow]
	query := queryOf(given{"automation": a.Automation})
	_, _ = server.read(ctx, a.path(), nil, &it)
	_, _ = server.read(ctx, triggersPath, query, &triggers)
	_, _ = server.read(ctx, schedulesPath, query, &schedules)
	_, _ = server.read(ctx, "/api/v1/policy/modes", nil, &modes)
	query.Set("status", string(event.RunQueued))
	_, _ = server.read(ctx, runsPath, query, &runs)
	own := slices.DeleteFunc(modes.Items, func(m modeRow) bool { return it.ID == "" || m.Automation != it.ID })
	return fmt.Sprintf("%s, %s, %s and its bindings; %s will not begin (automation_deleted)",
		number(len(triggers.Items), "trigger"), number(len(schedules.Items), "schedule"), number(len(own), "mode"), number(runs.Total, "queued run"))
}
