package action

import (
	"encoding/json"
	"time"
)

// Call is one request to run an action. Identity is part of it, never hidden
// in a context.
//
// The context that goes with it is the caller's patience: its end detaches
// the caller and stops nothing that already runs. When its cause (see
// [context.Cause]) is ErrCancelled and no other caller waits, a held call of
// an interactive session is withdrawn.
type Call struct {
	Session        Session
	Source         string
	Action         string
	Params         json.RawMessage // an object; empty means {}
	IdempotencyKey string          // scoped to organization, session and action; at most 255 bytes
	Waiting
}

// Waiting is how a caller waits for an invocation.
type Waiting struct {
	// Patience bounds the wait on a person's decision. When it is over, the
	// outcome is the pending invocation, and the caller counts as waiting on.
	// Zero or less: the outcome is given at once. Executing calls are waited
	// for regardless, within the context.
	Patience time.Duration
	// Held is called at once when the call is held, and then every
	// Config.HoldEvery for as long as it is. Nil is fine.
	Held func(Invocation)
	// Progress is called with the params object of each progress
	// notification of the source, without a token. Nil is fine.
	Progress func(json.RawMessage)
}

// Forever is a Patience without bound.
const Forever = time.Duration(1<<63 - 1)

// Answer is what a source answered, as it is handed to callers and, sealed,
// kept for those who come back.
type Answer struct {
	Body    json.RawMessage `json:"body,omitempty"`    // a CallToolResult, unchanged
	Problem json.RawMessage `json:"problem,omitempty"` // or a JSON-RPC error object
	IsError bool            `json:"is_error,omitempty"`
}

// Outcome is what a caller gets. The status of its invocation tells which:
//
//   - completed: Answer.Body is the result;
//   - failed: with code tool_error Answer.Body is what the source said, with
//     upstream_error Answer.Problem; otherwise Invocation.Error says it;
//   - denied, expired: Invocation says why;
//   - pending, approved, executing: the wait ended first.
type Outcome struct {
	Invocation Invocation
	Answer     Answer
	// Repeated tells that the call joined an earlier one or was handed its
	// outcome again.
	Repeated bool
}

// Available is an action as one session sees it.
type Available struct {
	*Action
	Decision Decision
}
