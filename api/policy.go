package api

import (
	"encoding/json"
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
	CreateGrant = Route[Body[NewGrant], GrantView]{Operation{
		Method: "POST", Path: "/api/v1/grants", Who: Decider, Tag: "grants", Status: 201, Errors: []int{409},
		Summary: "Create a grant",
		Doc:     "Matching calls run without approval. The grant applies to the current definition of the action: after a change, calls need approval again.",
	}}
	RevokeGrant = Route[ByID, GrantView]{Operation{
		Method: "DELETE", Path: "/api/v1/grants/{id}", Who: Decider, Tag: "grants", Status: 200,
		Summary: "Revoke a grant",
		Doc:     "Takes effect at the next call.",
	}}
	ListGrants = Route[ListGrantsInput, List[GrantView]]{Operation{
		Method: "GET", Path: "/api/v1/grants", Who: Member, Tag: "grants",
		Summary: "List grants, newest first",
	}}
	GetGrant = Route[ByID, GrantView]{Operation{
		Method: "GET", Path: "/api/v1/grants/{id}", Who: Member, Tag: "grants",
		Summary: "Get a grant",
	}}
	ListSessionGrants = Route[ListSessionGrantsInput, List[CoveringGrant]]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/grants", Who: Audience, Tag: "actions",
		Summary: "List the usable grants that apply to the session",
		Doc:     "A session sees its own grants in full; of the organization's grants it sees what they allow, the remaining calls, and the names of pinned params.",
	}}
	RequestGrant = Route[InSessionWith[NewRequest], RequestView]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/actions/grants", Who: Agent, Tag: "actions", Status: 202, Errors: []int{409, 429},
		Summary: "Request a grant",
		Doc:     "A person decides. Requests for actions that are denied (403, `denied`) or already allowed (409, `already_allowed`) are answered at once.",
	}}
	ListGrantRequests = Route[ListGrantRequestsInput, List[RequestView]]{Operation{
		Method: "GET", Path: "/api/v1/grant-requests", Who: Member, Tag: "grants",
		Summary: "List grant requests, newest first",
	}}
	GetGrantRequest = Route[ByID, RequestView]{Operation{
		Method: "GET", Path: "/api/v1/grant-requests/{id}", Who: Member, Tag: "grants",
		Summary: "Get a grant request",
	}}
	ApproveGrantRequest = Route[ByIDWith[*Narrowing], RequestOutcome]{Operation{
		Method: "POST", Path: "/api/v1/grant-requests/{id}/approve", Who: Decider, Tag: "grants", Status: 200, Errors: []int{409, 410},
		Summary: "Approve a grant request, as requested or narrower",
	}}
	DenyGrantRequest = Route[ByIDWith[*Refusal], RequestOutcome]{Operation{
		Method: "POST", Path: "/api/v1/grant-requests/{id}/deny", Who: Decider, Tag: "grants", Status: 200, Errors: []int{409, 410},
		Summary: "Deny a grant request",
	}}
	PutCapability = Route[ByCapabilityWith[NewCapability], CapabilityView]{Operation{
		Method: "PUT", Path: "/api/v1/capabilities/{group}/{provider}", Who: Decider, Tag: "capabilities", Status: 200,
		Summary: "Set the capability of a group",
		Doc:     "Replaces the capability of the group at the provider. Repeating it changes nothing.",
	}}
	DeleteCapability = Route[ByCapability, None]{Operation{
		Method: "DELETE", Path: "/api/v1/capabilities/{group}/{provider}", Who: Decider, Tag: "capabilities", Errors: []int{409},
		Summary: "Delete a capability",
		Doc:     "Takes effect at the next call. The only capability of the default group cannot be deleted (409).",
	}}
	ListCapabilities = Route[ListCapabilitiesInput, List[CapabilityView]]{Operation{
		Method: "GET", Path: "/api/v1/capabilities", Who: Member, Tag: "capabilities",
		Summary: "List capabilities",
	}}
	GetGroupCapabilities = Route[GetGroupCapabilitiesInput, action.Snapshot]{Operation{
		Method: "GET", Path: "/api/v1/capabilities/{group}", Who: Member, Tag: "capabilities",
		Summary: "Get the capabilities of a group",
		Doc:     "Includes every action, denied ones too, with the reason; a page has at most limit actions. An action without a tool reads resources (resources/read) or gets prompts (prompts/get) of a connector.",
	}}
	GetSessionCapabilities = Route[GetSessionCapabilitiesInput, action.Snapshot]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/capabilities", Who: Audience, Tag: "actions",
		Summary: "Get the capabilities of the session",
		Doc:     "Includes every action, denied ones too, with the reason; a page has at most limit actions. An action without a tool reads resources (resources/read) or gets prompts (prompts/get) of a connector.",
	}}
	ListGroupTemplates = Route[None, List[action.GroupTemplate]]{Operation{
		Method: "GET", Path: "/api/v1/group-templates", Who: Member, Tag: "capabilities",
		Summary: "List the templates of groups",
	}}
	CreateGroup = Route[Body[NewGroup], List[CapabilityView]]{Operation{
		Method: "POST", Path: "/api/v1/groups", Who: Decider, Tag: "capabilities", Status: 201, Errors: []int{409},
		Summary: "Create a group from a template",
		Doc:     "Sets the capabilities that the template proposes, all or none, and returns them. You can change each of them afterwards. Refused for a group that already has a capability.",
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

// NewMode is the mode of a policy key.
type NewMode struct {
	Mode       action.Mode `json:"mode" enum:"allow,deny,require_approval" example:"require_approval" kong:"arg,enum='allow,deny,require_approval',help='Mode: allow, deny or require_approval (or ask).'"`
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
	Session    string `query:"session" doc:"ID of a session. Missing: a new session with the following properties." kong:"placeholder='ID',help='Session of the call.'"`
	Group      string `query:"group" maxLength:"200" doc:"Missing: that of the automation, or the default group." kong:"-"`
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
	SelfApproval     *bool   `json:"self_approval,omitempty" nullable:"false" doc:"Creators of sessions can approve their calls and create grants for them." kong:"help='Let people approve calls of sessions that they created; --self-approval=false to forbid.'"`
	DenialLimit      *int    `json:"denial_limit,omitempty" minimum:"0" maximum:"1000" nullable:"false" doc:"After this many denials of an action in a session it is denied there; 0: never." example:"3" kong:"placeholder='N',help='Denials of one action after which it is denied for the rest of the session; 0 to disable.'"`
	DefaultGroup     *string `json:"default_group,omitempty" maxLength:"200" nullable:"false" doc:"Group of sessions that are created without one; it needs a capability. Empty: none. Existing sessions keep theirs." example:"contributor" kong:"placeholder='GROUP',help='Group of sessions that are created without one; empty for none.'"`
	UnverifiedEvents *bool   `json:"unverified_events,omitempty" nullable:"false" doc:"Unverified events from a broker start runs." kong:"help='Let unverified events from a broker start runs; --unverified-events=false to forbid.'"`
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
	Kind    string `query:"kind" enum:"mode,capability,gate,grant,grant_request,env_request,quota,settings,review,connector,integration,provider_app,connections,master_key,automation,trigger,schedule,run_endpoint,run,delivery,person,notify,workspace,repository,variable" kong:"enum='${event_kinds},',default='',help='Filter by kind of change: ${event_kinds}.'"`
	Subject string `query:"subject" doc:"What changed, by type of event." kong:"help='Filter by key, by group and provider, or by ID, as --json prints them.'"`
	By      string `query:"by" doc:"ID of the author." kong:"-"`
	From    string `query:"from" doc:"Start time or day." example:"2026-01-02T15:04:05Z" kong:"-"`
	To      string `query:"to" doc:"End time or day." example:"2026-02-01" kong:"-"`
}

// NewTerms are the terms of a grant to create.
type NewTerms struct {
	Scope    ScopeName                  `json:"scope,omitempty" enum:"session,organization,org" doc:"Default session." example:"session" kong:"-"`
	Source   string                     `json:"source,omitempty" maxLength:"200" doc:"ID of a source, or slug or name of a connector." example:"github" kong:"env='-',help='Limit --any to this source.'"`
	Action   string                     `json:"action,omitempty" maxLength:"200" doc:"Exact name." example:"create_issue" kong:"-"`
	Any      bool                       `json:"any,omitempty" doc:"Instead of action: any action of the source, or of all sources, that is not dangerous." kong:"env='-',help='Cover every action that is not dangerous, instead of one.'"`
	Pins     map[string]json.RawMessage `json:"pins,omitempty" doc:"Params that must have exactly these values, by JSON Pointer." kong:"-"`
	MaxCalls *int64                     `json:"max_calls,omitempty" minimum:"1" doc:"Maximum number of calls; missing: unlimited." example:"5" kong:"-"`
	Lifetime
}

// NewGrant is a grant to create.
type NewGrant struct {
	Session    string `json:"session_id,omitempty" maxLength:"200" doc:"Required for scope session." kong:"name='session',env='-',placeholder='ID',help='Only for this session (default: all sessions of the organization).'"`
	Unreviewed bool   `json:"unreviewed,omitempty" doc:"Grant even if the tool changed since its review; otherwise such a grant is refused." kong:"env='-',help='Grant even if the tool changed since its review.'"`
	NewTerms
}

// GrantView is one grant.
type GrantView struct {
	action.Grant
	Name string `json:"name,omitempty" doc:"Display name of the source." example:"github"`
}

// CoveringGrant is a grant that covers a session. The session's own token
// sees less of the organization's grants.
type CoveringGrant struct {
	GrantView
	// These fields shadow those of the grant, to leave out what other people
	// or sessions did.
	UsedCalls *int64     `json:"used_calls,omitempty"`
	CreatedBy string     `json:"created_by,omitempty"`
	CreatedAt *time.Time `json:"created_at,omitempty"`
	CallsLeft *int64     `json:"calls_left,omitempty" doc:"Missing: unlimited."`
	Pinned    []string   `json:"pinned,omitempty" nullable:"false" doc:"Params with pinned values that are not shown here, as JSON Pointers." example:"[\"/channel\"]"`
}

// ScopeName is a scope in its long or short form.
type ScopeName string

// NewRequest is an agent's grant request.
type NewRequest struct {
	Scope     ScopeName                  `json:"scope,omitempty" enum:"session,organization,org" doc:"Default session." example:"session" kong:"env='-',enum='session,org,organization',default='session',help='Scope: session, or org for all sessions (default: session).'"`
	Source    string                     `json:"source,omitempty" maxLength:"200" example:"github" kong:"arg,optional,help='ID or name of the source.'"`
	Action    string                     `json:"action,omitempty" maxLength:"200" example:"create_issue" kong:"arg,optional,help='Name of the action; leave it out with --any.'"`
	Any       bool                       `json:"any,omitempty" doc:"Every action that is not dangerous, of the source or of all." kong:"env='-',help='Request a grant for every action that is not dangerous: of SOURCE, or of all sources.'"`
	Pins      map[string]json.RawMessage `json:"pins,omitempty" doc:"Params that must have exactly these values, by JSON Pointer." kong:"-"`
	MaxCalls  *int64                     `json:"max_calls,omitempty" minimum:"1" example:"5" kong:"env='-',placeholder='N',help='Maximum number of calls (default: unlimited).'"`
	ExpiresIn string                     `json:"expires_in,omitempty" maxLength:"40" example:"8h" kong:"name='expires',type='span',env='-',placeholder='D',help='Lifetime of the grant, such as 8h or 7d (default: no expiry).'"`
	Reason    string                     `json:"reason,omitempty" maxLength:"1000" doc:"Reason, shown to the approver." example:"Filing the twelve bugs that the audit found." kong:"env='-',placeholder='TEXT',help='Reason, shown to the approver.'"`
}

// Narrowing narrows the terms of a request. Missing fields stay as requested;
// none may be wider.
type Narrowing struct {
	Scope    ScopeName                  `json:"scope,omitempty" enum:"session,organization,org" kong:"env='-',enum='session,org,organization,',default='',help='Scope: session or org (default: as requested).'"`
	MaxCalls *int64                     `json:"max_calls,omitempty" minimum:"1" kong:"-"`
	Pins     map[string]json.RawMessage `json:"pins,omitempty" doc:"In addition to the requested pins." kong:"-"`
	Lifetime
}

// RequestView is one request.
type RequestView struct {
	action.GrantRequest
	Name string `json:"name,omitempty" doc:"Display name of the source." example:"github"`
}

// RequestOutcome is a decided request with the created grant.
type RequestOutcome struct {
	Request RequestView `json:"request"`
	Grant   *GrantView  `json:"grant,omitempty"`
}

// Refusal is a person's denial of a request.
type Refusal struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Reason, shown to the agent." example:"Ask for one issue at a time." kong:"env='-',placeholder='TEXT',help='Reason, shown to the agent.'"`
}

// Lifetime is an expiry, as a time or duration. Without either: never, or 30
// days for a gate approval.
type Lifetime struct {
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"A future time; missing: never, or 30 days for a gate approval." kong:"-"`
	ExpiresIn string     `json:"expires_in,omitempty" maxLength:"40" doc:"Instead of expires_at: a duration from now, such as 24h." example:"24h" kong:"-"`
}

// ListGrantsInput is the input of [ListGrants].
type ListGrantsInput struct {
	Paging
	Session string            `query:"session" kong:"env='-',placeholder='ID',help='Only grants for this session.'"`
	Scope   action.GrantScope `query:"scope" enum:"session,organization" kong:"-"`
	Source  string            `query:"source" doc:"ID of a source, or slug or name of a connector." kong:"-"`
	Action  string            `query:"action" kong:"-"`
	Usable  bool              `query:"usable" doc:"Only usable grants: not revoked, expired or used up." kong:"env='-',help='Only usable grants: not revoked, expired or used up.'"`
}

// ListSessionGrantsInput is the input of [ListSessionGrants].
type ListSessionGrantsInput struct {
	InSession
	Paging
}

// ListGrantRequestsInput is the input of [ListGrantRequests].
type ListGrantRequestsInput struct {
	Paging
	Status  action.RequestStatus `query:"status" enum:"pending,approved,denied,expired" kong:"env='-',enum='pending,approved,denied,expired,all',default='pending',help='Filter by status: pending, approved, denied, expired or all (default: pending).'"`
	Session string               `query:"session" kong:"env='-',placeholder='ID',help='Only for this session.'"`
}

// NewCapability is the capability of a group at a provider.
type NewCapability struct {
	Level          LevelName  `json:"level" kong:"-"`
	AllowedActions []string   `json:"allowed_actions,omitzero" maxItems:"1000" doc:"Only these actions; null or missing: all actions of the level. An empty list allows none." kong:"name='allow',placeholder='ACTION',help='Allow this action only; repeat for more (default: all actions of the level).'"`
	DeniedActions  []string   `json:"denied_actions,omitzero" maxItems:"1000" doc:"Always denied." kong:"name='deny',placeholder='ACTION',help='Deny this action; repeat for more.'"`
	Gate           string     `json:"required_gate,omitempty" maxLength:"200" doc:"Gate that must be approved for the task of the session before a level 3 action runs; required for that level." example:"deploy" kong:"placeholder='GATE',help='Gate that dangerous actions need.'"`
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

// NewGroup is a group to create from a template.
type NewGroup struct {
	Group     string   `json:"group" minLength:"1" maxLength:"200" example:"developer" kong:"arg,help='Name of the group.'"`
	Template  string   `json:"template" minLength:"1" maxLength:"40" doc:"Name of a template." example:"contributor" kong:"required,placeholder='NAME',help='See sallyport group templates.'"`
	Providers []string `json:"providers,omitempty" maxItems:"200" nullable:"false" doc:"IDs of sources, or slugs or names of connectors; missing: every connector, and every provider with an integration." example:"github" kong:"name='provider',placeholder='REF',help='Connector or provider; repeat for more (default: all).'"`
	Gate      string   `json:"required_gate,omitempty" maxLength:"200" doc:"Gate of level 3; missing: that of the template." example:"deploy" kong:"placeholder='GATE',help='Gate that dangerous actions need.'"`
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
	Paging
}

// GetSessionCapabilitiesInput is the input of [GetSessionCapabilities].
type GetSessionCapabilitiesInput struct {
	InSession
	Paging
}

// ListGatesInput is the input of [ListGates].
type ListGatesInput struct {
	Group string `query:"group" doc:"Missing: all." kong:"help='Only for this group.'"`
	Task  string `query:"task" doc:"Missing: all." kong:"help='Only for this task.'"`
}
