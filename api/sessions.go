package api

import (
	"encoding/json"
	"time"

	"sallyport/action"
)

// Routes.
var (
	UpdateSession = Route[ByIDWith[SessionChange], SessionView]{Operation{
		Method: "PATCH", Path: "/api/v1/sessions/{id}", Who: Member, Tag: "sessions", Errors: []int{404, 409},
		Summary: "Change a session",
		Doc:     "Changes the given fields. Members can rename sessions that they created.",
	}}
	PauseSession = Route[ByID, SessionView]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{id}/pause", Who: Decider, Tag: "sessions", Status: 200, Errors: []int{404, 409},
		Summary: "Pause a session",
		Doc:     "It starts no calls until it is resumed. Pending calls stay, can be joined and decided, and run when approved.",
	}}
	ResumeSession = Route[ByID, SessionView]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{id}/resume", Who: Decider, Tag: "sessions", Status: 200, Errors: []int{404, 409},
		Summary: "Resume a session",
		Doc:     "It starts calls again, and its idle time restarts.",
	}}
	StopSession = Route[ByIDWith[*SessionEnd], SessionView]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{id}/stop", Who: Decider, Tag: "sessions", Status: 200, Errors: []int{404, 409},
		Summary: "Stop a session",
		Doc:     "Final: its token stops working, and its pending calls are withdrawn. Its history stays.",
	}}
	FailSession = Route[ByIDWith[*SessionEnd], SessionView]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{id}/fail", Who: Decider, Tag: "sessions", Status: 200, Errors: []int{404, 409},
		Summary: "Mark a session as failed",
		Doc:     "Final: its token stops working, and its pending calls are withdrawn. Its history stays.",
	}}
	CreateSession = Route[CreateSessionInput, MintedSession]{Operation{
		Method: "POST", Path: "/api/v1/sessions", Who: Member, Tag: "sessions", Status: 201, Errors: []int{404, 409},
		Summary: "Create a session",
		Doc:     "Creates a session for one agent and returns its token. Members create plain sessions: no group, task, automation or event_id. A session without a group gets that of its automation, or else the default group of the organization. With an idempotency key, a repeat by the same person with the same request returns 200, the same session and its token; another request gets 409.",
	}}
	ListSessions = Route[ListSessionsInput, List[SessionView]]{Operation{
		Method: "GET", Path: "/api/v1/sessions", Who: Member, Tag: "sessions",
		Summary: "List sessions, newest first",
	}}
	GetSession = Route[ByID, SessionView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{id}", Who: Member, Tag: "sessions",
		Summary: "Get a session",
	}}
	RevokeSession = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/sessions/{id}", Who: Decider, Tag: "sessions",
		Summary: "Revoke a session",
		Doc:     "Stops it, whatever its status: its token stops working. Its history stays. Repeating it changes nothing.",
	}}
	GetGuide = Route[GetGuideInput, GuideView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/guide", Who: Audience, Tag: "actions",
		Summary: "Get the guide of the session",
		Doc:     "Generated from the current list of actions: what happens to a call of each action, its params as a table, and an example. The size is limited; the rest is listed, with how to get it.",
	}}
	GetSourceGuide = Route[GetSourceGuideInput, GuideView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/guide/{source}", Who: Audience, Tag: "actions",
		Summary: "Get the guide of a source",
		Doc:     "Generated from the current list of actions: what happens to a call of each action, its params as a table, and an example. The size is limited; the rest is listed, with how to get it.",
	}}
	GetPrompt = Route[GetPromptInput, PromptView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/prompt", Who: Audience, Tag: "actions",
		Summary: "Get the system prompt of the session",
		Doc:     "The prompt of its type, or its own prompt with the required instructions of the type. It names only tools of the session.",
	}}
)

// SessionView is a session with its idle timeout.
type SessionView struct {
	action.Session
	Idle string `json:"idle_timeout,omitempty" doc:"Idle time before it is stopped, or never; missing: the gateway's setting." example:"30m0s"`
	// Withdrew is set only in the response that ends the session.
	Withdrew int `json:"withdrawn_calls,omitempty" doc:"Only in the response that ends it: the withdrawn calls."`
}

// SessionChange changes a session.
type SessionChange struct {
	Title *string `json:"title,omitempty" maxLength:"200" example:"Fix the login page" kong:"arg,optional,help='New title.'"`
	Idle  *string `json:"idle_timeout,omitempty" maxLength:"40" doc:"Idle time before it is stopped, such as 30m, or never; empty: the gateway's setting. Owners and admins only." example:"30m" kong:"name='idle-timeout',placeholder='D',help='Idle time before the session is stopped, such as 30m, or never; empty for the gateway setting.'"`
}

// SessionEnd has the reason to end a session.
type SessionEnd struct {
	Note string `json:"note,omitempty" maxLength:"2000" doc:"Reason, for people." example:"The task was given up." kong:"help='Reason, shown to people.'"`
}

// NewSession is a session to create.
type NewSession struct {
	Kind       action.SessionKind `json:"kind,omitempty" enum:"interactive,unattended" doc:"Default interactive; an automation implies unattended." example:"interactive" kong:"enum='interactive,unattended,',default='',help='Kind: interactive or unattended (default: interactive).'"`
	Type       action.SessionType `json:"type,omitempty" enum:"coding,setup,automation" doc:"Default coding; automation with an automation." example:"coding" kong:"enum='coding,setup,automation,',default='',help='Type: coding, setup or automation (default: coding).'"`
	Group      string             `json:"group,omitempty" maxLength:"200" doc:"Owners and admins only. Missing: that of the automation, or the default group." kong:"help='Group that limits the session (default: the default group).'"`
	Task       string             `json:"task,omitempty" maxLength:"500" doc:"Owners and admins only. It cannot change." kong:"help='Task of the session; it cannot change later.'"`
	Automation string             `json:"automation,omitempty" maxLength:"200" doc:"ID or name. Owners and admins only." kong:"placeholder='ID',help='Automation of the session; implies unattended.'"`
	Event      string             `json:"event_id,omitempty" maxLength:"200" doc:"The event that starts it; owners and admins only. Organization-wide allow modes then do not apply to writes." kong:"-"`
	Title      string             `json:"title,omitempty" maxLength:"200" example:"Fix the login page" kong:"help='Title.'"`
	// Nil and empty differ; see [Server.connections].
	Connections []string `json:"connections,omitempty" maxItems:"50" nullable:"false" doc:"Integrations that its agent can use: IDs, providers with only one integration, unique names, or only \"all\" for all of the organization, now and later. Missing: none, or those of the automation." example:"linear" kong:"name='connect',sep='none',env='-',placeholder='REF',help='Integration the agent may use, by ID, name or provider, or all; repeat for more (default: none, or those bound to the automation).'"`
	TTL         string   `json:"ttl,omitempty" maxLength:"40" doc:"Lifetime, such as 8h or 90m; default 720h, at most 8760h." example:"8h" kong:"type='span',placeholder='D',help='Lifetime of the token, such as 8h or 90d (default: 30d).'"`

	Prompt string             `json:"prompt,omitempty" maxLength:"32768" doc:"Its own system prompt; missing: the prompt of its type." kong:"-"`
	Tools  action.ToolListing `json:"tools,omitempty" enum:"all,search" doc:"Tools in its list: all, or search for tools that find and call the others; missing: the gateway's setting." kong:"enum='all,search,',default='',help='Tools the agent lists: all or search (default: the gateway setting).'"`
	Model  string             `json:"model,omitempty" maxLength:"200" doc:"A model, in any form; the canonical ID is stored." kong:"placeholder='ID',help='Model of the session; see sallyport models.'"`
	Idle   string             `json:"idle_timeout,omitempty" maxLength:"40" doc:"Idle time before it is stopped, such as 30m, or never; missing: the gateway's setting." example:"30m" kong:"name='idle-timeout',placeholder='D',help='Idle time before the session is stopped, such as 30m, or never (default: the gateway setting).'"`

	Workspace      string          `json:"workspace,omitempty" maxLength:"200" doc:"ID or name of the workspace that it works on; missing: that of its automation or parent, or none. A setup session needs one." kong:"placeholder='NAME',help='Workspace that it works on, by name or ID.'"`
	Branch         string          `json:"branch,omitempty" maxLength:"250" doc:"Branch of the workspace's first repository." kong:"help='Branch of the first repository of the workspace.'"`
	BaseCommit     string          `json:"base_commit,omitempty" maxLength:"64" doc:"Commit of the first repository that the work starts from." kong:"placeholder='HASH',help='Commit of the first repository that the work starts from.'"`
	FirstPrompt    string          `json:"first_prompt,omitempty" maxLength:"65536" doc:"What its agent is asked first." kong:"placeholder='TEXT',help='What its agent is asked first.'"`
	Parent         string          `json:"parent_session_id,omitempty" maxLength:"200" doc:"Session whose work it continues, in the same workspace and from its snapshot." kong:"placeholder='ID',help='Session whose work it continues.'"`
	Provider       string          `json:"provider,omitempty" maxLength:"40" doc:"Provider of its sandbox; missing: that of the workspace." kong:"help='Provider of its sandbox (default: that of the workspace).'"`
	Client         string          `json:"client,omitempty" maxLength:"40" doc:"Kind of program that creates it." example:"slack" kong:"-"`
	ClientMetadata json.RawMessage `json:"client_metadata,omitempty" doc:"A JSON object for that program, at most 16 KiB." kong:"-"`
	MaxTokens      int64           `json:"max_tokens,omitempty" minimum:"0" doc:"Tokens of models that it may use." kong:"placeholder='N',help='Tokens of models that it may use.'"`
	MaxUSD         float64         `json:"max_usd,omitempty" minimum:"0" maximum:"1000000" doc:"Cost of models that it may cause, in US dollars." kong:"name='max-usd',placeholder='USD',help='Cost of models that it may cause, in US dollars.'"`
	MaxCalls       int64           `json:"max_calls,omitempty" minimum:"0" doc:"Calls of actions that it may make." kong:"placeholder='N',help='Calls of actions that it may make.'"`

	IdempotencyKey string `json:"idempotency_key,omitempty" maxLength:"255" doc:"Unique in the organization: the same key and request return the same session. You can use the header Idempotency-Key instead." kong:"env='-',placeholder='KEY',help='Repeat this key to get the same session and token again.'"`
}

// MintedSession is a new session with its token, which is shown once.
type MintedSession struct {
	SessionID string     `json:"session_id" example:"0199a3c4-5d6e-7f80-9123-456789abcdef"`
	Token     string     `json:"token" example:"sps_…" doc:"Shown once; not stored."`
	MCPURL    string     `json:"mcp_url" example:"http://127.0.0.1:8787/mcp"`
	ExpiresAt *time.Time `json:"expires_at"`
	Group     string     `json:"group,omitempty" doc:"Group whose capabilities limit it; missing: none." example:"contributor"`

	Status  action.SessionStatus `json:"status" enum:"pending,running,paused,stopped,failed"`
	Existed bool                 `json:"existed" doc:"It existed already, with the same idempotency key."`
	LeftOut []action.LeftOut     `json:"left_out" nullable:"false" doc:"Requested integrations without a working token, which the session does not have."`
}

// ByID is the parameter of a route about one resource.
type ByID struct {
	ID string `path:"id" example:"0199a3c4-5d6e-7f80-9123-456789abcdef" kong:"arg,help='ID of the ${thing}.'"`
}

// CreateSessionInput is the input of [CreateSession].
type CreateSessionInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"255"`
	Body NewSession
}

// ListSessionsInput is the input of [ListSessions].
type ListSessionsInput struct {
	State string `query:"state" enum:"live,ended,pending,running,paused,stopped,failed" doc:"live: its token is valid; ended: stopped, failed or expired; or one status." kong:"enum='live,ended,pending,running,paused,stopped,failed,',default='',help='Filter by status, or by live or ended.'"`
	Paging
}

// GuideView is a guide to actions, for agents.
type GuideView struct {
	Source   string `json:"source_id,omitempty" doc:"Missing: the guide of the whole session." example:"linear"`
	Title    string `json:"title" example:"Linear"`
	Markdown string `json:"markdown" doc:"Texts of connected servers are fenced and marked."`
	Next     string `json:"next_cursor,omitempty" doc:"Send it as cursor to get the next page; missing at the end."`
}

// PromptView is a system prompt.
type PromptView struct {
	Type action.SessionType `json:"type" enum:"coding,setup,automation"`
	Own  bool               `json:"own" doc:"The session's own prompt, not the prompt of its type."`
	Text string             `json:"text"`
}

// OfAction picks one action of a guide.
type OfAction struct {
	Action string `query:"action" maxLength:"200" doc:"Only this action, by its own name or its tool name." example:"create_issue" kong:"env='-',placeholder='ACTION',help='Only this action, by its own name or its tool name.'"`
}

// OfGuide selects a page of a guide, or of what is denied.
type OfGuide struct {
	OfAction
	Denied bool   `query:"denied" doc:"List what is denied instead, and why." kong:"env='-',help='List what is denied instead, and why.'"`
	Cursor string `query:"cursor" doc:"next_cursor of the previous page." kong:"env='-',help='Value of next_cursor from the previous page.'"`
}

// GetGuideInput is the input of [GetGuide].
type GetGuideInput struct {
	InSession
	OfGuide
}

// GetSourceGuideInput is the input of [GetSourceGuide].
type GetSourceGuideInput struct {
	InSession
	OfGuide
	Source string `path:"source" maxLength:"200" doc:"ID or name." example:"linear"`
}

// GetPromptInput is the input of [GetPrompt].
type GetPromptInput struct {
	InSession
	Type action.SessionType `query:"type" enum:"coding,setup,automation" doc:"Missing: the type of the session."`
}
