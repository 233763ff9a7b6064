package api

import (
	"encoding/json"
	"time"

	"sallyport/ingest/event"
)

// Routes.
var (
	ListAutomations = Route[None, List[event.Automation]]{Operation{
		Method: "GET", Path: "/api/v1/automations", Who: Member, Tag: "automations",
		Summary: "List automations",
	}}
	CreateAutomation = Route[Body[NewAutomation], event.Automation]{Operation{
		Method: "POST", Path: "/api/v1/automations", Who: Decider, Tag: "automations", Status: 201, Errors: []int{409},
		Summary: "Create an automation",
		Doc:     "Triggers and schedules start its runs. Policy decides what these can do: the modes of the automation, and its integrations.",
	}}
	GetAutomation = Route[ByAutomation, event.Automation]{Operation{
		Method: "GET", Path: "/api/v1/automations/{automation}", Who: Member, Tag: "automations",
		Summary: "Get an automation",
	}}
	UpdateAutomation = Route[ByAutomationWith[AutomationChange], event.Automation]{Operation{
		Method: "PATCH", Path: "/api/v1/automations/{automation}", Who: Decider, Tag: "automations", Errors: []int{409},
		Summary: "Change an automation",
		Doc:     "Missing fields stay unchanged.",
	}}
	DeleteAutomation = Route[ByAutomation, None]{Operation{
		Method: "DELETE", Path: "/api/v1/automations/{automation}", Who: Decider, Tag: "automations", Errors: []int{409},
		Summary: "Delete an automation",
		Doc:     "Also deletes its triggers, schedules, modes, bindings and queued runs. Refused while a worker has a run; the history stays.",
	}}
	GetBindings = Route[ByAutomation, Bindings]{Operation{
		Method: "GET", Path: "/api/v1/automations/{automation}/connections", Who: Member, Tag: "integrations",
		Summary: "List the integrations of an automation",
	}}
	PutBindings = Route[ByAutomationWith[NewBindings], Bindings]{Operation{
		Method: "PUT", Path: "/api/v1/automations/{automation}/connections", Who: Decider, Tag: "integrations", Status: 200,
		Summary: "Set the integrations of an automation",
		Doc:     "Replaces all of them. Applies to sessions created later without connections of their own.",
	}}
	ListTriggers = Route[OfAutomation, List[TriggerView]]{Operation{
		Method: "GET", Path: "/api/v1/triggers", Who: Member, Tag: "triggers",
		Summary: "List triggers",
	}}
	CreateTrigger = Route[Body[NewTrigger], MintedTrigger]{Operation{
		Method: "POST", Path: "/api/v1/triggers", Who: Decider, Tag: "triggers", Status: 201, Errors: []int{404, 409},
		Summary: "Create a trigger",
		Doc:     "Events of the provider that match its filters start runs of the automation. Returns the URL and the secret to enter at the service.",
	}}
	ListPollGroups = Route[None, List[PollGroupView]]{Operation{
		Method: "GET", Path: "/api/v1/poll-groups", Who: Member, Tag: "triggers",
		Summary: "Get the status of polling",
		Doc:     "All polling triggers of one integration are one group, polled at the shortest interval of its triggers.",
	}}
	GetTrigger = Route[ByID, TriggerView]{Operation{
		Method: "GET", Path: "/api/v1/triggers/{id}", Who: Member, Tag: "triggers",
		Summary: "Get a trigger",
	}}
	UpdateTrigger = Route[ByIDWith[TriggerChange], TriggerView]{Operation{
		Method: "PATCH", Path: "/api/v1/triggers/{id}", Who: Decider, Tag: "triggers", Errors: []int{409},
		Summary: "Change a trigger",
		Doc:     "Missing fields stay unchanged.",
	}}
	DeleteTrigger = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/triggers/{id}", Who: Decider, Tag: "triggers",
		Summary: "Delete a trigger",
		Doc:     "Also deletes its secrets. Its events and runs stay.",
	}}
	ListTriggerSecrets = Route[ByID, List[SigningSecret]]{Operation{
		Method: "GET", Path: "/api/v1/triggers/{id}/secrets", Who: Member, Tag: "triggers",
		Summary: "List the secrets of a trigger without their values",
	}}
	RotateTrigger = Route[ByIDWith[*Rotation], MintedSecret]{Operation{
		Method: "POST", Path: "/api/v1/triggers/{id}/rotate", Who: Decider, Tag: "triggers", Status: 200, Errors: []int{409},
		Summary: "Replace the secret of a trigger",
		Doc:     "The previous secrets stay valid for a while, so that you can update the service.",
	}}
	ListEventProviders = Route[None, List[EventProvider]]{Operation{
		Method: "GET", Path: "/api/v1/providers", Who: Member, Tag: "triggers",
		Summary: "List providers of events",
	}}
	GetEventProvider = Route[GetEventProviderInput, EventProvider]{Operation{
		Method: "GET", Path: "/api/v1/providers/{id}", Who: Member, Tag: "triggers",
		Summary: "Get the event types of a provider",
	}}
	ListSchedules = Route[OfAutomation, List[ScheduleView]]{Operation{
		Method: "GET", Path: "/api/v1/schedules", Who: Member, Tag: "schedules",
		Summary: "List schedules",
	}}
	CreateSchedule = Route[Body[NewSchedule], ScheduleView]{Operation{
		Method: "POST", Path: "/api/v1/schedules", Who: Decider, Tag: "schedules", Status: 201, Errors: []int{404, 409},
		Summary: "Create a schedule",
		Doc:     "Each due time starts one run of the automation.",
	}}
	PreviewSchedule = Route[Body[CronTimes], DueTimes]{Operation{
		Method: "POST", Path: "/api/v1/schedules/preview", Who: Member, Tag: "schedules", Status: 200,
		Summary: "Preview a cron expression",
		Doc:     "Saves nothing.",
	}}
	GetSchedule = Route[ByID, ScheduleView]{Operation{
		Method: "GET", Path: "/api/v1/schedules/{id}", Who: Member, Tag: "schedules",
		Summary: "Get a schedule",
	}}
	UpdateSchedule = Route[ByIDWith[ScheduleChange], ScheduleView]{Operation{
		Method: "PATCH", Path: "/api/v1/schedules/{id}", Who: Decider, Tag: "schedules", Errors: []int{409},
		Summary: "Change a schedule",
		Doc:     "Missing fields stay unchanged.",
	}}
	DeleteSchedule = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/schedules/{id}", Who: Decider, Tag: "schedules",
		Summary: "Delete a schedule",
		Doc:     "Its events and runs stay.",
	}}
)

// NewAutomation is an automation to create.
type NewAutomation struct {
	Name         string `json:"name" minLength:"1" maxLength:"120" doc:"Unique in the organization." example:"nightly-triage" kong:"arg,help='Name of the automation.'"`
	Instructions string `json:"instructions,omitempty" maxLength:"65536" doc:"Instructions for the agent that works on its runs." kong:"-"`
	Group        string `json:"group,omitempty" maxLength:"200" doc:"Group whose capabilities limit its sessions; missing: the default group." example:"contributor" kong:"help='Group that limits its sessions; empty for the default group.'"`
	Enabled      *bool  `json:"enabled,omitempty" nullable:"false" doc:"Default true. A disabled automation keeps events and starts nothing." kong:"-"`
	RunSettingsChange
}

// RunSettingsChange changes what the runs of an automation work on, and what limits
// them. Empty and zero: none.
type RunSettingsChange struct {
	Workspace *string     `json:"workspace,omitempty" maxLength:"200" nullable:"false" doc:"Workspace of its runs, by ID or name; empty: none." example:"shop" kong:"placeholder='NAME',help='Workspace of its runs, by name or ID; empty for none.'"`
	Branch    *string     `json:"branch,omitempty" maxLength:"250" nullable:"false" doc:"Branch of the first repository." kong:"help='Branch of the first repository of the workspace.'"`
	Model     *string     `json:"model,omitempty" maxLength:"200" nullable:"false" doc:"Model of its runs; empty: that of the workspace." kong:"placeholder='ID',help='Model of its runs.'"`
	Provider  *string     `json:"provider,omitempty" maxLength:"40" nullable:"false" doc:"Provider of their sandboxes; empty: that of the workspace." kong:"help='Provider of the sandboxes of its runs.'"`
	TimeLimit *int        `json:"time_limit_seconds,omitempty" minimum:"0" maximum:"2592000" nullable:"false" doc:"Time that a run may take; 0: the gateway's." kong:"name='time-limit',type='seconds',placeholder='D',help='Time that a run may take, such as 2h; 0s for that of the gateway.'"`
	MaxTokens *int64      `json:"max_tokens,omitempty" minimum:"0" nullable:"false" doc:"Tokens of models that a run may use." kong:"placeholder='N',help='Tokens of models that a run may use; 0 for no limit.'"`
	MaxUSD    *float64    `json:"max_usd,omitempty" minimum:"0" maximum:"1000000" nullable:"false" doc:"Cost of models that a run may cause, in US dollars." kong:"name='max-usd',placeholder='USD',help='Cost of models that a run may cause, in US dollars; 0 for no limit.'"`
	MaxCalls  *int64      `json:"max_calls,omitempty" minimum:"0" nullable:"false" doc:"Calls of actions that a run may make." kong:"placeholder='N',help='Calls of actions that a run may make; 0 for no limit.'"`
	MaxRuns   *int        `json:"max_runs,omitempty" minimum:"0" maximum:"1000" nullable:"false" doc:"Runs at the same time." kong:"placeholder='N',help='Runs at the same time; 0 for any number.'"`
	EndsWhen  *event.Ends `json:"ends_when,omitempty" enum:"reported,idle" nullable:"false" doc:"What ends a run: its agent's report (default), or the end of the agent's turn." kong:"placeholder='END',help='What ends a run: reported (its agent reports the result) or idle (its agent has nothing more to do).'"`
	Tell      []string    `json:"tell,omitempty" maxItems:"20" nullable:"false" doc:"IDs of the people who are named when a run needs somebody; empty: all owners and admins." kong:"placeholder='USER',help='ID of a person who is named when a run needs somebody; repeat for more.'"`
}

// AutomationChange changes an automation.
type AutomationChange struct {
	Name         *string `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"name='rename',placeholder='NAME',help='New name.'"`
	Instructions *string `json:"instructions,omitempty" maxLength:"65536" nullable:"false" kong:"-"`
	Group        *string `json:"group,omitempty" maxLength:"200" nullable:"false" doc:"Group of its new sessions; empty: the default group." kong:"help='Group that limits its sessions; empty for the default group.'"`
	Enabled      *bool   `json:"enabled,omitempty" nullable:"false" kong:"-"`
	RunSettingsChange
}

// Bindings are the integrations of an automation's sessions.
type Bindings struct {
	Automation  string   `json:"automation_id"`
	Connections []string `json:"connections" nullable:"false" doc:"IDs of integrations."`
}

// NewBindings replaces the integrations of an automation.
type NewBindings struct {
	Connections []string `json:"connections" maxItems:"50" nullable:"false" doc:"IDs of integrations, providers with only one integration, or names; ambiguous references are refused. Empty: none." kong:"arg,optional,name='ref',help='ID, name or provider of each integration; leave out for none.'"`
}

// ByAutomation is the parameter of a route about an automation.
type ByAutomation struct {
	Automation string `path:"automation" maxLength:"200" doc:"ID or name." example:"nightly-triage" kong:"arg,help='Name or ID of the automation.'"`
}

// NewTrigger is a trigger to create.
type NewTrigger struct {
	Automation  string            `json:"automation" minLength:"1" maxLength:"200" doc:"ID or name." example:"nightly-triage" kong:"arg,help='Name or ID of the automation.'"`
	Provider    string            `json:"provider" minLength:"1" maxLength:"40" doc:"ID of a provider." example:"github" kong:"arg,help='Provider of the events; see trigger providers.'"`
	Type        string            `json:"event_type,omitempty" maxLength:"80" doc:"A type of the provider; optional if there is only one." example:"issue" kong:"arg,optional,help='Event type; optional if the provider has only one.'"`
	Kind        event.TriggerKind `json:"trigger_type,omitempty" enum:"webhook,polling" doc:"Missing: webhook, if the provider has webhooks and interval_seconds is missing." kong:"enum='webhook,polling,',default='',help='Kind: webhook or polling (default: webhook, or polling if --poll is set or the provider has no webhooks).'"`
	Name        string            `json:"name,omitempty" maxLength:"120" doc:"Missing: provider and type." kong:"help='Name of the trigger (default: provider and type).'"`
	Config      json.RawMessage   `json:"config,omitempty" doc:"Filters; an object that matches config_schema of the type. Missing: every event of the type." kong:"env='-',placeholder='JSON',help='Filters as a JSON object; see trigger providers PROVIDER.'"`
	Integration string            `json:"integration_id,omitempty" maxLength:"200" doc:"Integration whose events count, and whose credential polls and completes them: ID, name, or provider with only one integration. Missing: any of the organization's, without polling." kong:"placeholder='REF',help='Integration whose events count and whose credential is used, by ID, name or provider.'"`
	PollSeconds int               `json:"interval_seconds,omitempty" minimum:"30" maximum:"86400" doc:"Polling interval in seconds; default 300." kong:"name='poll',type='seconds',placeholder='D',help='Polling interval, 30s to 24h (default: 5m with --kind polling).'"`
	Enabled     *bool             `json:"enabled,omitempty" nullable:"false" doc:"Default true." kong:"-"`
	Secret      string            `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"Webhook secret issued by the service (gives_secret); you can set it later with rotate. Otherwise missing: one is generated and returned." kong:"-"`
}

// TriggerChange changes a trigger.
type TriggerChange struct {
	Name        *string         `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"name='rename',placeholder='NAME',help='New name.'"`
	Config      json.RawMessage `json:"config,omitempty" doc:"Replaces everything except verification, which stays if it is missing." kong:"env='-',placeholder='JSON',help='Filters as a JSON object; see trigger providers PROVIDER.'"`
	Integration *string         `json:"integration_id,omitempty" maxLength:"200" nullable:"false" doc:"Empty: any of the organization's; webhooks only." kong:"placeholder='REF',help='Integration whose events count and whose credential is used, by ID, name or provider.'"`
	PollSeconds *int            `json:"interval_seconds,omitempty" minimum:"30" maximum:"86400" nullable:"false" kong:"name='poll',type='seconds',placeholder='D',help='Polling interval, 30s to 24h (default: 5m with --kind polling).'"`
	Enabled     *bool           `json:"enabled,omitempty" nullable:"false" kong:"-"`
}

// MintedTrigger is a new trigger, with its secret.
type MintedTrigger struct {
	TriggerView
	Secret string `json:"secret,omitempty" doc:"Shown once, to enter at the service; missing if you sent it, or for polling." example:"9f86d081884c7d65…"`
}

// OfAutomation is the query of a list of what an automation has.
type OfAutomation struct {
	Automation string `query:"automation" maxLength:"200" doc:"ID or name; missing: all." kong:"placeholder='REF',help='Only for this automation.'"`
}

// EventProvider is a service, or a kind of sender, whose events can start runs.
type EventProvider struct {
	ID       string      `json:"id" example:"github"`
	Title    string      `json:"title" example:"GitHub"`
	Webhook  bool        `json:"webhook" doc:"Whether it has webhooks."`
	Polling  bool        `json:"polling" doc:"Whether it supports polling, which needs an integration."`
	Secret   string      `json:"secret,omitempty" doc:"How to get the webhook secret. Markdown."`
	Gives    bool        `json:"gives_secret" doc:"Whether the service issues the webhook secret, which the trigger then needs."`
	URL      string      `json:"url,omitempty" doc:"URL for events of all triggers, if the operator configured a secret for it."`
	Types    []EventType `json:"types"`
	Endpoint string      `json:"endpoint" doc:"Path of a trigger's own URL, with {trigger} or {automation} in it." example:"/webhooks/direct/github/{trigger}"`

	// CheckConfig validates a trigger's config against the type's schema. It
	// returns ErrInvalid with a field below /config.
	CheckConfig func(typ string, config json.RawMessage) error `json:"-"`
}

// EventType is one kind of event.
type EventType struct {
	ID          string          `json:"id" example:"issue"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Config      json.RawMessage `json:"config_schema" doc:"JSON Schema of the config of a trigger."`
}

// TriggerView is a trigger with its status.
type TriggerView struct {
	event.Trigger
	Config          json.RawMessage `json:"config" doc:"Filters; an object that matches config_schema of the type."`
	Title           string          `json:"provider_title" example:"GitHub"`
	AutomationName  string          `json:"automation_name" example:"nightly-triage"`
	IntegrationName string          `json:"integration_name,omitempty"`
	URL             string          `json:"url,omitempty" doc:"The trigger's own URL for the service." example:"https://gate.example.com/webhooks/direct/github/0199a3c7-0000-7000-8000-000000000001"`
	SharedURL       string          `json:"provider_url,omitempty" doc:"URL for events of all triggers of the provider, if the operator configured a secret for it."`
	Secrets         *int            `json:"secrets,omitempty" doc:"Number of valid secrets; only when you get a single webhook trigger."`
	SecretNeeded    bool            `json:"secret_needed,omitempty" doc:"It has no secret and refuses deliveries until rotate sets the one that the service issued. Only when you get a single trigger."`
}

// PollGroupView is the polling status of an integration.
type PollGroupView struct {
	event.PollGroup
	Title           string `json:"provider_title" example:"Linear"`
	IntegrationName string `json:"integration_name,omitempty"`
}

// GetEventProviderInput is the input of [GetEventProvider].
type GetEventProviderInput struct {
	ID string `path:"id" maxLength:"40" example:"github"`
}

// NewSchedule is a schedule to create.
type NewSchedule struct {
	Automation string       `json:"automation" minLength:"1" maxLength:"200" doc:"ID or name." example:"nightly-triage" kong:"arg,help='Name or ID of the automation.'"`
	Name       string       `json:"name,omitempty" maxLength:"120" doc:"Missing: the cron expression." kong:"help='Name of the schedule (default: the expression).'"`
	Missed     event.Missed `json:"missed,omitempty" enum:"once,skip" doc:"Runs for times missed during downtime: one run for all of them (default), or none." kong:"default='once',help='Runs for times missed during downtime: once (one run for all of them) or skip (default: once).'"`
	Enabled    *bool        `json:"enabled,omitempty" nullable:"false" doc:"Default true." kong:"-"`
	CronTimes
}

// CronTimes is a cron expression in a time zone.
type CronTimes struct {
	Cron     string `json:"cron_expression" minLength:"1" maxLength:"200" doc:"5 fields, or 6 with seconds first." example:"0 7 * * 1-5" kong:"arg,help='Cron expression in quotes: five fields, or six with seconds first.'"`
	TimeZone string `json:"timezone,omitempty" maxLength:"80" doc:"IANA time zone; default UTC." example:"Europe/Berlin" kong:"name='zone',placeholder='ZONE',help='IANA time zone, such as Europe/Berlin (default: UTC).'"`
}

// ScheduleChange changes a schedule.
type ScheduleChange struct {
	Name     *string       `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"name='rename',placeholder='NAME',help='New name.'"`
	Cron     *string       `json:"cron_expression,omitempty" minLength:"1" maxLength:"200" nullable:"false" kong:"placeholder='EXPRESSION',help='Cron expression in quotes: five fields, or six with seconds first.'"`
	TimeZone *string       `json:"timezone,omitempty" minLength:"1" maxLength:"80" nullable:"false" kong:"name='zone',placeholder='ZONE',help='IANA time zone, such as Europe/Berlin.'"`
	Missed   *event.Missed `json:"missed,omitempty" enum:"once,skip" nullable:"false" kong:"enum='',help='Runs for times missed during downtime: once or skip.'"`
	Enabled  *bool         `json:"enabled,omitempty" nullable:"false" kong:"-"`
}

// ScheduleView is a schedule with its next due times.
type ScheduleView struct {
	event.Schedule
	AutomationName string      `json:"automation_name" example:"nightly-triage"`
	Next           []time.Time `json:"next" nullable:"false" doc:"The next five times; none while it is disabled."`
}

// DueTimes are the next due times.
type DueTimes struct {
	Times []time.Time `json:"times" nullable:"false" doc:"The next five times."`
}
