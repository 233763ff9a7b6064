// Package cli implements the client commands. They call a running server
// through its HTTP API with package client. Commands for people find the server
// by its URL or its data folder; commands for agents act as the session of
// SALLYPORT_TOKEN.
package cli

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

// Commands are the client subcommands. Each has a method Run(context.Context,
// *command.Streams) error; the caller that parses the command line binds both
// arguments.
type Commands struct {
	Session     sessionCommand                                            `cmd:"" set:"thing=session" help:"Create, list, pause and end agent sessions."`
	Secret      secretCommand                                             `cmd:"" help:"Set, list and delete credentials of connectors."`
	Connector   connectorCommand                                          `cmd:"" help:"Add, test, review and change remote MCP servers."`
	Integration integrationCommand                                        `cmd:"" help:"Connect services and choose which sessions use them."`
	Policy      policyCommand                                             `cmd:"" help:"Set what is allowed, denied or needs approval."`
	Capability  capabilityCommand                                         `cmd:"" help:"Set how far the sessions of a group may go at a provider."`
	Group       groupCommand                                              `cmd:"" help:"Create groups of sessions from templates of capabilities."`
	Gate        gateCommand                                               `cmd:"" set:"thing=gate approval; see sallyport gate list" help:"Approve gates, which dangerous actions need."`
	Automation  automationCommand                                         `cmd:"" help:"Manage automations: work that agents do unattended."`
	Trigger     triggerCommand                                            `cmd:"" set:"thing=trigger" help:"Manage triggers, which start runs from events."`
	Schedule    scheduleCommand                                           `cmd:"" set:"thing=schedule" help:"Manage schedules, which start runs at set times."`
	Event       eventCommand                                              `cmd:"" set:"thing=event" help:"List events and the runs they started."`
	Delivery    deliveryCommand                                           `cmd:"" set:"thing=delivery" help:"List webhook deliveries and process them again."`
	Workspace   workspaceCommand                                          `cmd:"" help:"Manage workspaces: what agents work on, and what they need there."`
	Repository  repositoryCommand                                         `cmd:"" set:"thing=repository" help:"Manage repositories, which workspaces use."`
	Variable    variableCommand                                           `cmd:"" help:"Set variables, which sandboxes of workspaces get."`
	Run         runCommand                                                `cmd:"" set:"thing=run" help:"List, claim, finish and repeat runs of automations."`
	Pending     pendingCommand                                            `cmd:"" help:"List pending approvals and requests, and runs that need attention."`
	Calls       callsCommand                                              `cmd:"" help:"List calls of agents, newest first."`
	Show        request[api.ByID, api.InvocationView]                     `cmd:"" set:"thing=call" help:"Show a call, and what a push contains."`
	Approve     approveCommand                                            `cmd:"" set:"of_grant= of --grant" help:"Approve a pending call."`
	Deny        denyCommand                                               `cmd:"" help:"Deny a pending call."`
	Grant       grantCommand                                              `cmd:"" set:"thing=grant; see sallyport grant list" help:"Manage grants, which approve calls in advance."`
	Audit       auditCommand                                              `cmd:"" help:"Verify and export the audit log."`
	Verify      verifyCommand                                             `cmd:"" help:"For agents: upload files as evidence of the work. Needs SALLYPORT_TOKEN."`
	Env         envCommand                                                `cmd:"" set:"thing=request; see sallyport env requests" help:"Answer requests for environment variables; for agents: fetch the values and write env files."`
	Notify      notifyCommand                                             `cmd:"" help:"Notify approvers by webhook or in Slack."`
	User        userCommand                                               `cmd:"" set:"thing=removed person" help:"Manage the people of the organization."`
	APIKey      apiKeyCommand                                             `cmd:"" set:"thing=key" name:"api-key" help:"Create, list and revoke API keys."`
	Actions     actionsCommand                                            `cmd:"" help:"For agents: list and run actions. Needs SALLYPORT_TOKEN."`
	Prompt      promptCommand                                             `cmd:"" help:"Print the system prompt of a session or session type."`
	Models      modelsCommand                                             `cmd:"" help:"Set providers, prices and limits of models, which sessions reach through the gateway."`
	Usage       request[api.ModelUsageInput, api.List[action.ModelUsage]] `cmd:"" help:"Show tokens and cost of models by session, automation, group, provider, model or day."`
	Client      clientCommand                                             `cmd:"" help:"Configure OpenCode, Claude Code, Codex and other MCP clients for the gateway."`
	Config      configCommand                                             `cmd:"" name:"opencode-config" hidden:"" help:"The former name of client config."`
}

// New returns the commands. Here are those that call one operation and print its
// answer; the others have Run methods of their own.
func New() *Commands {
	c := new(Commands)

	c.Session.List = listsNamed(api.ListSessions, actorLists(api.ListAutomations.Operation), "SESSION KIND TYPE TITLE BY CREATED STATUS EXPIRES INTEGRATIONS", sessionRow)
	c.Show = showsWith(api.GetInvocation, showCall)
	c.Session.Show = showsWith(api.GetSession, showSession)
	c.Session.Pause = shows(api.PauseSession, showSessionStatus)
	c.Session.Resume = shows(api.ResumeSession, showSessionStatus)
	c.Session.Stop = shows(api.StopSession, showSessionStatus)
	c.Session.Fail = shows(api.FailSession, showSessionStatus)
	c.Session.Revoke = says(api.RevokeSession, "session {id} is revoked")
	c.addWorkspaces()

	c.Secret.List = listsNamed(api.ListSecrets, actorLists(), "KEY HOST SET_BY SET", func(names labels, s *action.Secret) []string {
		return []string{s.Key, s.Host, names.name(s.UpdatedBy), relativeTime(&s.UpdatedAt)}
	})
	c.Secret.Delete = says(api.DeleteSecret, "secret {key} is deleted")
	c.Connector.List = shows(api.ListConnectors, table("NAME SLUG URL CREDENTIAL TOOLS STATE REVIEW ID", connectorRow))
	c.Connector.Presets = shows(api.ListPresets, showPresets)
	c.Integration.Providers = shows(api.ListProviders, table("PROVIDER SERVICE CONNECTED_WITH ACTIONS", providerRow))
	c.Integration.List = shows(api.ListIntegrations, table("NAME PROVIDER ACCOUNT KIND OWNER STATUS ID", integrationRow))
	c.Integration.App.List = shows(api.ListApps, table("PROVIDER CLIENT APP SECRETS URL KEYS SET", appRow))
	c.Integration.App.Delete = says(api.DeleteApp, "the registration at {provider} is deleted")

	c.Policy.Set = says(api.PutMode, "mode of {name} is now {mode}")
	c.Policy.Unset = says(api.DeleteMode, "mode of {key} is removed")
	c.Policy.Quota.Set = shows(api.PutQuota, showQuota)
	c.Policy.Quota.Unset = says(api.DeleteQuota, "quota of {key} per {per} is removed")
	c.Policy.Quota.List = listsNamed(api.ListQuotas, actorLists(), "KEY PER CALLS WINDOW SET_BY", quotaRow)
	c.Capability.List = listsNamed(api.ListCapabilities, actorLists(), capabilityColumns, capabilityRow)
	c.Group.Templates = lists(api.ListGroupTemplates, "TEMPLATE=name LEVEL=level GATE=required_gate ABOUT=about")
	c.Gate.List = listsNamed(api.ListGates, actorLists(api.ListConnectors.Operation), "GATE GROUP TASK ACTIONS STATE BY ID", gateRow)
	c.Gate.Remove = says(api.DeleteGate, "gate approval {id} is removed")
	c.Grant.List = listsNamed(api.ListGrants, actorLists(), "ID ALLOWS SCOPE USED STATE BY", grantRow)
	c.Grant.Remove = says(api.RevokeGrant, "grant {id} is revoked")
	c.Grant.Deny = shows(api.DenyGrantRequest, showDeniedRequest)
	c.Env.Refuse = shows(api.RefuseEnvRequest, showRefusedEnv)

	c.Automation.List = lists(api.ListAutomations, "NAME=name STATE=enabled CREATED=created_at ID=id")
	c.Schedule.Create = shows(api.CreateSchedule, showSchedule)
	c.Schedule.List = lists(api.ListSchedules, "AUTOMATION=automation_name CRON=cron_expression ZONE=timezone STATE=enabled NEXT=next_run_at NAME=name ID=id")
	c.Schedule.Show = shows(api.GetSchedule, showSchedule)
	c.Schedule.Remove = says(api.DeleteSchedule, "schedule {id} is removed")
	c.Trigger.List = lists(api.ListTriggers, "AUTOMATION=automation_name PROVIDER=provider TYPE=event_type KIND=trigger_type STATE=enabled LAST_EVENT=last_event_at NAME=name ID=id")
	c.Trigger.Show = showsWith(api.GetTrigger, showTrigger)
	c.Trigger.Remove = says(api.DeleteTrigger, "trigger {id} is removed")
	c.Trigger.Polls = shows(api.ListPollGroups, table("SERVICE INTEGRATION EVERY LAST NEXT FAILURES ERROR", pollRow))
	c.Event.Skip = says(api.SkipInboundEvent, "event {id} is skipped; its run will not start")
	c.Delivery.List = shows(api.ListDeliveries, table("WHEN PROVIDER EVENT ATTEMPT STATE ID", deliveryRow))
	c.Delivery.Show = showsWith(api.GetDelivery, showDelivery)
	c.Delivery.Redrive = says(api.RedriveDelivery, "delivery {id} will be processed again")

	c.Run.List = listsNamed(api.ListRuns, runActorLists(), "WHEN AUTOMATION BY EVENT STATE WORKER ID", runRow)
	c.Run.Show = showsWith(api.GetRun, showRun)
	c.Run.Renew = shows(api.RenewRun, showRunState)
	c.Run.Finish = shows(api.FinishRun, showRunState)
	c.Run.Cancel = shows(api.CancelRun, showRunState)
	c.Run.Resolve = shows(api.ResolveRun, showRunState)
	c.Run.Redrive = shows(api.RedriveRun, showRunState)
	c.Run.Endpoint.Remove = says(api.DeleteRunEndpoint, "the endpoint is removed; runs now wait for a worker")
	c.Run.Outbox.List = shows(api.ListOutbox, table("WHEN STATE ATTEMPT NEXT HTTP ERROR RUN ID", runDeliveryRow))
	c.Run.Outbox.Redrive = shows(api.RedriveRunDelivery, showRunState)

	c.Notify.Show = showsWith(api.ListNotify, showChannels)
	c.Notify.Log = shows(api.ListNotifications, table("CALL CHANNEL EVENT STATUS FAILURES CREATED", notificationRow))
	c.Notify.Remove = says(api.DeleteNotify, "notification channel {kind} is removed")
	c.User.Add = showsWith(api.CreateUser, showNewUser)
	c.User.List = lists(api.ListUsers, "NAME=name ROLE=role ADDED=created_at ID=id")
	c.User.Removed = lists(api.ListRemovedUsers, "NAME=name FROM=issuer REMOVED=removed_at ID=id")
	c.User.Readmit = says(api.ReadmitUser, "user {id} can sign in again")
	c.APIKey.List = shows(api.ListKeys, table("NAME ROLE OWNER CREATED STATE ID", apiKeyRow))
	c.addModels()
	c.APIKey.Revoke = says(api.RevokeKey, "key {id} is revoked")
	return c
}

// request is a command that calls one operation: its flags and arguments are
// those of the operation's input. New creates it with a route and a printer.
type request[In, Out any] struct {
	clientFlags
	In In `embed:""`

	operation api.Route[In, Out]
	show      func(context.Context, io.Writer, *request[In, Out], *Out)
}

func (r *request[In, Out]) route() api.Operation { return r.operation.Operation }

// Run calls the operation and prints the answer, with its warning if it has one.
func (r *request[In, Out]) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &r.clientFlags, std, r.operation, r.In, func(w io.Writer, out *Out) {
		std.Warn(fieldText(reflect.ValueOf(out).Elem(), "warning"))
		r.show(ctx, w, r, out)
	})
}

// shows returns a command that prints the answer with a function.
func shows[In, Out any](route api.Route[In, Out], show func(io.Writer, *Out)) request[In, Out] {
	return request[In, Out]{operation: route, show: func(_ context.Context, w io.Writer, _ *request[In, Out], out *Out) { show(w, out) }}
}

// showsWith is [shows] for a function that prints commands or names of other
// resources.
func showsWith[In, Out any](route api.Route[In, Out], show func(context.Context, io.Writer, *clientFlags, *Out)) request[In, Out] {
	return request[In, Out]{operation: route, show: func(ctx context.Context, w io.Writer, r *request[In, Out], out *Out) {
		show(ctx, w, &r.clientFlags, out)
	}}
}

// lists returns a command that prints a list as a table; see [columns].
func lists[In, T any](route api.Route[In, api.List[T]], layout string) request[In, api.List[T]] {
	return shows(route, columns[T](layout))
}

// listsNamed is [shows] for a table whose rows contain names of other resources,
// which it loads.
func listsNamed[In, T any](route api.Route[In, api.List[T]], named []api.Operation, heads string, row func(labels, *T) []string) request[In, api.List[T]] {
	return showsWith(route, func(ctx context.Context, w io.Writer, c *clientFlags, all *api.List[T]) {
		names := c.loadLabels(ctx, named...)
		table(heads, func(item *T) []string { return row(names, item) })(w, all)
	})
}

// says returns a command that prints lines. {name} in a line stands for a field
// of the answer, or else of the input, by its name in the API.
func says[In, Out any](route api.Route[In, Out], lines ...string) request[In, Out] {
	return request[In, Out]{operation: route, show: func(_ context.Context, w io.Writer, r *request[In, Out], out *Out) {
		field := regexp.MustCompile(`\{(\w+)\}`)
		for _, line := range lines {
			printLine(w, field.ReplaceAllStringFunc(line, func(name string) string {
				name = strings.Trim(name, "{}")
				if text := fieldText(reflect.ValueOf(out).Elem(), name); text != "" {
					return text
				}
				return fieldText(reflect.ValueOf(&r.In).Elem(), name)
			}))
		}
	}}
}

// fieldText formats the field of a struct with a name in the API. It is empty if
// there is none.
func fieldText(v reflect.Value, name string) string {
	if v.Kind() != reflect.Struct {
		return ""
	}
	field := findField(v.Type(), name)
	if field == nil {
		return ""
	}
	return fmt.Sprint(v.FieldByIndex(field).Interface())
}
