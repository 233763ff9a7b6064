package main

import "io"

// clientCommands are the subcommands that work on a running server through
// its API. Each runs as Run(context.Context, *stdio) error, so whoever parses
// the command line binds those two.
type clientCommands struct {
	Session   sessionCommand   `cmd:"" help:"Mint, list and revoke the sessions of agents."`
	Secret    secretCommand    `cmd:"" help:"Set, list and delete the credentials that connectors use."`
	Connector connectorCommand `cmd:"" help:"Add, check and change remote MCP servers."`
	Policy    policyCommand    `cmd:"" help:"Say what is allowed, denied or held for approval."`
	Pending   pendingCommand   `cmd:"" help:"List the calls that wait for a decision."`
	Approve   approveCommand   `cmd:"" help:"Let a held call run."`
	Deny      denyCommand      `cmd:"" help:"Refuse a held call."`
	User      userCommand      `cmd:"" help:"Add, list and change the people of the organization."`
	APIKey    apiKeyCommand    `cmd:"" name:"api-key" help:"Create, list and revoke keys for programs."`
}

// stdio is where a command reads and writes.
type stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// remote are the flags that every client command has. The API key comes from
// the environment (SALLYPORT_API_KEY) or the data folder, and is no flag,
// because a command line can be read by every user of the machine.
type remote struct {
	Data string `placeholder:"DIR" type:"path" help:"Data folder of a server on this machine, in which it tells where to find it (default: ${data})."`
	URL  string `placeholder:"URL" help:"The server, instead of a data folder; needs SALLYPORT_API_KEY."`
	JSON bool   `help:"Print the server's JSON."`
}

// usageError is a command line that makes no sense although it parses. It
// ends the process with status 2, as one that does not parse.
type usageError struct{ error }

// Unwrap returns what is wrong.
func (e usageError) Unwrap() error { return e.error }
