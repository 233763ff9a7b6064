package api

import (
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
)

// NewAutomation is an automation to create.
type NewAutomation struct {
	Name         string `json:"name" minLength:"1" maxLength:"120" doc:"Unique in the organization." example:"nightly-triage" kong:"arg,help='Name of the automation.'"`
	Instructions string `json:"instructions,omitempty" maxLength:"65536" doc:"Instructions for the agent that works on its runs." kong:"-"`
	Enabled      *bool  `json:"enabled,omitempty" nullable:"false" doc:"Default true. A disabled automation keeps events and starts nothing." kong:"-"`
}

// AutomationChange changes an automation.
type AutomationChange struct {
	Name         *string `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"name='rename',placeholder='NAME',help='New name.'"`
	Instructions *string `json:"instructions,omitempty" maxLength:"65536" nullable:"false" kong:"-"`
	Enabled      *bool   `json:"enabled,omitempty" nullable:"false" kong:"-"`
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
