package api

import (
	"encoding/json"

	"sallyport/action"
)

// Routes.
var (
	ListAvailableActions = Route[InSession, List[AvailableAction]]{Operation{
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
)

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
	Result      string          `json:"result" doc:"Text for the model." example:"Saved 2 commands in the setup \"default\", in the place of what was there."`
	Data        json.RawMessage `json:"data,omitempty" doc:"Data for programs; with a code if the call was not done."`
	Invocation  string          `json:"invocation" doc:"The call, whose result you can wait for."`
	Status      string          `json:"status" enum:"completed,failed,expired,pending,approved,executing"`
	ApprovalURL string          `json:"approval_url,omitempty" doc:"Page where a person decides, while the call is pending."`
}

// InvokeInput is the input of [Invoke].
type InvokeInput struct {
	InSession
	Patience
	Key  string `header:"Idempotency-Key" maxLength:"255"`
	Body NewCall
}

// ListSessionInvocationsInput is the input of [ListSessionInvocations].
type ListSessionInvocationsInput struct {
	InSession
	Paging
	Sought
}

// GetSessionResultInput is the input of [GetSessionResult].
type GetSessionResultInput struct {
	InSessionByID
	Patience
}

// ApproveSessionInvocationInput is the input of [ApproveSessionInvocation].
type ApproveSessionInvocationInput struct {
	InSessionByID
	Patience
	Body *Approval
}

// CallPlatformToolInput is the input of [CallPlatformTool].
type CallPlatformToolInput struct {
	Tool string `path:"tool" maxLength:"64" example:"automation_complete"`
	Patience
	Body PlatformCall
}
