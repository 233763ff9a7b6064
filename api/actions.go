package api

import (
	"encoding/json"

	"sallyport/action"
)

// Routes.
var (
	ListAvailableActions = Route[InSession, List[AvailableAction]]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/available", Who: Audience, Tag: "actions",
		Summary: "List what the session may call or ask for",
	}}
	Invoke = Route[InvokeInput, Outcome]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/actions/invoke", Who: Agent, Tag: "actions", Status: 200, Errors: []int{409, 413, 429, 502},
		Summary: "Call an action",
		Doc:     "Answers 200 with the invocation and the result when it ended, also when it failed: the invocation's status and error tell. Answers 202 with the invocation when it is held or still runs; ?wait= waits for it. Refused by policy or by a person: 403 with the invocation's id. Params that miss the schema: 400 with the field, and no invocation.",
	}}
	ListSessionInvocations = Route[ListSessionInvocationsInput, InvocationList]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/invocations", Who: Audience, Tag: "actions",
		Summary: "List the session's invocations, newest first",
		Doc:     "What is rare may have to be looked for: then a page looks at the next 10,000 calls, says how far back it came, and may be short. The total is of as many of the newest.",
	}}
	GetSessionInvocation = Route[InSessionByID, InvocationView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/invocations/{id}", Who: Audience, Tag: "actions",
		Summary: "Read an invocation of the session",
	}}
	GetSessionResult = Route[GetSessionResultInput, Outcome]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/invocations/{id}/result", Who: Approver, Tag: "actions",
		Summary: "Fetch the full result while it may be picked up",
		Doc:     "200 with the outcome when it ended, 202 while it has not; ?wait= waits. After the pick-up time only the invocation is left, without result.",
	}}
	ApproveSessionInvocation = Route[ApproveSessionInvocationInput, Outcome]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/actions/invocations/{id}/approve", Who: Decider, Tag: "actions", Status: 200, Errors: []int{409, 410},
		Summary: "Approve a held call of the session",
		Doc:     "Lets it run once, and with a grant further calls of the action. Answers at once, or with ?wait= when it ended or the wait did.",
	}}
	DenySessionInvocation = Route[InSessionByIDWith[*Denial], Outcome]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/actions/invocations/{id}/deny", Who: Decider, Tag: "actions", Status: 200, Errors: []int{409, 410},
		Summary: "Deny a held call of the session",
	}}
	CallPlatformTool = Route[CallPlatformToolInput, PlatformAnswer]{Operation{
		Method: "POST", Path: "/internal/tools/{tool}", Who: Caller, Tag: "actions", Status: 200, Errors: []int{409, 413, 429, 502},
		Summary: "Call a tool of the gateway's own",
		Doc:     "The gateway's own tools, for stubs that speak HTTP, with the rules of every call: schema, policy, rows. Repeat a request that got no answer, or 502 or 503, with the same tool_call_id: it is done once. The same id with other params is refused (409), and a quota that is used up too (429, with Retry-After). A call that the organization holds answers 202; ?wait= waits for it, and so does .../invocations/{id}/result.",
	}}
)

// NewCall is one request to run an action.
type NewCall struct {
	Source         string          `json:"source" minLength:"1" maxLength:"200" doc:"Id of a source, or slug or name of a connector." example:"github"`
	Action         string          `json:"action" minLength:"1" maxLength:"200" example:"create_issue"`
	Params         json.RawMessage `json:"params,omitempty" doc:"An object that fits the action's schema; default {}. A string that holds such an object is taken for it."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" maxLength:"255" doc:"The same key is the same call. The header Idempotency-Key says the same."`
}

// AvailableAction is an action as a session sees it.
type AvailableAction struct {
	Source       string          `json:"source_id"`
	SourceName   string          `json:"source_name"`
	Action       string          `json:"action" example:"create_issue"`
	Tool         string          `json:"tool,omitempty" doc:"Its name over MCP; absent: it is no tool, but how resources are read (resources/read) or prompts gotten (prompts/get)." example:"github_create_issue"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty" doc:"The source's own words."`
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

// InSessionByID is the same, about one invocation.
type InSessionByID struct {
	InSession
	ByID
}

// PlatformCall is one call of a tool of the gateway's own, by a stub in a sandbox.
type PlatformCall struct {
	Session string          `json:"session_id" minLength:"1" maxLength:"80" doc:"The token's own."`
	ID      string          `json:"tool_call_id" minLength:"1" maxLength:"255" doc:"Of this call of the model's: the same one again is answered the same again, and not done again." example:"call_01"`
	Params  json.RawMessage `json:"params,omitempty" doc:"An object that fits the tool's schema, or a string that holds one as JSON; default {}."`
}

// PlatformAnswer is what a tool of the gateway's own answered.
type PlatformAnswer struct {
	Success     bool            `json:"success" doc:"False: it was not done; result says why, or that it waits for a person."`
	Result      string          `json:"result" doc:"For the model." example:"Saved 2 commands in the setup \"default\", in the place of what was there."`
	Data        json.RawMessage `json:"data,omitempty" doc:"For programs; of what was not done, with a code."`
	Invocation  string          `json:"invocation" doc:"Its invocation, whose result can be waited for."`
	Status      string          `json:"status" enum:"completed,failed,expired,pending,approved,executing"`
	ApprovalURL string          `json:"approval_url,omitempty" doc:"Where a person decides, while it is held."`
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
