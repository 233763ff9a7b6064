// Package cli implements the client commands. They call a running server
// through its HTTP API with package client. Commands for people find the server
// by its URL or its data folder; commands for agents act as the session of
// SALLYPORT_TOKEN.
package cli

// Commands are the client subcommands. Each has a method Run(context.Context,
// *command.Streams) error; the caller that parses the command line binds both
// arguments.
type Commands struct {
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
