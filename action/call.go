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
//
// The Gate writes into it while the call is on its way: who makes several at once
// has one for each.
type Call struct {
	Session        Session
	Source         string
	Action         string
	Params         json.RawMessage // an object; empty means {}
	IdempotencyKey string          // scoped to organization, session and action; at most 255 bytes
	Waiting

	counted   bool // against the limits of policy
	ungranted bool // no grant is looked for
}

// Waiting is how a caller waits for an invocation.
type Waiting struct {
	// Patience bounds the wait on a person's decision. When it is over, the
	// outcome is the pending invocation, and the caller counts as waiting on.
	// Zero or less: the outcome is given at once. Executing calls are waited
	// for regardless, within the context.
	Patience time.Duration
	// Leaves says that the caller waits neither for a person nor for the execution
	// of a call that one approved: it comes back by itself, see [Gate.Look].
	Leaves bool
	// Opened is called once, before Held, for the call that is held: not for one
	// that joins it, and not for who comes back for it. True: the caller was told
	// where the call is decided and leaves with that, to come back by itself.
	// Nil is fine.
	Opened func(*Invocation) (leaves bool)
	// Held is called at once when the call is held, a second time within
	// Config.HoldEvery, and then every HoldEvery until it ends, also while it
	// executes after its approval. Nil is fine. Held and Progress are called one
	// at a time, on the goroutine of the caller, and never after it returned. The
	// invocation is the Gate's, here as in Opened: to be read before they return.
	Held func(*Invocation)
	// Progress is called with the params object of each progress
	// notification of the source, without a token. Nil is fine. A caller that
	// does not keep up loses the oldest.
	Progress func(json.RawMessage)
	// Log is called in the same way with the params object of each log message
	// of the source. Nil is fine.
	Log func(json.RawMessage)
	// LogLevel is the least severe level of log messages that are wanted, as
	// MCP names levels. Empty: the caller did not say.
	LogLevel string
	// Can says what the caller can be asked. A caller who is asked gets an
	// outcome with a Round. Zero: nothing.
	Can ClientFeatures
	// Again says that the caller's client comes back for what it was asked, in
	// a new request, and may have lost the question: a round that somebody was
	// given before this caller came, and did not answer, is given to this one.
	Again bool

	unattended bool // nobody sits with the caller
}

// Forever is a Patience without bound.
const Forever = time.Duration(1<<63 - 1)

// Answer is what a source answered, as it is handed to callers and, sealed,
// kept for those who come back.
type Answer struct {
	Body    json.RawMessage // a CallToolResult, unchanged
	Problem json.RawMessage // or a JSON-RPC error object
	IsError bool            // Body says so of itself
}

// Outcome is what a caller gets. The status of its invocation tells which:
//
//   - completed: Answer.Body is the result;
//   - failed: with code tool_error Answer.Body is what the source said, with
//     upstream_error Answer.Problem; otherwise Invocation.Error says it;
//   - denied, expired: Invocation says why;
//   - pending: the caller's patience ended, or the gateway shuts down;
//   - executing: the source asks something first, see Round.
//
// An Answer without Body and Problem of a completed invocation tells that its
// full result is no longer kept; Invocation.Result has the redacted one.
type Outcome struct {
	Invocation Invocation
	Answer     Answer
	// Round is what the source asks of this caller before it goes on. The
	// caller answers with [Gate.Reply] and comes back with [Gate.Wait].
	Round *Round
	// Repeated tells that the call joined an earlier one or was handed its
	// outcome again.
	Repeated bool

	// joins tells that a repeat may be handed this outcome, so that its
	// delivery matters.
	joins bool
}

// Available is an action as one session sees it.
type Available struct {
	*Action
	Decision Decision
}

// Explained is what would become of a call.
type Explained struct {
	Available
	// Refused is the DeniedReason with which a call that asks would be refused
	// without asking, or "too_many_pending"; empty: a person is asked. Note
	// says why.
	Refused string
	Note    string
}
