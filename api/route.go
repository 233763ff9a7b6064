// Package api declares the HTTP API once: each operation with its method, path,
// access, input and output. The server mounts these routes and describes them
// as OpenAPI; package client and the command line call them. It depends only on
// packages action and event.
//
// An input is a struct whose fields carry the tags path, query or header with
// the name of the parameter; a field Body is the JSON body. Tags such as doc,
// example, enum, minimum and maxLength describe a field in OpenAPI; the server
// validates the input against them before a handler runs.
package api

// Access says who may use an operation. The zero value is Nobody.
type Access int

// A person has a browser session or an API key with a role; a session is an
// agent with its token; a worker is a service key that works on runs.
const (
	Nobody   Access = iota
	Public          // no credential needed
	Anyone          // any valid credential
	Listener        // any valid credential except a worker's key
	Agent           // the session of the path, with its own token
	Caller          // any session, with its own token; the body names it
	Audience        // the session of the path, or any person in its organization
	Approver        // the session of the path, or an owner or admin
	Member          // any person
	Worker          // a worker's key, or an owner or admin
	Holder          // as Worker, or the session that works on the run of the path
	Reader          // any person, or the session that works on the run of the path
	Decider         // an owner or admin
	Owner           // an owner
	Hosted          // the holder of a host application's token
)

// Operation is one operation of the API.
type Operation struct {
	Method, Path string
	Who          Access
	Tag          string // subject in OpenAPI
	Summary      string
	Doc          string
	Status       int   // of success; zero: 200, or 204 without a body
	Errors       []int // beyond those that every operation of its kind has
}

// Route is an operation with its input and output types.
type Route[In, Out any] struct{ Operation }

// None is an input without parameters, or a response without a body.
type None struct{}

// Body is an input that is a body alone.
type Body[B any] struct {
	Body B `kong:"embed"`
}

// Problem is the body of every error response (RFC 9457).
type Problem struct {
	Type       string `json:"type" example:"about:blank"`
	Title      string `json:"title" example:"Conflict" doc:"The HTTP status text."`
	Status     int    `json:"status" example:"409"`
	Code       string `json:"code" example:"already_decided" doc:"Stable error code."`
	Detail     string `json:"detail" example:"This call was approved by ada a moment ago." doc:"What happened and what to do."`
	Field      string `json:"field,omitempty" example:"/params/title" doc:"JSON Pointer of the invalid field."`
	Invocation string `json:"invocation,omitempty" example:"0199a3c4-5d6e-7f80-9123-456789abcdef" doc:"ID of the call concerned."`
}

// List is the response of every list operation.
type List[T any] struct {
	Items       []T    `json:"items" nullable:"false"`
	NextCursor  string `json:"next_cursor,omitempty" doc:"Send it as cursor to get the next page; missing at the end."`
	Total       int    `json:"total" example:"1"`
	TotalCapped bool   `json:"total_capped,omitempty" doc:"There are more items than total."`
}

// Paging is the parameters of every long list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Number of items." kong:"env='-',type='limit',help='Number of items, 1 to 100.'"`
	Cursor string `query:"cursor" doc:"next_cursor of the previous page." kong:"env='-',help='Value of next_cursor from the previous page.'"`
}

// ByAutomationWith is [ByAutomation] with a body.
type ByAutomationWith[B any] struct {
	ByAutomation
	Body B `kong:"embed"`
}

// ByCapabilityWith is [ByCapability] with a body.
type ByCapabilityWith[B any] struct {
	ByCapability
	Body B `kong:"embed"`
}

// ByIDWith is [ByID] with a body.
type ByIDWith[B any] struct {
	ByID
	Body B `kong:"embed"`
}

// ByIDWaitWith is [ByIDWait] with a body.
type ByIDWaitWith[B any] struct {
	ByIDWait
	Body B `kong:"embed"`
}

// ByKeyWith is [ByKey] with a body.
type ByKeyWith[B any] struct {
	ByKey
	Body B `kong:"embed"`
}

// ByNotifyKindWith is [ByNotifyKind] with a body.
type ByNotifyKindWith[B any] struct {
	ByNotifyKind
	Body B `kong:"embed"`
}

// ByPolicyKeyWith is [ByPolicyKey] with a body.
type ByPolicyKeyWith[B any] struct {
	ByPolicyKey
	Body B `kong:"embed"`
}

// ByProviderWith is [ByProvider] with a body.
type ByProviderWith[B any] struct {
	ByProvider
	Body B `kong:"embed"`
}

// ByRefWith is [ByRef] with a body.
type ByRefWith[B any] struct {
	ByRef
	Body B `kong:"embed"`
}

// InSessionWith is [InSession] with a body.
type InSessionWith[B any] struct {
	InSession
	Body B `kong:"embed"`
}

// InSessionByIDWith is [InSessionByID] with a body.
type InSessionByIDWith[B any] struct {
	InSessionByID
	Body B `kong:"embed"`
}
