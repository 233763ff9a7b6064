package api

import (
	"sallyport/action"
)

// Routes.
var (
	ListSessionEnv = Route[ListSessionEnvInput, List[action.EnvRequest]]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/env", Who: Audience, Tag: "env",
		Summary: "List what variables the session asked for, newest first",
	}}
	PullEnv = Route[PullEnvInput, EnvPulled]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/env/pull", Who: Agent, Tag: "env", Status: 200,
		Summary: "Take the variables that people gave",
		Doc:     "Hands out, once, what people gave to the session since it was asked last. The same Idempotency-Key gets the same values again for five minutes, in case an answer was lost; then they are gone for good.",
	}}
	ListEnvRequests = Route[ListEnvRequestsInput, List[action.EnvRequest]]{Operation{
		Method: "GET", Path: "/api/v1/env-requests", Who: Member, Tag: "env",
		Summary: "List agents' requests for environment variables, newest first",
	}}
	GetEnvRequest = Route[ByID, action.EnvRequest]{Operation{
		Method: "GET", Path: "/api/v1/env-requests/{id}", Who: Member, Tag: "env",
		Summary: "Read a request for environment variables",
	}}
	AnswerEnvRequest = Route[ByIDWith[EnvAnswer], action.EnvRequest]{Operation{
		Method: "POST", Path: "/api/v1/env-requests/{id}/answer", Who: Decider, Tag: "env", Status: 200, Errors: []int{409, 410},
		Summary: "Give an agent the variables that it asked for",
		Doc:     "The values are sealed, handed to the session's sandbox once, and never shown. The agent can read them.",
	}}
	RefuseEnvRequest = Route[ByIDWith[*EnvRefusal], action.EnvRequest]{Operation{
		Method: "POST", Path: "/api/v1/env-requests/{id}/refuse", Who: Decider, Tag: "env", Status: 200, Errors: []int{409, 410},
		Summary: "Refuse a request for environment variables",
	}}
)

// EnvAnswer is what a person enters.
type EnvAnswer struct {
	Values map[string]string `json:"values" doc:"By the name of the variable. The agent can read them."`
}

// EnvRefusal is why a person enters nothing.
type EnvRefusal struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"The agent reads it." example:"Use the test account; its key is in the vault." kong:"placeholder='TEXT',help='Reason, shown to the agent.'"`
}

// EnvPulled is what a sandbox gets.
type EnvPulled struct {
	Values  map[string]string `json:"values" nullable:"false"`
	Pending []string          `json:"pending" nullable:"false" doc:"Variables that a person was asked for and did not answer yet."`
	Refused []EnvRefused      `json:"refused" nullable:"false" doc:"Requests that people refused since the sandbox took something last; not of what was asked for again."`
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
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"Of this attempt to take them; without it a lost answer is lost."`
}

// ListEnvRequestsInput is the input of [ListEnvRequests].
type ListEnvRequestsInput struct {
	Paging
	Status  action.EnvStatus `query:"status" enum:"pending,answered,taken,refused,expired" kong:"enum='pending,answered,taken,refused,expired,all',default='pending',help='Filter by status: pending, answered, taken, refused, expired or all (default: pending).'"`
	Session string           `query:"session" kong:"placeholder='ID',help='Only for this session.'"`
}
