package api

import (
	"encoding/json"

	"sallyport/action"
)

// Routes.
var (
	PutCapability = Route[ByCapabilityWith[NewCapability], CapabilityView]{Operation{
		Method: "PUT", Path: "/api/v1/capabilities/{group}/{provider}", Who: Decider, Tag: "capabilities", Status: 200,
		Summary: "Set the capability of a group",
		Doc:     "Replaces the capability of the group at the provider. Repeating it changes nothing.",
	}}
	DeleteCapability = Route[ByCapability, None]{Operation{
		Method: "DELETE", Path: "/api/v1/capabilities/{group}/{provider}", Who: Decider, Tag: "capabilities",
		Summary: "Delete a capability",
		Doc:     "Takes effect at the next call.",
	}}
	ListCapabilities = Route[ListCapabilitiesInput, List[CapabilityView]]{Operation{
		Method: "GET", Path: "/api/v1/capabilities", Who: Member, Tag: "capabilities",
		Summary: "List capabilities",
	}}
	GetGroupCapabilities = Route[GetGroupCapabilitiesInput, action.Snapshot]{Operation{
		Method: "GET", Path: "/api/v1/capabilities/{group}", Who: Member, Tag: "capabilities",
		Summary: "Get the capabilities of a group",
		Doc:     "Includes every action, denied ones too, with the reason. An action without a tool reads resources (resources/read) or gets prompts (prompts/get) of a connector.",
	}}
	GetSessionCapabilities = Route[InSession, action.Snapshot]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/capabilities", Who: Audience, Tag: "actions",
		Summary: "Get the capabilities of the session",
		Doc:     "Includes every action, denied ones too, with the reason. An action without a tool reads resources (resources/read) or gets prompts (prompts/get) of a connector.",
	}}
	ListGates = Route[ListGatesInput, List[action.GateApproval]]{Operation{
		Method: "GET", Path: "/api/v1/gates", Who: Member, Tag: "capabilities",
		Summary: "List gate approvals, newest first",
	}}
	ApproveGate = Route[Body[NewGateApproval], action.GateApproval]{Operation{
		Method: "POST", Path: "/api/v1/gates", Who: Decider, Tag: "capabilities", Status: 201,
		Summary: "Approve a gate for a task",
		Doc:     "A level 3 capability requires it before a dangerous action of this group and task can run.",
	}}
	DeleteGate = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/gates/{id}", Who: Decider, Tag: "capabilities",
		Summary: "Delete a gate approval",
		Doc:     "Takes effect at the next call.",
	}}
)

// NewCapability is the capability of a group at a provider.
type NewCapability struct {
	Level          LevelName  `json:"level" kong:"-"`
	AllowedActions []string   `json:"allowed_actions,omitzero" maxItems:"1000" doc:"Only these actions; null or missing: all actions of the level. An empty list allows none." kong:"name='allow',placeholder='ACTION',help='Allow this action only; repeat for more (default: all actions of the level).'"`
	DeniedActions  []string   `json:"denied_actions,omitzero" maxItems:"1000" doc:"Always denied." kong:"name='deny',placeholder='ACTION',help='Deny this action; repeat for more.'"`
	Gate           string     `json:"required_gate,omitempty" maxLength:"200" doc:"Gate that must be approved for the task of the session before a level 3 action runs; required for that level." example:"deploy" kong:"placeholder='GATE',help='Gate that dangerous actions need; required for level production.'"`
	Rate           *GroupRate `json:"rate,omitempty" kong:"-"`
	Lifetime
}

// GroupRate is the rate of a whole group at a provider.
type GroupRate struct {
	_ struct{} `nullable:"true"`
	NewRate
}

// CapabilityView is one capability.
type CapabilityView struct {
	action.Capability
	Name    string `json:"name" doc:"Display name of the provider." example:"github"`
	Warning string `json:"warning,omitempty" doc:"Only in the response to a change: the gateway could not verify that the connector has the named actions."`
}

// ByCapability is the parameters of a route about one capability.
type ByCapability struct {
	Group    string `path:"group" maxLength:"200" example:"developer" kong:"arg,help='Group of sessions.'"`
	Provider string `path:"provider" maxLength:"200" doc:"ID of a source, or slug or name of a connector." example:"github" kong:"arg,help='Name, slug or ID of a connector, or a provider with an integration.'"`
}

// NewGateApproval approves a gate for a group's task.
type NewGateApproval struct {
	Gate    string   `json:"gate" minLength:"1" maxLength:"200" example:"deploy" kong:"arg,help='Gate named in a capability.'"`
	Group   string   `json:"group" minLength:"1" maxLength:"200" example:"developer" kong:"required,placeholder='G',help='Group of the sessions.'"`
	Task    string   `json:"task" minLength:"1" maxLength:"500" doc:"Task of the session, set at its creation." example:"T-42" kong:"required,placeholder='T',help='Task of the sessions, set when they were created.'"`
	Actions []string `json:"actions,omitzero" minItems:"1" maxItems:"1000" doc:"Policy keys, source:action or source:*; null or missing: every action behind the gate." kong:"name='action',placeholder='KEY',help='Approve only source:action or source:*; repeat for more (default: all actions behind the gate).'"`
	Lifetime
}

// LevelName is a level as a number or by its name.
type LevelName struct{ json.RawMessage }

// ListCapabilitiesInput is the input of [ListCapabilities].
type ListCapabilitiesInput struct {
	Group string `query:"group" doc:"Missing: all." kong:"help='Only for this group.'"`
}

// GetGroupCapabilitiesInput is the input of [GetGroupCapabilities].
type GetGroupCapabilitiesInput struct {
	Group string `path:"group" maxLength:"200" example:"developer" kong:"arg,help='Group of sessions.'"`
	Task  string `query:"task" maxLength:"500" doc:"Task whose gate approvals count; missing: none." kong:"help='Task of the session; gates are approved per task.'"`
}

// ListGatesInput is the input of [ListGates].
type ListGatesInput struct {
	Group string `query:"group" doc:"Missing: all." kong:"help='Only for this group.'"`
	Task  string `query:"task" doc:"Missing: all." kong:"help='Only for this task.'"`
}
