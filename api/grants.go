package api

import (
	"encoding/json"
	"time"

	"sallyport/action"
)

// Routes.
var (
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
)

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
	Source    string                     `json:"source,omitempty" maxLength:"200" example:"github" kong:"arg,help='ID or name of the source.'"`
	Action    string                     `json:"action,omitempty" maxLength:"200" example:"create_issue" kong:"arg,help='Name of the action.'"`
	Any       bool                       `json:"any,omitempty" kong:"-"`
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
