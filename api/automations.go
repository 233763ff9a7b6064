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
		Summary: "Make an automation",
		Doc:     "Triggers and schedules start its runs. What these may do is policy: overrides of the automation, and the integrations that it is bound to.",
	}}
	GetAutomation = Route[ByAutomation, event.Automation]{Operation{
		Method: "GET", Path: "/api/v1/automations/{automation}", Who: Member, Tag: "automations",
		Summary: "Read an automation",
	}}
	UpdateAutomation = Route[ByAutomationWith[AutomationChange], event.Automation]{Operation{
		Method: "PATCH", Path: "/api/v1/automations/{automation}", Who: Decider, Tag: "automations", Errors: []int{409},
		Summary: "Change an automation",
		Doc:     "Fields that are absent stay.",
	}}
	DeleteAutomation = Route[ByAutomation, None]{Operation{
		Method: "DELETE", Path: "/api/v1/automations/{automation}", Who: Decider, Tag: "automations", Errors: []int{409},
		Summary: "Remove an automation",
		Doc:     "With its triggers, schedules, overrides and bindings, and the runs that nobody has yet. Refused while a run is worked on; what happened stays on record.",
	}}
	GetBindings = Route[ByAutomation, Bindings]{Operation{
		Method: "GET", Path: "/api/v1/automations/{automation}/connections", Who: Member, Tag: "integrations",
		Summary: "Say what an automation's sessions are bound to",
	}}
	PutBindings = Route[ByAutomationWith[NewBindings], Bindings]{Operation{
		Method: "PUT", Path: "/api/v1/automations/{automation}/connections", Who: Decider, Tag: "integrations", Status: 200,
		Summary: "Bind an automation's sessions to integrations",
		Doc:     "Replaces what it was bound to. Of sessions that are minted from now on without connections of their own.",
	}}
)

// NewAutomation is an automation as it is wished for.
type NewAutomation struct {
	Name         string `json:"name" minLength:"1" maxLength:"120" doc:"Of its own in the organization." example:"nightly-triage" kong:"arg,help='Name of the automation.'"`
	Instructions string `json:"instructions,omitempty" maxLength:"65536" doc:"For the agent that works on its runs." kong:"-"`
	Enabled      *bool  `json:"enabled,omitempty" nullable:"false" doc:"Default true. Events of a disabled one are kept, and start nothing." kong:"-"`
}

// AutomationChange is what may change of an automation.
type AutomationChange struct {
	Name         *string `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"name='rename',placeholder='NAME',help='New name.'"`
	Instructions *string `json:"instructions,omitempty" maxLength:"65536" nullable:"false" kong:"-"`
	Enabled      *bool   `json:"enabled,omitempty" nullable:"false" kong:"-"`
}

// Bindings are the integrations that an automation's sessions are bound to.
type Bindings struct {
	Automation  string   `json:"automation_id"`
	Connections []string `json:"connections" nullable:"false" doc:"Ids of integrations."`
}

// NewBindings replaces them.
type NewBindings struct {
	Connections []string `json:"connections" maxItems:"50" nullable:"false" doc:"Ids of integrations, or of providers of which there is one, or names of integrations; what two are called by is refused. Empty: none." kong:"arg,optional,name='ref',help='ID, name or provider of each integration; leave out for none.'"`
}

// ByAutomation is the parameter of a route about an automation.
type ByAutomation struct {
	Automation string `path:"automation" maxLength:"200" doc:"Id or name." example:"nightly-triage" kong:"arg,help='Name or ID of the automation.'"`
}
