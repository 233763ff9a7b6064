package api

import (
	"encoding/json"

	"sallyport/ingest/event"
)

// Routes.
var (
	ListTriggers = Route[OfAutomation, List[TriggerView]]{Operation{
		Method: "GET", Path: "/api/v1/triggers", Who: Member, Tag: "triggers",
		Summary: "List triggers",
	}}
	CreateTrigger = Route[Body[NewTrigger], MintedTrigger]{Operation{
		Method: "POST", Path: "/api/v1/triggers", Who: Decider, Tag: "triggers", Status: 201, Errors: []int{404, 409},
		Summary: "Make a trigger",
		Doc:     "Events of the provider that pass its filters start runs of the automation. Answers the URL and the secret to enter at the service.",
	}}
	ListPollGroups = Route[None, List[PollGroupView]]{Operation{
		Method: "GET", Path: "/api/v1/poll-groups", Who: Member, Tag: "triggers",
		Summary: "Say how polling goes",
		Doc:     "All polling triggers of one integration are one group, which is looked at as often as the most impatient of them asks.",
	}}
	GetTrigger = Route[ByID, TriggerView]{Operation{
		Method: "GET", Path: "/api/v1/triggers/{id}", Who: Member, Tag: "triggers",
		Summary: "Read a trigger",
	}}
	UpdateTrigger = Route[ByIDWith[TriggerChange], TriggerView]{Operation{
		Method: "PATCH", Path: "/api/v1/triggers/{id}", Who: Decider, Tag: "triggers", Errors: []int{409},
		Summary: "Change a trigger",
		Doc:     "Fields that are absent stay.",
	}}
	DeleteTrigger = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/triggers/{id}", Who: Decider, Tag: "triggers",
		Summary: "Remove a trigger",
		Doc:     "With its secrets. Its events and runs stay.",
	}}
	ListTriggerSecrets = Route[ByID, List[SigningSecret]]{Operation{
		Method: "GET", Path: "/api/v1/triggers/{id}/secrets", Who: Member, Tag: "triggers",
		Summary: "List the secrets of a trigger, without their values",
	}}
	RotateTrigger = Route[ByIDWith[*Rotation], MintedSecret]{Operation{
		Method: "POST", Path: "/api/v1/triggers/{id}/rotate", Who: Decider, Tag: "triggers", Status: 200, Errors: []int{409},
		Summary: "Replace the secret of a trigger",
		Doc:     "Those before stay good for a while, in which the service gets the new one.",
	}}
	ListEventProviders = Route[None, List[EventProvider]]{Operation{
		Method: "GET", Path: "/api/v1/providers", Who: Member, Tag: "triggers",
		Summary: "List the services whose events can start runs",
	}}
	GetEventProvider = Route[GetEventProviderInput, EventProvider]{Operation{
		Method: "GET", Path: "/api/v1/providers/{id}", Who: Member, Tag: "triggers",
		Summary: "Read what a service tells of",
	}}
)

// NewTrigger is a rule by which events start runs, as it is wished for.
type NewTrigger struct {
	Automation  string            `json:"automation" minLength:"1" maxLength:"200" doc:"Id or name." example:"nightly-triage" kong:"arg,help='Name or ID of the automation.'"`
	Provider    string            `json:"provider" minLength:"1" maxLength:"40" doc:"Id of a provider." example:"github" kong:"arg,help='Provider of the events; see trigger providers.'"`
	Type        string            `json:"event_type,omitempty" maxLength:"80" doc:"Of the provider's types; may be absent where there is one." example:"issue" kong:"arg,optional,help='Event type; optional if the provider has only one.'"`
	Kind        event.TriggerKind `json:"trigger_type,omitempty" enum:"webhook,polling" doc:"Absent: webhook where the provider posts its events and interval_seconds is absent." kong:"enum='webhook,polling,',default='',help='Kind: webhook or polling (default: webhook, or polling if --poll is set or the provider has no webhooks).'"`
	Name        string            `json:"name,omitempty" maxLength:"120" doc:"Absent: made of provider and type." kong:"help='Name of the trigger (default: provider and type).'"`
	Config      json.RawMessage   `json:"config,omitempty" doc:"Filters; an object that fits the type's config_schema. Absent: every event of the type." kong:"env='-',placeholder='JSON',help='Filters as a JSON object; see trigger providers PROVIDER.'"`
	Integration string            `json:"integration_id,omitempty" maxLength:"200" doc:"Whose events are meant, and whose credential polls and completes them: id, name, or id of a provider of which there is one. Absent: any of the organization's, and none polls." kong:"placeholder='REF',help='Integration whose events count and whose credential is used, by ID, name or provider.'"`
	PollSeconds int               `json:"interval_seconds,omitempty" minimum:"30" maximum:"86400" doc:"The least time between two looks; default 300." kong:"name='poll',type='seconds',placeholder='D',help='Polling interval, 30s to 24h (default: 5m with --kind polling).'"`
	Enabled     *bool             `json:"enabled,omitempty" nullable:"false" doc:"Default true." kong:"-"`
	Secret      string            `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"Of a webhook whose secret the service makes (gives_secret); it may be given later, by rotate. Absent otherwise: one is made and answered." kong:"-"`
}

// TriggerChange is what may change of a trigger.
type TriggerChange struct {
	Name        *string         `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"name='rename',placeholder='NAME',help='New name.'"`
	Config      json.RawMessage `json:"config,omitempty" doc:"Replaces all of it, but for verification, which stays where it is absent." kong:"env='-',placeholder='JSON',help='Filters as a JSON object; see trigger providers PROVIDER.'"`
	Integration *string         `json:"integration_id,omitempty" maxLength:"200" nullable:"false" doc:"Empty: any of the organization's; of a webhook alone." kong:"placeholder='REF',help='Integration whose events count and whose credential is used, by ID, name or provider.'"`
	PollSeconds *int            `json:"interval_seconds,omitempty" minimum:"30" maximum:"86400" nullable:"false" kong:"name='poll',type='seconds',placeholder='D',help='Polling interval, 30s to 24h (default: 5m with --kind polling).'"`
	Enabled     *bool           `json:"enabled,omitempty" nullable:"false" kong:"-"`
}

// MintedTrigger is a new trigger, with its secret.
type MintedTrigger struct {
	TriggerView
	Secret string `json:"secret,omitempty" doc:"Shown once, to be entered at the service; absent where it was sent, or nothing is posted." example:"9f86d081884c7d65…"`
}

// OfAutomation is the query of a list of what an automation has.
type OfAutomation struct {
	Automation string `query:"automation" maxLength:"200" doc:"Id or name; absent: of all." kong:"placeholder='REF',help='Only for this automation.'"`
}

// EventProvider is a service, or a kind of sender, whose events can start runs.
type EventProvider struct {
	ID       string      `json:"id" example:"github"`
	Title    string      `json:"title" example:"GitHub"`
	Webhook  bool        `json:"webhook" doc:"Whether it posts its events."`
	Polling  bool        `json:"polling" doc:"Whether the gateway can look for events by itself; that needs an integration."`
	Secret   string      `json:"secret,omitempty" doc:"Whose the secret of a webhook is. Markdown."`
	Gives    bool        `json:"gives_secret" doc:"Whether the service makes that secret: a trigger of a webhook needs it."`
	URL      string      `json:"url,omitempty" doc:"The URL for events of all triggers, where the operator set a secret for it."`
	Types    []EventType `json:"types"`
	Endpoint string      `json:"endpoint" doc:"The path of a trigger's own URL, with {trigger} or {automation} in it." example:"/webhooks/direct/github/{trigger}"`

	// CheckConfig tells whether a trigger's config fits the type's schema;
	// ErrInvalid with a field below /config.
	CheckConfig func(typ string, config json.RawMessage) error `json:"-"`
}

// EventType is one kind of event.
type EventType struct {
	ID          string          `json:"id" example:"issue"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Config      json.RawMessage `json:"config_schema" doc:"JSON Schema of a trigger's config."`
}

// TriggerView is a trigger with what can be said of it now.
type TriggerView struct {
	event.Trigger
	Config          json.RawMessage `json:"config" doc:"Filters; an object that fits the type's config_schema."`
	Title           string          `json:"provider_title" example:"GitHub"`
	AutomationName  string          `json:"automation_name" example:"nightly-triage"`
	IntegrationName string          `json:"integration_name,omitempty"`
	URL             string          `json:"url,omitempty" doc:"Of its own, for the service to post to." example:"https://gate.example.com/webhooks/direct/github/0199a3c7-0000-7000-8000-000000000001"`
	SharedURL       string          `json:"provider_url,omitempty" doc:"For events of all triggers of the provider, where the operator set a secret for it."`
	Secrets         *int            `json:"secrets,omitempty" doc:"How many are good now; of a webhook that is read alone."`
	SecretNeeded    bool            `json:"secret_needed,omitempty" doc:"It has none, and refuses whatever comes until rotate gives it the one that the service made. Of a trigger that is read alone."`
}

// PollGroupView tells how polling of an integration goes.
type PollGroupView struct {
	event.PollGroup
	Title           string `json:"provider_title" example:"Linear"`
	IntegrationName string `json:"integration_name,omitempty"`
}

// GetEventProviderInput is the input of [GetEventProvider].
type GetEventProviderInput struct {
	ID string `path:"id" maxLength:"40" example:"github"`
}
