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
)

// ByIDWait is the parameters of an operation on one call that may wait for its end.
type ByIDWait struct {
	ByID
	Patience
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

// Patience is how long the request may wait.
type Patience struct {
	Wait string `query:"wait" doc:"Time to wait for the outcome, at most 10m; missing: no wait." example:"30s"`
}

// InvocationView is an invocation with the event and run of its session.
type InvocationView struct {
	action.Invocation
	Event string `json:"event_id,omitempty" doc:"The event that started its session."`
	Run   string `json:"run_id,omitempty" doc:"The run of its session."`
}

// Sought has the filters of calls in lists and exports.
type Sought struct {
	Status []action.Status `query:"status" enum:"pending,approved,executing,completed,failed,denied,expired" doc:"One or more values, comma-separated." example:"[\"failed\",\"denied\"]" kong:"enum='',placeholder='STATUS',help='Filter by status, comma-separated: pending, approved, executing, completed, failed, denied, expired.'"`
	Source string          `query:"source" doc:"ID of a source, or slug or name of a connector." kong:"help='Only calls to this source.'"`
	Action string          `query:"action" kong:"help='Only calls of this action; SOURCE:ACTION also sets the source.'"`
	Risk   string          `query:"risk" enum:"read,write,danger" kong:"enum=',read,write,danger',default='',help='Only calls of this risk.'"`
	Mode   string          `query:"mode" enum:"allow,deny,require_approval" kong:"enum=',allow,deny,require_approval',default='',help='Only calls with this mode.'"`
	From   string          `query:"from" doc:"Start time or day." example:"2026-01-02T15:04:05Z" kong:"type='moment',placeholder='TIME',help='Start time, such as 2026-01-02T15:04:05Z, or 24h for a day ago.'"`
	To     string          `query:"to" doc:"End time or day." example:"2026-02-01" kong:"type='moment',placeholder='TIME',help='End time.'"`
}

// AskedBy has the filters of calls by session, run, automation, group and
// approver.
type AskedBy struct {
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
	Sought
	AskedBy
}
