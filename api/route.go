// Package api declares the HTTP API once: each operation with its method, path,
// who may use it, what it takes and what it answers. The server mounts these
// routes and describes them as OpenAPI; package client and the command line call
// them. It knows the words of action and event, and nothing else.
//
// An input is a struct whose fields carry the tags path, query or header with
// the name of the parameter; a field Body is the JSON body. The tags doc,
// example, enum, minimum, maxLength and their like describe a field in OpenAPI
// and are checked by the server before a handler runs.
package api

// Access says who may use an operation. The zero value is nobody.
type Access int

// A person is a browser's sign-in or an API key with its role; a session is an
// agent with its token; a worker is a service key that works on runs.
const (
	Nobody   Access = iota
	Public          // everybody, without a credential
	Anyone          // any valid credential
	Listener        // any but a worker's key
	Agent           // the session of the path, with its own token
	Caller          // any session; the body names it
	Audience        // the session of the path, or any person of its organization
	Approver        // that session, or a person who decides
	Member          // any person
	Worker          // a worker's key, or a person who decides
	Holder          // that, or the session that works on the run of the path
	Reader          // any person, or that session
	Decider         // an owner or admin
	Owner           // an owner
	Hosted          // the bearer of a host application's token
)

// Operation is one operation of the API.
type Operation struct {
	Method, Path string
	Who          Access
	Tag          string // what it is about
	Summary      string
	Doc          string
	Status       int   // of success; zero: 200, or 204 without a body
	Errors       []int // beyond those that every operation of its kind has
}

// Route is an operation with the types of its input and of its answer.
type Route[In, Out any] struct{ Operation }

// None is an input without parameters, or an answer without a body.
type None struct{}

// Body is an input that is a body alone.
type Body[B any] struct{ Body B }

// Problem is every error that the API answers (RFC 9457).
type Problem struct {
	Type       string `json:"type" example:"about:blank"`
	Title      string `json:"title" example:"Conflict" doc:"The HTTP status text."`
	Status     int    `json:"status" example:"409"`
	Code       string `json:"code" example:"already_decided" doc:"Stable error code."`
	Detail     string `json:"detail" example:"This call was approved by ada a moment ago." doc:"What happened and what to do."`
	Field      string `json:"field,omitempty" example:"/params/title" doc:"JSON Pointer of the invalid field."`
	Invocation string `json:"invocation,omitempty" example:"0199a3c4-5d6e-7f80-9123-456789abcdef" doc:"ID of the call concerned."`
}
