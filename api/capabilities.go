package api

import (
	"encoding/json"

	"sallyport/action"
)

// Routes.
var (
	PutCapability = Route[ByCapabilityWith[NewCapability], CapabilityView]{Operation{
		Method: "PUT", Path: "/api/v1/capabilities/{group}/{provider}", Who: Decider, Tag: "capabilities", Status: 200,
		Summary: "Give a group a capability",
		Doc:     "Replaces the one that the group has at the provider. The same again changes nothing.",
	}}
	DeleteCapability = Route[ByCapability, None]{Operation{
		Method: "DELETE", Path: "/api/v1/capabilities/{group}/{provider}", Who: Decider, Tag: "capabilities",
		Summary: "Revoke a capability",
		Doc:     "Effective for the next call.",
	}}
	ListCapabilities = Route[ListCapabilitiesInput, List[CapabilityView]]{Operation{
		Method: "GET", Path: "/api/v1/capabilities", Who: Member, Tag: "capabilities",
		Summary: "List capabilities",
	}}
	GetGroupCapabilities = Route[GetGroupCapabilitiesInput, action.Snapshot]{Operation{
		Method: "GET", Path: "/api/v1/capabilities/{group}", Who: Member, Tag: "capabilities",
		Summary: "Say what a group may do",
		Doc:     "With the whole catalog: every action, denied ones too, and why. One without a tool is how a connector's resources are read (resources/read) or its prompts gotten (prompts/get).",
	}}
	GetSessionCapabilities = Route[InSession, action.Snapshot]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/capabilities", Who: Audience, Tag: "actions",
		Summary: "Say what the session may do",
		Doc:     "With the whole catalog: every action, denied ones too, and why. One without a tool is how a connector's resources are read (resources/read) or its prompts gotten (prompts/get).",
	}}
	ListGates = Route[ListGatesInput, List[action.GateApproval]]{Operation{
		Method: "GET", Path: "/api/v1/gates", Who: Member, Tag: "capabilities",
		Summary: "List approvals of gates, newest first",
	}}
	ApproveGate = Route[Body[NewGateApproval], action.GateApproval]{Operation{
		Method: "POST", Path: "/api/v1/gates", Who: Decider, Tag: "capabilities", Status: 201,
		Summary: "Approve a gate for a task",
		Doc:     "What a capability of level 3 requires before a dangerous action of that group and task can run.",
	}}
	DeleteGate = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/gates/{id}", Who: Decider, Tag: "capabilities",
		Summary: "Revoke the approval of a gate",
		Doc:     "Effective for the next call.",
	}}
)

// NewCapability is how far a group's sessions may go at a provider.
type NewCapability struct {
	Level          LevelName  `json:"level" kong:"-"`
	AllowedActions []string   `json:"allowed_actions,omitzero" maxItems:"1000" doc:"The only ones; null or absent: all that the level reaches. An empty list allows none." kong:"name='allow',placeholder='ACTION',help='Allow this action only; repeat for more (default: all actions of the level).'"`
	DeniedActions  []string   `json:"denied_actions,omitzero" maxItems:"1000" doc:"Denied whatever else is said." kong:"name='deny',placeholder='ACTION',help='Deny this action; repeat for more.'"`
	Gate           string     `json:"required_gate,omitempty" maxLength:"200" doc:"Must be approved for the session's task before an action of level 3 runs; required with that level." example:"deploy" kong:"placeholder='GATE',help='Gate that dangerous actions need; required for level production.'"`
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
	Name    string `json:"name" doc:"Of the provider, as people write it." example:"github"`
	Warning string `json:"warning,omitempty" doc:"Only in the answer to a change: nobody could tell whether the connector has the actions that are named."`
}

// ByCapability is the parameters of a route about one capability.
type ByCapability struct {
	Group    string `path:"group" maxLength:"200" example:"developer" kong:"arg,help='Group of sessions.'"`
	Provider string `path:"provider" maxLength:"200" doc:"Id of a source, or slug or name of a connector." example:"github" kong:"arg,help='Name, slug or ID of a connector, or a provider with an integration.'"`
}

// NewGateApproval lets a group's task through a gate.
type NewGateApproval struct {
	Gate    string   `json:"gate" minLength:"1" maxLength:"200" example:"deploy" kong:"arg,help='Gate named in a capability.'"`
	Group   string   `json:"group" minLength:"1" maxLength:"200" example:"developer" kong:"required,placeholder='G',help='Group of the sessions.'"`
	Task    string   `json:"task" minLength:"1" maxLength:"500" doc:"The session's, as it was minted." example:"T-42" kong:"required,placeholder='T',help='Task of the sessions, set when they were created.'"`
	Actions []string `json:"actions,omitzero" minItems:"1" maxItems:"1000" doc:"Policy keys, each source:action or source:*; null or absent: every action behind the gate." kong:"name='action',placeholder='KEY',help='Approve only source:action or source:*; repeat for more (default: all actions behind the gate).'"`
	Lifetime
}

// LevelName is a level as a number or by its name.
type LevelName struct{ json.RawMessage }

// ListCapabilitiesInput is the input of [ListCapabilities].
type ListCapabilitiesInput struct {
	Group string `query:"group" doc:"Absent: all." kong:"help='Only for this group.'"`
}

// GetGroupCapabilitiesInput is the input of [GetGroupCapabilities].
type GetGroupCapabilitiesInput struct {
	Group string `path:"group" maxLength:"200" example:"developer" kong:"arg,help='Group of sessions.'"`
	Task  string `query:"task" maxLength:"500" doc:"Whose gate approvals count; absent: none do." kong:"help='Task of the session; gates are approved per task.'"`
}

// ListGatesInput is the input of [ListGates].
type ListGatesInput struct {
	Group string `query:"group" doc:"Absent: all." kong:"help='Only for this group.'"`
	Task  string `query:"task" doc:"Absent: all." kong:"help='Only for this task.'"`
}
