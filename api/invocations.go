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
		Summary: "List invocations, newest first",
		Doc:     "What is rare may have to be looked for: then a page looks at the next 10,000 calls, says how far back it came, and may be short. The total is of as many of the newest.",
	}}
	GetInvocation = Route[ByID, InvocationView]{Operation{
		Method: "GET", Path: "/api/v1/invocations/{id}", Who: Member, Tag: "invocations",
		Summary: "Read an invocation",
	}}
	GetInvocationParams = Route[ByID, FullParams]{Operation{
		Method: "GET", Path: "/api/v1/invocations/{id}/params", Who: Decider, Tag: "invocations",
		Summary: "Read what a held call would run with",
		Doc:     "All of it, with nothing redacted while it is held. The reading is recorded.",
	}}
	ListInvocationEvents = Route[ByID, List[action.Event]]{Operation{
		Method: "GET", Path: "/api/v1/invocations/{id}/events", Who: Member, Tag: "invocations",
		Summary: "Read what else happened to an invocation",
	}}
	ApproveInvocation = Route[ByIDWaitWith[*Approval], Outcome]{Operation{
		Method: "POST", Path: "/api/v1/invocations/{id}/approve", Who: Decider, Tag: "invocations", Status: 200, Errors: []int{409, 410},
		Summary: "Approve a held call",
		Doc:     "Lets it run once, and with a grant further calls of the action. Answers at once, or with ?wait= when it ended or the wait did.",
	}}
	DenyInvocation = Route[ByIDWith[*Denial], Outcome]{Operation{
		Method: "POST", Path: "/api/v1/invocations/{id}/deny", Who: Decider, Tag: "invocations", Status: 200, Errors: []int{409, 410},
		Summary: "Deny a held call",
		Doc:     "The agent is told the reason. The same call is not asked again for a while.",
	}}
)

// ByIDWait is the parameters of an operation on one call that may wait for its end.
type ByIDWait struct {
	ByID
	Patience
}

// Approval is what a person says with a yes. Who he is comes from his login.
type Approval struct {
	ParamsHash string `json:"params_hash,omitempty" maxLength:"200" doc:"Of the params that were read; other params are not approved."`
	ToolHash   string `json:"tool_hash,omitempty" maxLength:"200" doc:"Likewise, of the action."`
	Mode       string `json:"mode,omitempty" enum:"once,grant" doc:"grant also lets further calls of the action run; once, the default without a grant, does not."`

	Grant *ApprovalGrant `json:"grant,omitempty"`
}

// ApprovalGrant is what else an approval lets through: calls of the same
// action.
type ApprovalGrant struct {
	_        struct{}                   `nullable:"true"`
	Scope    ScopeName                  `json:"scope,omitempty" enum:"session,organization,org" doc:"Default session." example:"session"`
	MaxCalls *int64                     `json:"max_calls,omitempty" minimum:"1" doc:"The budget, this call not counted; absent: none." example:"5"`
	Pins     map[string]json.RawMessage `json:"pins,omitempty" doc:"Params that must have exactly these values, by JSON Pointer; this call must have them."`
	Pin      []string                   `json:"pin,omitempty" maxItems:"100" nullable:"false" doc:"Params that must have the values of this call, as JSON Pointers." example:"[\"/channel\"]"`
	// Unreviewed is asked for apart, as the tool is not what anybody agreed to.
	Unreviewed bool `json:"unreviewed,omitempty" doc:"Grant it although the tool is not as it was reviewed; without, such a grant is refused."`
	Lifetime
}

// Denial is what a person says with a no.
type Denial struct {
	Reason     string `json:"reason,omitempty" maxLength:"1000" doc:"The agent reads it." example:"Use the staging project." kong:"env='-',placeholder='TEXT',help='Reason, shown to the agent.'"`
	ParamsHash string `json:"params_hash,omitempty" maxLength:"200" kong:"-"`
	ToolHash   string `json:"tool_hash,omitempty" maxLength:"200" kong:"-"`
}

// Outcome is an invocation, and the answer of its source when it ended well
// enough to have one.
type Outcome struct {
	Invocation action.Invocation `json:"invocation"`
	Grant      *GrantView        `json:"grant,omitempty" doc:"What the approval made beside."`
	Result     json.RawMessage   `json:"result,omitempty" doc:"What the source answered, in full: a CallToolResult of MCP."`
	Problem    json.RawMessage   `json:"problem,omitempty" doc:"The source's JSON-RPC error, when it answered with one."`
	Repeated   bool              `json:"repeated,omitempty" doc:"The call joined an earlier one, or was handed its outcome again."`
}

// FullParams is what a held call would run with.
type FullParams struct {
	Params     json.RawMessage `json:"params"`
	Full       bool            `json:"full" doc:"False once the call ended: the params are the redacted ones."`
	ParamsHash string          `json:"params_hash"`
	ToolHash   string          `json:"tool_hash"`
}

// Patience is how long the answer may take.
type Patience struct {
	Wait string `query:"wait" doc:"Wait this long for the outcome, at most 10m; absent: do not." example:"30s"`
}

// InvocationView is an invocation with what its session was minted for.
type InvocationView struct {
	action.Invocation
	Event string `json:"event_id,omitempty" doc:"The inbound event that started its session."`
	Run   string `json:"run_id,omitempty" doc:"The run that its session works on."`
}

// Sought is what calls are looked for by, in lists and exports.
type Sought struct {
	Status []action.Status `query:"status" enum:"pending,approved,executing,completed,failed,denied,expired" doc:"One or more, with commas." example:"[\"failed\",\"denied\"]" kong:"enum='',placeholder='STATUS',help='Filter by status, comma-separated: pending, approved, executing, completed, failed, denied, expired.'"`
	Source string          `query:"source" doc:"Id of a source, or slug or name of a connector." kong:"help='Only calls to this source.'"`
	Action string          `query:"action" kong:"help='Only calls of this action; SOURCE:ACTION also sets the source.'"`
	Risk   string          `query:"risk" enum:"read,write,danger" kong:"enum=',read,write,danger',default='',help='Only calls of this risk.'"`
	Mode   string          `query:"mode" enum:"allow,deny,require_approval" kong:"enum=',allow,deny,require_approval',default='',help='Only calls with this mode.'"`
	From   string          `query:"from" doc:"Made not before this time or day." example:"2026-01-02T15:04:05Z" kong:"type='moment',placeholder='TIME',help='Start time, such as 2026-01-02T15:04:05Z, or 24h for a day ago.'"`
	To     string          `query:"to" doc:"Made before this time or day." example:"2026-02-01" kong:"type='moment',placeholder='TIME',help='End time.'"`
}

// AskedBy is by whose calls they are looked for.
type AskedBy struct {
	Session    string `query:"session" kong:"placeholder='ID',help='Only calls of this session.'"`
	Run        string `query:"run" maxLength:"80" doc:"Id of a run, whose sessions are meant." kong:"placeholder='ID',help='Only calls of this run.'"`
	Automation string `query:"automation" maxLength:"200" doc:"Id of an automation, whose sessions are meant." kong:"placeholder='ID',help='Only calls of this automation.'"`
	Group      string `query:"group" maxLength:"200" doc:"A group, whose sessions are meant." kong:"help='Only calls of sessions of this group.'"`
	Person     string `query:"person" maxLength:"200" doc:"Id of the person who approved or denied; me: who asks." kong:"placeholder='ID',help='Only calls this person decided; me for yourself.'"`
}

// InvocationList is a page of calls.
type InvocationList struct {
	List[InvocationView]
	LookedBackTo *time.Time `json:"looked_back_to,omitempty" doc:"The page ends here because it looked no further back, and not because it is full: it may be short or empty, and next_cursor leads on."`
}

// ListInvocationsInput is the input of [ListInvocations].
type ListInvocationsInput struct {
	Paging
	Sought
	AskedBy
}
