package api

import (
	"sallyport/action"
)

// Routes.
var (
	ListSessionEnv = Route[ListSessionEnvInput, List[action.EnvRequest]]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/env", Who: Audience, Tag: "env",
		Summary: "List the session's requests for environment variables, newest first",
	}}
	PullEnv = Route[PullEnvInput, EnvPulled]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/env/pull", Who: Agent, Tag: "env", Status: 200,
		Summary: "Fetch entered environment variables",
		Doc:     "Returns, once, the values entered for the session since the last fetch. The same Idempotency-Key gets the same values again for five minutes, in case an answer was lost; then they are deleted.",
	}}
	ListEnvRequests = Route[ListEnvRequestsInput, List[action.EnvRequest]]{Operation{
		Method: "GET", Path: "/api/v1/env-requests", Who: Member, Tag: "env",
		Summary: "List requests for environment variables, newest first",
	}}
	GetEnvRequest = Route[ByID, action.EnvRequest]{Operation{
		Method: "GET", Path: "/api/v1/env-requests/{id}", Who: Member, Tag: "env",
		Summary: "Get a request for environment variables",
	}}
	AnswerEnvRequest = Route[ByIDWith[EnvAnswer], action.EnvRequest]{Operation{
		Method: "POST", Path: "/api/v1/env-requests/{id}/answer", Who: Decider, Tag: "env", Status: 200, Errors: []int{409, 410},
		Summary: "Enter values for a request",
		Doc:     "The values are stored encrypted, given to the sandbox of the session once, and never shown. The agent can read them.",
	}}
	RefuseEnvRequest = Route[ByIDWith[*EnvRefusal], action.EnvRequest]{Operation{
		Method: "POST", Path: "/api/v1/env-requests/{id}/refuse", Who: Decider, Tag: "env", Status: 200, Errors: []int{409, 410},
		Summary: "Refuse a request for environment variables",
	}}
)

// EnvAnswer has the values that a person enters.
type EnvAnswer struct {
	Values map[string]string `json:"values" doc:"Values by variable name. The agent can read them."`
}

// EnvRefusal refuses a request for variables.
type EnvRefusal struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Reason, shown to the agent." example:"Use the test account; its key is in the vault." kong:"placeholder='TEXT',help='Reason, shown to the agent.'"`
}

// EnvPulled has the values for a sandbox.
type EnvPulled struct {
	Values  map[string]string `json:"values" nullable:"false"`
	Pending []string          `json:"pending" nullable:"false" doc:"Requested variables that nobody has entered yet."`
	Refused []EnvRefused      `json:"refused" nullable:"false" doc:"Requests refused since the sandbox last fetched values, except variables that were requested again."`
}

// EnvRefused is a request that a person refused.
type EnvRefused struct {
	ID     string   `json:"id"`
	Keys   []string `json:"keys" nullable:"false"`
	Reason string   `json:"reason,omitempty"`
}

// ListSessionEnvInput is the input of [ListSessionEnv].
type ListSessionEnvInput struct {
	InSession
	Paging
}

// PullEnvInput is the input of [PullEnv].
type PullEnvInput struct {
	InSession
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"Key of this attempt; without it a lost answer cannot be repeated."`
}

// ListEnvRequestsInput is the input of [ListEnvRequests].
type ListEnvRequestsInput struct {
	Paging
	Status  action.EnvStatus `query:"status" enum:"pending,answered,taken,refused,expired" kong:"enum='pending,answered,taken,refused,expired,all',default='pending',help='Filter by status: pending, answered, taken, refused, expired or all (default: pending).'"`
	Session string           `query:"session" kong:"placeholder='ID',help='Only for this session.'"`
}
