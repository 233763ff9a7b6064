package api

import (
	"time"

	"sallyport/action"
)

// Routes.
var (
	PutMode = Route[ByPolicyKeyWith[NewMode], ModeView]{Operation{
		Method: "PUT", Path: "/api/v1/policy/modes/{key}", Who: Decider, Tag: "policy", Status: 200,
		Summary: "Set a mode",
		Doc:     "The key is source:action, source:* or *. The source is an ID, or the slug or name of a connector, which is stored as its ID; module:ID names an integration if a connector has the same name. The action is the name at its server, not the tool name; an unknown one is refused, and a connector that has not been listed yet is listed. Escape / as %2F.",
	}}
	DeleteMode = Route[DeleteModeInput, None]{Operation{
		Method: "DELETE", Path: "/api/v1/policy/modes/{key}", Who: Decider, Tag: "policy",
		Summary: "Remove a mode",
	}}
	ListModes = Route[None, List[ModeView]]{Operation{
		Method: "GET", Path: "/api/v1/policy/modes", Who: Member, Tag: "policy",
		Summary: "List modes",
	}}
	ExplainPolicy = Route[Asked, Explanation]{Operation{
		Method: "GET", Path: "/api/v1/policy/explain", Who: Member, Tag: "policy", Errors: []int{404},
		Summary: "Explain how a call would be decided",
		Doc:     "Runs, counts and writes nothing. Without params, grants are not checked.",
	}}
	ListQuotas = Route[None, List[QuotaView]]{Operation{
		Method: "GET", Path: "/api/v1/policy/quotas", Who: Member, Tag: "policy",
		Summary: "List quotas",
	}}
	PutQuota = Route[ByPolicyKeyWith[NewQuota], QuotaView]{Operation{
		Method: "PUT", Path: "/api/v1/policy/quotas/{key}", Who: Decider, Tag: "policy", Status: 200,
		Summary: "Set a quota",
		Doc:     "The key is source:action, source:* or *. The source is an ID, or the slug or name of a connector, which is stored as its ID; module:ID names an integration if a connector has the same name. The action is the name at its server, not the tool name; an unknown one is refused, and a connector that has not been listed yet is listed. Escape / as %2F.",
	}}
	DeleteQuota = Route[DeleteQuotaInput, None]{Operation{
		Method: "DELETE", Path: "/api/v1/policy/quotas/{key}", Who: Decider, Tag: "policy",
		Summary: "Remove a quota",
	}}
	GetSettings = Route[None, action.Settings]{Operation{
		Method: "GET", Path: "/api/v1/policy/settings", Who: Member, Tag: "policy",
		Summary: "Get the settings of the organization",
	}}
	UpdateSettings = Route[Body[SettingsChange], action.Settings]{Operation{
		Method: "PUT", Path: "/api/v1/policy/settings", Who: Decider, Tag: "policy", Status: 200,
		Summary: "Change the settings of the organization",
		Doc:     "Missing fields stay unchanged.",
	}}
	ListPolicyEvents = Route[ListPolicyEventsInput, List[action.PolicyEvent]]{Operation{
		Method: "GET", Path: "/api/v1/policy/events", Who: Member, Tag: "policy",
		Summary: "List policy changes, newest first",
	}}
)

// NewMode is the mode of a policy key.
type NewMode struct {
	Mode       action.Mode `json:"mode" enum:"allow,deny,require_approval" example:"require_approval" kong:"arg,enum='allow,deny,require_approval',help='Mode: allow, deny or require_approval.'"`
	Automation string      `json:"automation,omitempty" maxLength:"200" doc:"Only for sessions of this automation, by ID or name; missing: for the organization." kong:"placeholder='ID',help='Only for sessions of this automation.'"`
}

// ModeView is one override.
type ModeView struct {
	Key        string      `json:"key" doc:"As stored, with the source ID." example:"connector:0199a3c4-5d6e-7f80-9123-456789abcdef:create_issue"`
	Name       string      `json:"name" doc:"Display name." example:"github:create_issue"`
	Mode       action.Mode `json:"mode"`
	Automation string      `json:"automation_id,omitempty"`
	UpdatedBy  string      `json:"updated_by"`
	UpdatedAt  *time.Time  `json:"updated_at,omitempty" doc:"Missing in the response to a change: now."`
	Warning    string      `json:"warning,omitempty" doc:"Only in the response to a change: the gateway could not verify that the connector has the action; names the most similar one."`
}

// Explanation is a decision about a hypothetical call.
type Explanation struct {
	action.Decision
	Key       string      `json:"key"`
	Name      string      `json:"name"`
	Session   string      `json:"session_id" doc:"Empty: of no existing action."`
	Risk      action.Risk `json:"risk"`
	Available bool        `json:"listed" doc:"Agents see the action; denied actions are not listed."`
	Reason    string      `json:"reason" doc:"Explanation of the layer that decided."`
	Refused   string      `json:"refused,omitempty" doc:"Why a call that needs approval is refused at once: repeated, often or too_many_pending; missing: it becomes pending." example:"often"`
	Note      string      `json:"refused_note,omitempty" doc:"The same as a sentence."`
}

// Asked is the call to explain.
type Asked struct {
	Session    string `query:"session" doc:"ID of a session. Missing: a plain session, or one with the following properties." kong:"placeholder='ID',help='Session of the call.'"`
	Group      string `query:"group" maxLength:"200" kong:"-"`
	Task       string `query:"task" maxLength:"500" kong:"-"`
	Automation string `query:"automation" maxLength:"200" doc:"ID or name." kong:"-"`
	Action     string `query:"action" required:"true" doc:"A policy key of one action." example:"github:create_issue" kong:"-"`
	Params     string `query:"params" maxLength:"32768" doc:"A JSON object that matches the schema of the action." kong:"placeholder='JSON',help='Params of the call; without them grants are not checked.'"`
}

// ByPolicyKey is the parameter of a route about a policy key.
type ByPolicyKey struct {
	Key string `path:"key" maxLength:"300" example:"github:create_issue" kong:"arg,help='source:action, source:* or *; name a connector by name, slug or ID, an integration by its provider.'"`
}

// NewQuota is a quota for a policy key.
type NewQuota struct {
	Per action.QuotaScope `json:"per" enum:"session,group,creator,organization" doc:"Who is counted together." example:"session" kong:"required,enum='session,group,creator,organization',help='Count calls per session, group, creator or organization.'"`
	NewRate
}

// NewRate is a number of calls in a sliding window.
type NewRate struct {
	Calls   int `json:"calls" minimum:"1" maximum:"1000000000" example:"20" kong:"required,placeholder='N',help='Number of calls in the window.'"`
	Seconds int `json:"seconds" minimum:"1" maximum:"86400" doc:"Length of the window." example:"3600" kong:"name='window',type='window',required,placeholder='D',help='Length of the window, such as 1m or 24h.'"`
}

// QuotaView is one quota.
type QuotaView struct {
	Key       string            `json:"key" doc:"As stored, with the source ID."`
	Name      string            `json:"name" doc:"Display name." example:"github:create_issue"`
	Per       action.QuotaScope `json:"per"`
	Calls     int               `json:"calls"`
	Seconds   int               `json:"seconds"`
	UpdatedBy string            `json:"updated_by"`
	Warning   string            `json:"warning,omitempty" doc:"As in the response to setting a mode."`
}

// SettingsChange changes an organization's settings.
type SettingsChange struct {
	SelfApproval     *bool `json:"self_approval,omitempty" nullable:"false" doc:"Creators of sessions can approve their calls and create grants for them." kong:"help='Let people approve calls of sessions that they created; --self-approval=false to forbid.'"`
	DenialLimit      *int  `json:"denial_limit,omitempty" minimum:"0" maximum:"1000" nullable:"false" doc:"After this many denials of an action in a session it is denied there; 0: never." example:"3" kong:"placeholder='N',help='Denials of one action after which it is denied for the rest of the session; 0 to disable.'"`
	UnverifiedEvents *bool `json:"unverified_events,omitempty" nullable:"false" doc:"Unverified events from a broker start runs." kong:"help='Let unverified events from a broker start runs; --unverified-events=false to forbid.'"`
}

// DeleteModeInput is the input of [DeleteMode].
type DeleteModeInput struct {
	ByPolicyKey
	Automation string `query:"automation" maxLength:"200" doc:"ID or name." kong:"placeholder='ID',help='Only for sessions of this automation.'"`
}

// DeleteQuotaInput is the input of [DeleteQuota].
type DeleteQuotaInput struct {
	ByPolicyKey
	Per action.QuotaScope `query:"per" required:"true" enum:"session,group,creator,organization" kong:"required,enum='session,group,creator,organization',help='Count calls per session, group, creator or organization.'"`
}

// ListPolicyEventsInput is the input of [ListPolicyEvents].
type ListPolicyEventsInput struct {
	Paging
	Kind    string `query:"kind" enum:"mode,capability,gate,grant,grant_request,env_request,quota,settings,review,connector,integration,provider_app,connections,master_key,automation,trigger,schedule,run_endpoint,run,delivery,person,notify" kong:"enum='${event_kinds},',default='',help='Filter by kind of change: ${event_kinds}.'"`
	Subject string `query:"subject" doc:"What changed, by type of event." kong:"help='Filter by key, by group and provider, or by ID, as --json prints them.'"`
	By      string `query:"by" doc:"ID of the author." kong:"-"`
	From    string `query:"from" doc:"Start time or day." example:"2026-01-02T15:04:05Z" kong:"-"`
	To      string `query:"to" doc:"End time or day." example:"2026-02-01" kong:"-"`
}
