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
	Session     sessionCommand     `cmd:"" help:"Mint, list, pause and end the sessions of agents."`
	Secret      secretCommand      `cmd:"" help:"Set, list and delete the credentials that connectors use."`
	Connector   connectorCommand   `cmd:"" help:"Add, check, review and change remote MCP servers."`
	Integration integrationCommand `cmd:"" help:"Connect services that the gateway speaks to by itself, and say who may use them."`
	Policy      policyCommand      `cmd:"" help:"Say what is allowed, denied or held for approval."`
	Capability  capabilityCommand  `cmd:"" help:"Say how far the sessions of a group may go at a provider."`
	Gate        gateCommand        `cmd:"" help:"Let a group's task through a gate to dangerous actions."`
	Automation  automationCommand  `cmd:"" help:"Say what agents do without a person beside them."`
	Trigger     triggerCommand     `cmd:"" help:"Have events of services start runs of automations."`
	Schedule    scheduleCommand    `cmd:"" help:"Start runs of automations at times."`
	Event       eventCommand       `cmd:"" help:"See which events came, and what they started."`
	Delivery    deliveryCommand    `cmd:"" help:"See what services posted, and work it off again."`
	Setup       setupCommand       `cmd:"" help:"See how workspaces are brought up, as setup sessions saved it."`
	Run         runCommand         `cmd:"" help:"See, work on and end the runs of automations."`
	Pending     pendingCommand     `cmd:"" help:"List the calls, and the requests for grants and variables, that wait for a person."`
	Calls       callsCommand       `cmd:"" help:"List the calls of agents, and what became of each, newest first."`
	Approve     approveCommand     `cmd:"" help:"Let a held call run."`
	Deny        denyCommand        `cmd:"" help:"Refuse a held call."`
	Grant       grantCommand       `cmd:"" help:"Approve calls ahead, and what agents ask for."`
	Audit       auditCommand       `cmd:"" help:"Check and export the evidence."`
	Verify      verifyCommand      `cmd:"" help:"An agent's own: send files as evidence of its work, with SALLYPORT_TOKEN."`
	Env         envCommand         `cmd:"" help:"Answer agents that ask for environment variables; in a sandbox, take what was given and write files of it."`
	Notify      notifyCommand      `cmd:"" help:"Tell approvers elsewhere that calls wait: by webhook and in Slack."`
	User        userCommand        `cmd:"" help:"Add, list and change the people of the organization."`
	APIKey      apiKeyCommand      `cmd:"" name:"api-key" help:"Create, list and revoke keys for programs."`
	Actions     actionsCommand     `cmd:"" help:"An agent's own: see and call what its session may, with SALLYPORT_TOKEN."`
	Prompt      promptCommand      `cmd:"" help:"Print the system prompt of a session, or of a type of session."`
	Models      modelsCommand      `cmd:"" help:"List models under their names: the gateway's, OpenCode's and the provider's."`
	Config      configCommand      `cmd:"" name:"opencode-config" help:"Print or merge the configuration with which OpenCode, Claude Code, Cursor or VS Code reaches the gateway."`
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
	Data string `placeholder:"DIR" type:"folder" help:"Data folder of a server on this machine, in which it tells where to find it (default: ${data})."`
	URL  string `placeholder:"URL" help:"The server, instead of a data folder; as a variable it goes before SALLYPORT_DATA, but not before --data. It needs SALLYPORT_API_KEY, or for what is an agent's own SALLYPORT_TOKEN."`
	JSON bool   `help:"Print the server's JSON."`

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
