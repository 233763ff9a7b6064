package action

import (
	"context"
	"encoding/json"
	"errors"
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

	QuotasTaken bool // against the limits of policy
	SkipGrants  bool // no grant is looked for
}

// Waiting is how a caller waits for an invocation.
type Waiting struct {
	// Patience bounds the wait on a person's decision. When it is over, the
	// outcome is the pending invocation, and the caller counts as waiting on.
	// Zero or less: the outcome is given at once. Executing calls are waited
	// for regardless, within the context.
	Patience time.Duration
	// Polls says that the caller waits neither for a person nor for the execution
	// of a call that one approved: it comes back by itself, see Gate.Look.
	Polls bool
	// OnOpened is called once, before Held, for the call that is held: not for one
	// that joins it, and not for who comes back for it. True: the caller was told
	// where the call is decided and leaves with that, to come back by itself.
	// Nil is fine.
	OnOpened func(*Invocation) (leaves bool)
	// OnHeld is called at once when the call is held, a second time within
	// Config.HoldEvery, and then every HoldEvery until it ends, also while it
	// executes after its approval. Nil is fine. Held and Progress are called one
	// at a time, on the goroutine of the caller, and never after it returned. The
	// invocation is the Gate's, here as in Opened: to be read before they return.
	OnHeld func(*Invocation)
	// OnProgress is called with the params object of each progress
	// notification of the source, without a token. Nil is fine. A caller that
	// does not keep up loses the oldest.
	OnProgress func(json.RawMessage)
	// OnLog is called in the same way with the params object of each log message
	// of the source. Nil is fine.
	OnLog func(json.RawMessage)
	// LogLevel is the least severe level of log messages that are wanted, as
	// MCP names levels. Empty: the caller did not say.
	LogLevel string
	// Features says what the caller can be asked. A caller who is asked gets an
	// outcome with a Round. Zero: nothing.
	Features ClientFeatures
	// Resumes says that the caller's client comes back for what it was asked, in
	// a new request, and may have lost the question: a round that somebody was
	// given before this caller came, and did not answer, is given to this one.
	Resumes bool

	Unattended bool // nobody sits with the caller
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
	// caller answers with Gate.Reply and comes back with Gate.Wait.
	Round *Round
	// Repeated tells that the call joined an earlier one or was handed its
	// outcome again.
	Repeated bool

	// joins tells that a repeat may be handed this outcome, so that its
	// delivery matters.
	Joins bool
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

// Completion is what the agent of a run says when it is done.
type Completion struct {
	ID      string // the agent's own, by which it may say so again
	Run     string // empty: that of its session
	Outcome string // succeeded, failed or needs_human
	Message string // for people, in short; redacted
	// Record is all that it said, an object; redacted, and kept as the run's result.
	Record json.RawMessage
	// ReplayFor is how long the session is answered the same again.
	ReplayFor time.Duration
}

// CompletionResult is what a completion ended: for those who look, and wait.
type CompletionResult struct {
	Run       string
	Status    Status // of the run
	Withdrawn []Invocation
}

// Platform is the id of the source that is the gateway itself: its tools have no
// prefix, and what they do happens here.
const Platform = "platform"

// PlatformTool is what distinguishes an action of [Platform] from all others.
type PlatformTool struct {
	// SessionTypes of session that may use it. Nil: every one.
	SessionTypes []SessionType
	// RunsOnly tells that it is for the sessions of an automation's runs alone.
	RunsOnly bool
	// Replay returns the reply to the same call if it was made before: nothing
	// is decided, counted or written then. Otherwise its error, an [*Error],
	// refuses what is not to be done, before it is decided: ErrConflict when the
	// id was another call's, ErrTooMany when the session's quota is used up. The
	// key is the call's of idempotency; empty: it has none.
	Replay func(ctx context.Context, s *Session, key string, params json.RawMessage) (*ToolReply, error)
}

// ToolCall is one call of a tool of [Platform].
type ToolCall struct {
	Organization string
	Session      string
	Tool         string
	// ID of the call, that its agent gave it: unique in the session and tool.
	// Empty: that which the invocation was called with, or else the invocation's.
	ID         string
	Invocation string
	ParamsHash string
	Quota      Rate // of the session's calls of the tool; zero: none
}

// ToolReply is what such a tool answers.
type ToolReply struct {
	Invocation string          // that it answered first
	Failed     bool            // the tool did not do it, and would not for a repeat
	Text       string          // for the agent
	Data       json.RawMessage // an object for programs; nil: none
}

// Result returns the reply as a result of tools/call.
func (r *ToolReply) Result() Result {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	body, err := json.Marshal(struct {
		Content    []content       `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError,omitempty"`
	}{[]content{{"text", r.Text}}, r.Data, r.Failed})
	if err != nil { // Data is none of JSON
		body = json.RawMessage(`{"content":[],"isError":true}`)
	}
	return Result{Body: body, IsError: r.Failed}
}

// The first byte of a kept answer says what follows.
const (
	encodedBody      = 'b'
	encodedToolError = 'e'
	encodedProblem   = 'p'
)

// Encode frames the answer byte for byte; encoding/json would alter it.
func (a *Answer) Encode() []byte {
	kind, bytes := byte(encodedBody), []byte(a.Body)
	switch {
	case a.Problem != nil:
		kind, bytes = encodedProblem, a.Problem
	case a.IsError:
		kind = encodedToolError
	}
	return append([]byte{kind}, bytes...)
}

func DecodeAnswer(kept []byte) (Answer, error) {
	if len(kept) < 2 {
		return Answer{}, errors.New("a kept answer is empty")
	}
	switch kept[0] {
	case encodedBody:
		return Answer{Body: kept[1:]}, nil
	case encodedToolError:
		return Answer{Body: kept[1:], IsError: true}, nil
	case encodedProblem:
		return Answer{Problem: kept[1:]}, nil
	}
	return Answer{}, errors.New("a kept answer is of an unknown kind")
}

// TraceStep is a part of a call that is a span.
type TraceStep string

// The steps of a call.
const (
	TraceCall    TraceStep = "call"    // a caller's, from the request to the answer
	TraceWait    TraceStep = "wait"    // likewise of a caller who comes back for a call
	TraceDecide  TraceStep = "decide"  // finding and checking the action, and policy
	TraceHold    TraceStep = "hold"    // while a caller waits for a person
	TraceResume  TraceStep = "resume"  // an approved call, from its claim to its end, which are the next two
	TraceRecheck TraceStep = "recheck" // reading everything again before it runs
	TraceExecute TraceStep = "execute" // the source's work
)

// TraceAttributes is what a span tells of a call. Params, results, and texts that people
// or sources wrote have no place in it, so that none gets out by a trace.
type TraceAttributes struct {
	Organization string
	Session      string
	Invocation   string
	Source       string
	Action       string
	Mode         Mode
	ModeSource   Layer
	Status       Status
	Code         string // why it failed, was denied or refused: one of the gateway's own words
	Repeated     bool   // the call joined an earlier one, or was handed its outcome
}
