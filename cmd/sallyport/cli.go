package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// clientCommands are the subcommands that work on a running server through
// its API. Each runs as Run(context.Context, *stdio) error, so whoever parses
// the command line binds those two.
type clientCommands struct {
	Session     sessionCommand     `cmd:"" help:"Create, list, pause and end agent sessions."`
	Secret      secretCommand      `cmd:"" help:"Set, list and delete credentials of connectors."`
	Connector   connectorCommand   `cmd:"" help:"Add, test, review and change remote MCP servers."`
	Integration integrationCommand `cmd:"" help:"Connect services and choose which sessions use them."`
	Policy      policyCommand      `cmd:"" help:"Set what is allowed, denied or needs approval."`
	Capability  capabilityCommand  `cmd:"" help:"Set how far the sessions of a group may go at a provider."`
	Gate        gateCommand        `cmd:"" help:"Approve gates, which dangerous actions need."`
	Automation  automationCommand  `cmd:"" help:"Manage automations: work that agents do unattended."`
	Trigger     triggerCommand     `cmd:"" help:"Manage triggers, which start runs from events."`
	Schedule    scheduleCommand    `cmd:"" help:"Manage schedules, which start runs at set times."`
	Event       eventCommand       `cmd:"" help:"List events and the runs they started."`
	Delivery    deliveryCommand    `cmd:"" help:"List webhook deliveries and process them again."`
	Setup       setupCommand       `cmd:"" help:"Show the workspace setups that setup sessions saved."`
	Run         runCommand         `cmd:"" help:"List, claim, finish and repeat runs of automations."`
	Pending     pendingCommand     `cmd:"" help:"List pending approvals and requests."`
	Calls       callsCommand       `cmd:"" help:"List calls of agents, newest first."`
	Approve     approveCommand     `cmd:"" help:"Approve a pending call."`
	Deny        denyCommand        `cmd:"" help:"Deny a pending call."`
	Grant       grantCommand       `cmd:"" help:"Manage grants, which approve calls in advance."`
	Audit       auditCommand       `cmd:"" help:"Verify and export the audit log."`
	Verify      verifyCommand      `cmd:"" help:"For agents: upload files as evidence of the work. Needs SALLYPORT_TOKEN."`
	Env         envCommand         `cmd:"" help:"Answer requests for environment variables; for agents: fetch the values and write env files."`
	Notify      notifyCommand      `cmd:"" help:"Notify approvers by webhook or in Slack."`
	User        userCommand        `cmd:"" help:"Manage the people of the organization."`
	APIKey      apiKeyCommand      `cmd:"" name:"api-key" help:"Create, list and revoke API keys."`
	Actions     actionsCommand     `cmd:"" help:"For agents: list and run actions. Needs SALLYPORT_TOKEN."`
	Prompt      promptCommand      `cmd:"" help:"Print the system prompt of a session or session type."`
	Models      modelsCommand      `cmd:"" help:"List models by their gateway, OpenCode and provider names."`
	Config      configCommand      `cmd:"" name:"opencode-config" help:"Configure OpenCode, Claude Code, Cursor or VS Code for the gateway."`
}

// stdio is where a command reads and writes.
type stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	notes []string // for Err, once the command did what it was to do
}

// warn notes what the server warned of, if anything.
func (s *stdio) warn(text string) {
	if text != "" {
		s.notes = append(s.notes, "warning: "+visible(text))
	}
}

// remote are the flags that every client command has. The API key comes from
// the environment (SALLYPORT_API_KEY) or the data folder, and is no flag,
// because a command line can be read by every user of the machine.
type remote struct {
	Data string `placeholder:"DIR" type:"folder" help:"Data folder of a gateway on this machine (default: ${data})."`
	URL  string `placeholder:"URL" help:"URL of the gateway; needs SALLYPORT_API_KEY, or SALLYPORT_TOKEN for commands of agents."`
	JSON bool   `help:"Print the JSON of the API."`

	fields map[string]string // of the API, as the command's flags; for errors
}

// AfterApply has a --data that was written go before a URL of the environment. That one
// goes before a folder of the environment: an agent's shell has both.
func (r *remote) AfterApply(ctx *kong.Context) error {
	written := func(name string) bool {
		return slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name })
	}
	switch data := written("data"); {
	case data && written("url"):
		return errors.New("--data and --url each name a server: leave out --url for the one of the data folder, or --data for the one at the URL")
	case data:
		r.URL = ""
	}
	r.fields = fieldsOf(ctx.Selected())
	return nil
}

// hint is a command to paste that finds the same server again.
func (r *remote) hint(words ...string) string {
	command := "sallyport"
	for _, w := range words {
		command += " " + word(w)
	}
	switch {
	case r.URL != "":
		command += " --url " + word(r.URL)
	case r.Data != "":
		command += " --data " + word(r.Data)
	}
	return command
}

// word quotes what a shell would not take as it is: names are chosen by others.
func word(text string) string {
	harmless := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:@%+=,", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !harmless(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// usageError is a command line that makes no sense although it parses. It
// ends the process with status 2, as one that does not parse.
type usageError struct{ error }

// Unwrap returns what is wrong.
func (e usageError) Unwrap() error { return e.error }

// wrongUse says what makes no sense and what to write instead.
func wrongUse(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}
