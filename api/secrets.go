package api

import (
	"sallyport/action"
	"sallyport/ingest/event"
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
	PutSecret = Route[ByKeyWith[NewSecret], action.Secret]{Operation{
		Method: "PUT", Path: "/api/v1/secrets/{key}", Who: Decider, Tag: "secrets", Status: 200,
		Summary: "Set a secret",
		Doc:     "Stores the value encrypted and bound to the host: a connector of another host cannot use it. It cannot be read back.",
	}}
	ListSecrets = Route[None, List[action.Secret]]{Operation{
		Method: "GET", Path: "/api/v1/secrets", Who: Member, Tag: "secrets",
		Summary: "List secrets without their values",
	}}
	DeleteSecret = Route[ByKey, None]{Operation{
		Method: "DELETE", Path: "/api/v1/secrets/{key}", Who: Decider, Tag: "secrets", Errors: []int{409},
		Summary: "Delete a secret",
	}}
	RotateMasterKey = Route[None, Rotated]{Operation{
		Method: "POST", Path: "/api/v1/secrets/rotate", Who: Owner, Tag: "secrets", Status: 200, Errors: []int{409},
		Summary: "Rotate the master key",
		Doc:     "Encrypts all encrypted values of all organizations again with a new master key: a generated one if the key is in the data folder, otherwise the one that the operator has set. Repeat it after an interruption; it continues.",
	}}
)

// EnvAnswer has the values that a person enters.
type EnvAnswer struct {
	Values map[string]string `json:"values" doc:"Values by variable name. The agent can read them."`
	Keep   bool              `json:"keep,omitempty" doc:"Keep the values as variables of the session's workspace, so that its later sessions get them, too."`
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

// NewSecret is a secret to set. Its value cannot be read back.
type NewSecret struct {
	Value string `json:"value" minLength:"1" maxLength:"16384" writeOnly:"true" example:"ghp_…" kong:"-"`
	Host  string `json:"host" minLength:"1" maxLength:"255" doc:"The only host, with its port if it is not the default, that may receive it." example:"api.example.com" kong:"required,help='Host, with a port if any, that may receive the secret; write an IPv6 address with a port in [].'"`
}

// Rotated is the result of a rotation of the master key.
type Rotated struct {
	KeyID    string `json:"key_id" doc:"ID of the current key; it reveals nothing about the key." example:"72cd6e8422c407fb"`
	Resealed int    `json:"resealed" doc:"Values encrypted again."`
	Left     int    `json:"left" doc:"Values that no key opens. While there are any, the old key is kept."`
}

// ByKey is the parameter of an operation on one secret.
type ByKey struct {
	Key string `path:"key" maxLength:"64" example:"github" kong:"arg,help='Name of the secret.'"`
}

// Rotation replaces a signing secret.
type Rotation struct {
	Secret string `json:"secret,omitempty" writeOnly:"true" minLength:"16" maxLength:"512" doc:"For services that issue the secret; missing: generated and returned." kong:"-"`
	Keep   string `json:"keep,omitempty" maxLength:"40" doc:"How long the previous secrets stay valid: a duration up to 720h; default 24h. 0s: not at all." example:"24h" kong:"type='period',placeholder='D',help='How long the previous secrets stay valid; 0s to end them now (default: 24h).'"`
}

// MintedSecret is a new secret, shown once.
type MintedSecret struct {
	Secret string `json:"secret,omitempty" doc:"Shown once; missing if you sent it." example:"whsec_…"`
}

// SigningSecret is a signing secret without its value.
type SigningSecret event.Secret
