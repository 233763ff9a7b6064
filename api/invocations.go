package api

import (
	"encoding/json"
	"time"

	"sallyport/action"
)

// Routes.
var (
	ListInvocations = Route[ListInvocationsInput, InvocationList]{Operation{
		Method: "GET", Path: "/api/v1/invocations", Who: Member, Tag: "invocations",
		Summary: "List calls, newest first",
		Doc:     "With a rare filter, a page searches the next 10,000 calls, reports how far back it searched, and may be short. The total covers as many of the newest calls.",
	}}
	GetInvocation = Route[ByID, InvocationView]{Operation{
		Method: "GET", Path: "/api/v1/invocations/{id}", Who: Member, Tag: "invocations",
		Summary: "Get a call",
	}}
	GetInvocationParams = Route[ByID, FullParams]{Operation{
		Method: "GET", Path: "/api/v1/invocations/{id}/params", Who: Decider, Tag: "invocations",
		Summary: "Get the full params of a pending call",
		Doc:     "Unredacted while the call is pending. Each read is recorded.",
	}}
	ListInvocationEvents = Route[ByID, List[action.Event]]{Operation{
		Method: "GET", Path: "/api/v1/invocations/{id}/events", Who: Member, Tag: "invocations",
		Summary: "List the events of a call",
	}}
	ApproveInvocation = Route[ByIDWaitWith[*Approval], Outcome]{Operation{
		Method: "POST", Path: "/api/v1/invocations/{id}/approve", Who: Decider, Tag: "invocations", Status: 200, Errors: []int{409, 410},
		Summary: "Approve a pending call",
		Doc:     "Runs the call once, and with a grant approves later calls of the action. Returns at once, or with ?wait= when the call or the waiting time ended.",
	}}
	DenyInvocation = Route[ByIDWith[*Denial], Outcome]{Operation{
		Method: "POST", Path: "/api/v1/invocations/{id}/deny", Who: Decider, Tag: "invocations", Status: 200, Errors: []int{409, 410},
		Summary: "Deny a pending call",
		Doc:     "The agent sees the reason. The same call is refused for a while.",
	}}
	ListAvailableActions = Route[ListAvailableActionsInput, AvailableActions]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/available", Who: Audience, Tag: "actions",
		Summary: "List the actions that the session can call or request",
	}}
	Invoke = Route[InvokeInput, Outcome]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/actions/invoke", Who: Agent, Tag: "actions", Status: 200, Errors: []int{409, 413, 429, 502},
		Summary: "Call an action",
		Doc:     "Returns 200 with the call and its result when it ended, successfully or not; see its status and error. Returns 202 while it is pending or running; ?wait= waits. Denied by policy or a person: 403 with the ID of the call. Params that do not match the schema: 400 with the field, and no call.",
	}}
	ListSessionInvocations = Route[ListSessionInvocationsInput, InvocationList]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/invocations", Who: Audience, Tag: "actions",
		Summary: "List the calls of the session, newest first",
		Doc:     "With a rare filter, a page searches the next 10,000 calls, reports how far back it searched, and may be short. The total covers as many of the newest calls.",
	}}
	GetSessionInvocation = Route[InSessionByID, InvocationView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/invocations/{id}", Who: Audience, Tag: "actions",
		Summary: "Get a call of the session",
	}}
	GetSessionResult = Route[GetSessionResultInput, Outcome]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/invocations/{id}/result", Who: Approver, Tag: "actions",
		Summary: "Get the full result while it is available",
		Doc:     "Returns 200 with the outcome when the call ended, 202 before; ?wait= waits. Later only the call remains, without its result.",
	}}
	ApproveSessionInvocation = Route[ApproveSessionInvocationInput, Outcome]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/actions/invocations/{id}/approve", Who: Decider, Tag: "actions", Status: 200, Errors: []int{409, 410},
		Summary: "Approve a pending call of the session",
		Doc:     "Runs the call once, and with a grant approves later calls of the action. Returns at once, or with ?wait= when the call or the waiting time ended.",
	}}
	DenySessionInvocation = Route[InSessionByIDWith[*Denial], Outcome]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/actions/invocations/{id}/deny", Who: Decider, Tag: "actions", Status: 200, Errors: []int{409, 410},
		Summary: "Deny a pending call of the session",
	}}
	CallPlatformTool = Route[CallPlatformToolInput, PlatformAnswer]{Operation{
		Method: "POST", Path: "/internal/tools/{tool}", Who: Caller, Tag: "actions", Status: 200, Errors: []int{409, 413, 429, 502},
		Summary: "Call one of the gateway's own tools",
		Doc:     "For programs that use HTTP, with the rules of every call: schema, policy, records. If a request gets no answer, 502 or 503, repeat it with the same tool_call_id: it runs once. The same ID with other params is refused (409), and so is a call above the quota (429, with Retry-After). A call that needs approval returns 202; ?wait= waits, and so does .../invocations/{id}/result.",
	}}
	GetStatistics = Route[GetStatisticsInput, StatisticsView]{Operation{
		Method: "GET", Path: "/api/v1/statistics", Who: Member, Tag: "invocations",
		Summary: "Count calls by time, action, source and outcome",
		Doc:     "Counts calls created in the window, which starts and ends with whole buckets. Only the newest are counted: 50,000 in total, 10,000 pending and 10,000 denied; see `capped` and `since`.",
	}}
)

// ByIDWait is the parameters of an operation on one call that may wait for its end.
type ByIDWait struct {
	ByID
	WaitParam
}

// Approval is a person's approval. The person is identified by the
// credential.
type Approval struct {
	ParamsHash string `json:"params_hash,omitempty" maxLength:"200" doc:"Hash of the params that you saw; other params are not approved."`
	ToolHash   string `json:"tool_hash,omitempty" maxLength:"200" doc:"Hash of the action that you saw."`
	Mode       string `json:"mode,omitempty" enum:"once,grant" doc:"grant also approves later calls of the action; once, the default without a grant, does not."`

	Grant *ApprovalGrant `json:"grant,omitempty"`
}

// ApprovalGrant is a grant for later calls of the same action, created with
// an approval.
type ApprovalGrant struct {
	_        struct{}                   `nullable:"true"`
	Scope    ScopeName                  `json:"scope,omitempty" enum:"session,organization,org" doc:"Default session." example:"session"`
	MaxCalls *int64                     `json:"max_calls,omitempty" minimum:"1" doc:"Maximum number of calls, without this one; missing: unlimited." example:"5"`
	Pins     map[string]json.RawMessage `json:"pins,omitempty" doc:"Params that must have exactly these values, by JSON Pointer; this call must have them."`
	Pin      []string                   `json:"pin,omitempty" maxItems:"100" nullable:"false" doc:"Params that must have the values of this call, as JSON Pointers." example:"[\"/channel\"]"`
	// Unreviewed is a separate field because the tool differs from the
	// reviewed one.
	Unreviewed bool `json:"unreviewed,omitempty" doc:"Grant even if the tool changed since its review; otherwise such a grant is refused."`
	Lifetime
}

// Denial is a person's denial.
type Denial struct {
	Reason     string `json:"reason,omitempty" maxLength:"1000" doc:"Reason, shown to the agent." example:"Use the staging project." kong:"env='-',placeholder='TEXT',help='Reason, shown to the agent.'"`
	ParamsHash string `json:"params_hash,omitempty" maxLength:"200" kong:"-"`
	ToolHash   string `json:"tool_hash,omitempty" maxLength:"200" kong:"-"`
}

// Outcome is an invocation with the response of its source, if it has one.
type Outcome struct {
	Invocation action.Invocation `json:"invocation"`
	Grant      *GrantView        `json:"grant,omitempty" doc:"What the approval also created."`
	Result     json.RawMessage   `json:"result,omitempty" doc:"The full response of the source: a CallToolResult of MCP."`
	Problem    json.RawMessage   `json:"problem,omitempty" doc:"The JSON-RPC error of the source, if it returned one."`
	Repeated   bool              `json:"repeated,omitempty" doc:"The call joined an earlier one, or got its outcome again."`
}

// FullParams has the unredacted params of a pending call.
type FullParams struct {
	Params     json.RawMessage `json:"params"`
	Full       bool            `json:"full" doc:"False after the call ended: the params are redacted."`
	ParamsHash string          `json:"params_hash"`
	ToolHash   string          `json:"tool_hash"`
}

// WaitParam is how long the request may wait.
type WaitParam struct {
	Wait string `query:"wait" doc:"Time to wait for the outcome, at most 10m; missing: no wait." example:"30s"`
}

// CallerView describes the session of a call.
type CallerView struct {
	SessionTitle     string `json:"session_title,omitempty" doc:"The title of its session."`
	SessionCreatedBy string `json:"session_created_by,omitempty" doc:"The user who created its session, or automation: and the ID of an automation."`
	SessionCreator   string `json:"session_creator,omitempty" doc:"The name of that user or automation; missing if removed, and for a session's own token."`
	Group            string `json:"group,omitempty" doc:"The group of its session."`
}

// InvocationView is an invocation with its session, and the event and run of that.
type InvocationView struct {
	action.Invocation
	CallerView
	Event string `json:"event_id,omitempty" doc:"The event that started its session."`
	Run   string `json:"run_id,omitempty" doc:"The run of its session."`
}

// CallFilters has the filters of calls in lists and exports.
type CallFilters struct {
	Status []action.Status `query:"status" enum:"pending,approved,executing,completed,failed,denied,expired" doc:"One or more values, comma-separated." example:"[\"failed\",\"denied\"]" kong:"enum='',placeholder='STATUS',help='Filter by status, comma-separated: pending, approved, executing, completed, failed, denied, expired.'"`
	Source string          `query:"source" doc:"ID of a source, or slug or name of a connector." kong:"help='Only calls to this source.'"`
	Action string          `query:"action" kong:"help='Only calls of this action; SOURCE:ACTION also sets the source.'"`
	Risk   string          `query:"risk" enum:"read,write,danger" kong:"enum=',read,write,danger',default='',help='Only calls of this risk.'"`
	Mode   string          `query:"mode" enum:"allow,deny,require_approval" kong:"enum=',allow,deny,require_approval',default='',help='Only calls with this mode.'"`
	From   string          `query:"from" doc:"Start time or day." example:"2026-01-02T15:04:05Z" kong:"type='moment',placeholder='TIME',help='Start time, such as 2026-01-02T15:04:05Z, or 24h for a day ago.'"`
	To     string          `query:"to" doc:"End time or day." example:"2026-02-01" kong:"type='moment',placeholder='TIME',help='End time.'"`
}

// CallerFilters has the filters of calls by session, run, automation, group and
// approver.
type CallerFilters struct {
	Session    string `query:"session" kong:"placeholder='ID',help='Only calls of this session.'"`
	Run        string `query:"run" maxLength:"80" doc:"ID of a run: calls of its sessions." kong:"placeholder='ID',help='Only calls of this run.'"`
	Automation string `query:"automation" maxLength:"200" doc:"ID of an automation: calls of its sessions." kong:"placeholder='ID',help='Only calls of this automation.'"`
	Group      string `query:"group" maxLength:"200" doc:"A group: calls of its sessions." kong:"help='Only calls of sessions of this group.'"`
	Person     string `query:"person" maxLength:"200" doc:"ID of the person who approved or denied; me: the caller." kong:"placeholder='ID',help='Only calls this person decided; me for yourself.'"`
}

// InvocationList is a page of calls.
type InvocationList struct {
	List[InvocationView]
	LookedBackTo *time.Time `json:"looked_back_to,omitempty" doc:"The page ends because its search limit was reached, not because it is full: it may be short or empty, and next_cursor continues."`
}

// ListInvocationsInput is the input of [ListInvocations].
type ListInvocationsInput struct {
	Paging
	CallFilters
	CallerFilters
}

// NewCall is a request to run an action.
type NewCall struct {
	Source         string          `json:"source" minLength:"1" maxLength:"200" doc:"ID of a source, or slug or name of a connector." example:"github"`
	Action         string          `json:"action" minLength:"1" maxLength:"200" example:"create_issue"`
	Params         json.RawMessage `json:"params,omitempty" doc:"An object that matches the schema of the action; default {}. A string that contains such an object is accepted."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" maxLength:"255" doc:"The same key identifies the same call. You can use the header Idempotency-Key instead."`
}

// AvailableAction is an action as a session sees it.
type AvailableAction struct {
	Source       string          `json:"source_id"`
	SourceName   string          `json:"source_name"`
	Action       string          `json:"action" example:"create_issue"`
	Tool         string          `json:"tool,omitempty" doc:"Name over MCP. Missing: it is not a tool but a way to read resources (resources/read) or get prompts (prompts/get)." example:"github_create_issue"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty" doc:"Text from the source."`
	Risk         action.Risk     `json:"risk"`
	Mode         action.Mode     `json:"mode"`
	ModeSource   action.Layer    `json:"mode_source"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

// ListAvailableActionsInput is the input of [ListAvailableActions].
type ListAvailableActionsInput struct {
	InSession
	Paging
}

// AvailableActions are a page of the actions of a session.
type AvailableActions struct {
	List[AvailableAction]
	Unreachable []action.Outage `json:"unreachable,omitempty" nullable:"false" doc:"Sources that cannot be reached: their actions may be missing."`
}

// InSession is the parameter of a route under a session.
type InSession struct {
	Session string `path:"session" example:"0199a3c4-5d6e-7f80-9123-456789abcdef"`
}

// InSessionByID is the parameters of a route about one call of a session.
type InSessionByID struct {
	InSession
	ByID
}

// PlatformCall is a call of a gateway tool by a stub in a sandbox.
type PlatformCall struct {
	Session string          `json:"session_id" minLength:"1" maxLength:"80" doc:"ID of the session of the token."`
	ID      string          `json:"tool_call_id" minLength:"1" maxLength:"255" doc:"ID of the model's tool call: a repeat gets the same answer and runs nothing." example:"call_01"`
	Params  json.RawMessage `json:"params,omitempty" doc:"An object that matches the schema of the tool, or a JSON string of one; default {}."`
}

// PlatformAnswer is the reply of a gateway tool.
type PlatformAnswer struct {
	Success     bool            `json:"success" doc:"False: the call was not done; result has the reason, or says that it is pending."`
	Result      string          `json:"result" doc:"Text for the model." example:"Saved 2 commands in the setup \"default\", replacing the previous ones."`
	Data        json.RawMessage `json:"data,omitempty" doc:"Data for programs; with a code if the call was not done."`
	Invocation  string          `json:"invocation" doc:"The call, whose result you can wait for."`
	Status      string          `json:"status" enum:"completed,failed,expired,pending,approved,executing"`
	ApprovalURL string          `json:"approval_url,omitempty" doc:"Page where a person decides, while the call is pending."`
}

// InvokeInput is the input of [Invoke].
type InvokeInput struct {
	InSession
	WaitParam
	Key  string `header:"Idempotency-Key" maxLength:"255"`
	Body NewCall
}

// ListSessionInvocationsInput is the input of [ListSessionInvocations].
type ListSessionInvocationsInput struct {
	InSession
	Paging
	CallFilters
}

// GetSessionResultInput is the input of [GetSessionResult].
type GetSessionResultInput struct {
	InSessionByID
	WaitParam
}

// ApproveSessionInvocationInput is the input of [ApproveSessionInvocation].
type ApproveSessionInvocationInput struct {
	InSessionByID
	WaitParam
	Body *Approval
}

// CallPlatformToolInput is the input of [CallPlatformTool].
type CallPlatformToolInput struct {
	Tool string `path:"tool" maxLength:"64" example:"automation_complete"`
	WaitParam
	Body PlatformCall
}

// StatisticsView has the data of the charts.
type StatisticsView struct {
	Window     string    `json:"window" enum:"1h,24h,7d,30d" example:"24h"`
	ComputedAt time.Time `json:"computed_at" doc:"When the rows were last read: a few seconds ago, or longer if reading was slow."`
	action.Statistics
	Sources []SourceStatistics `json:"sources" nullable:"false" doc:"Most called first, at most 50; then connectors without calls."`
}

// SourceStatistics has the counts and health of a source.
type SourceStatistics struct {
	action.SourceCount
	Health string `json:"health,omitempty" enum:"ok,failing,broken,disabled,unknown" doc:"Status of a connector: its tools can be listed; the last attempt failed; the circuit is open; it is disabled; it has not been asked yet. Missing: not an existing connector."`
	Error  string `json:"error,omitempty" doc:"Why the tools cannot be listed."`
}

// GetStatisticsInput is the input of [GetStatistics].
type GetStatisticsInput struct {
	Window string `query:"window" enum:"1h,24h,7d,30d" default:"24h" doc:"Length of the window."`
}
