package action

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Call is a request to run an action. The caller's identity is part of it,
// not of the context.
//
// When the context ends, the caller is detached; a running execution
// continues. If the cause (see [context.Cause]) is ErrCancelled and no other
// caller waits, a pending call of an interactive session is withdrawn.
//
// The Gate writes to the Call while it runs, so concurrent calls need one
// each.
type Call struct {
	Session        Session
	Source         string
	Action         string
	Params         json.RawMessage // an object; empty means {}
	IdempotencyKey string          // scoped to organization, session and action; at most 255 bytes
	Waiting

	QuotasTaken bool // the quotas of policy were charged
	SkipGrants  bool // decide without grants
}

// Waiting configures how a caller waits for an invocation.
type Waiting struct {
	// Patience limits the wait for a person's decision. When it ends, the
	// caller gets the pending invocation and still counts as waiting. Zero or
	// less: return at once. An executing call is waited for regardless, until
	// the context ends.
	Patience time.Duration
	// Polls reports that the caller does not wait for the decision or the
	// execution, but asks for the outcome again later.
	Polls bool
	// OnOpened is called once, before OnHeld, for a call that becomes
	// pending; not for a call that joins it or a caller that returns to it.
	// It returns true if it told the caller where to decide the call, and the
	// caller polls. May be nil.
	OnOpened func(*Invocation) (leaves bool)
	// OnHeld is called when the call becomes pending, again within
	// Config.HoldEvery, and then every HoldEvery until it ends, also during
	// the execution. May be nil. OnHeld and OnProgress are called one at a
	// time, on the caller's goroutine, and never after it returned. The
	// invocation belongs to the Gate and must not be kept.
	OnHeld func(*Invocation)
	// OnProgress is called with the params of each progress notification of
	// the source, without the token. May be nil. A slow caller loses the
	// oldest ones.
	OnProgress func(json.RawMessage)
	// OnLog is called in the same way with the params of each log message of
	// the source. May be nil.
	OnLog func(json.RawMessage)
	// LogLevel is the minimum level of log messages, in MCP's terms; empty:
	// not set.
	LogLevel string
	// Features are the questions that the caller can answer. It then gets
	// outcomes with a Round. Zero: none.
	Features ClientFeatures
	// Resumes reports that the client returns in a new request for the
	// questions it was asked, and may have lost them: it also gets a round
	// that an earlier caller received and did not answer.
	Resumes bool

	Unattended bool // no person is at the caller
}

// Forever is a Patience without limit.
const Forever = time.Duration(1<<63 - 1)

// Answer is the response of a source as returned to callers, and stored
// encrypted for callers that return later.
type Answer struct {
	Body    json.RawMessage // a CallToolResult, unchanged
	Problem json.RawMessage // or a JSON-RPC error object
	IsError bool            // isError of Body
}

// Outcome is the result of a call. The status of its invocation determines
// its content:
//
//   - completed: Answer.Body is the result;
//   - failed: Answer.Body with code tool_error, Answer.Problem with
//     upstream_error, otherwise Invocation.Error;
//   - denied, expired: Invocation has the reason;
//   - pending: the caller's patience ended, or the gateway is shutting down;
//   - executing: the source asks a question first, see Round.
//
// If a completed invocation has an Answer without Body and Problem, the full
// result was deleted; Invocation.Result has the redacted one.
type Outcome struct {
	Invocation Invocation
	Answer     Answer
	// Round has the questions of the source that this caller must answer with
	// Gate.Reply, before it returns with Gate.Wait.
	Round *Round
	// Repeated reports that the call joined an earlier one or got its outcome
	// again.
	Repeated bool

	// Joins reports that a repeated call may get this outcome, so its
	// delivery must be recorded.
	Joins bool
}

// Available is an action as one session sees it.
type Available struct {
	*Action
	Decision Decision
}

// DeniedTools is the number of a source's tools that policy denies a session.
type DeniedTools struct {
	Source     string `json:"source_id"`
	SourceName string `json:"source"`
	Count      int    `json:"count"`
}

// Explained is the predicted outcome of a call.
type Explained struct {
	Available
	// Refused is the DeniedReason with which a call that needs approval would
	// be denied at once, or "too_many_pending"; empty: it would become
	// pending. Note has the reason in words.
	Refused string
	Note    string
}

// Completion is an agent's report that its run is done.
type Completion struct {
	ID      string // ID from the agent; a repeat uses the same one
	Run     string // empty: that of its session
	Outcome string // succeeded, failed or needs_human
	Message string // short, for people; redacted
	// Record is the whole report as a redacted JSON object, stored as the
	// result of the run.
	Record json.RawMessage
	// ReplayFor is how long the session still gets the same reply.
	ReplayFor time.Duration
}

// CompletionResult is what a completion ended, to notify those who watch or
// wait.
type CompletionResult struct {
	Run       string
	Status    Status // of the run
	Withdrawn []Invocation
}

// Platform is the source ID of the gateway's own tools. Their names have no
// prefix.
const Platform = "platform"

// Git is the source ID of the gateway's Git server. Its actions are not tools.
const Git = "git"

// PlatformTool has the properties of an action of [Platform].
type PlatformTool struct {
	// SessionTypes are the types of session that may use it. Nil: all.
	SessionTypes []SessionType
	// RunsOnly limits it to sessions of automation runs.
	RunsOnly bool
	// Replay returns the reply of an earlier identical call; then nothing is
	// decided, counted or written. Otherwise it may refuse the call with an
	// [*Error] before it is decided: ErrConflict if the ID belongs to another
	// call, ErrTooMany if the session's quota is used up. The key is the
	// idempotency key of the call; empty: none.
	Replay func(ctx context.Context, s *Session, key string, params json.RawMessage) (*ToolReply, error)
}

// ToolCall is a call of a tool of [Platform].
type ToolCall struct {
	Organization string
	Session      string
	Tool         string
	// ID is unique in the session and tool, and chosen by the agent. Empty:
	// the invocation's idempotency key, or its ID.
	ID         string
	Invocation string
	ParamsHash string
	Quota      Rate // for the session's calls of the tool; zero: none
}

// ToolReply is the reply of a tool of [Platform].
type ToolReply struct {
	Invocation string          // the invocation that first got it
	Failed     bool            // the tool refused, and would refuse a repeat
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
	if err != nil { // Data is not valid JSON
		body = json.RawMessage(`{"content":[],"isError":true}`)
	}
	return Result{Body: body, IsError: r.Failed}
}

// The first byte of an encoded answer is its kind.
const (
	encodedBody      = 'b'
	encodedToolError = 'e'
	encodedProblem   = 'p'
)

// Encode returns the answer behind a kind byte. encoding/json would alter its
// bytes.
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

// DecodeAnswer reverses [Answer.Encode].
func DecodeAnswer(kept []byte) (Answer, error) {
	if len(kept) < 2 {
		return Answer{}, errors.New("an encoded answer is empty")
	}
	switch kept[0] {
	case encodedBody:
		return Answer{Body: kept[1:]}, nil
	case encodedToolError:
		return Answer{Body: kept[1:], IsError: true}, nil
	case encodedProblem:
		return Answer{Problem: kept[1:]}, nil
	}
	return Answer{}, errors.New("an encoded answer has an unknown kind")
}

// TraceStep is a part of a call that has its own span.
type TraceStep string

// The steps of a call.
const (
	TraceCall    TraceStep = "call"    // a caller's request, from start to response
	TraceWait    TraceStep = "wait"    // the same, for a caller that returns to a call
	TraceDecide  TraceStep = "decide"  // lookup, validation and policy decision
	TraceHold    TraceStep = "hold"    // waiting for a person's decision
	TraceResume  TraceStep = "resume"  // an approved call, from claim to end; it contains the next two
	TraceRecheck TraceStep = "recheck" // the recheck before the execution
	TraceExecute TraceStep = "execute" // the execution by the source
)

// TraceAttributes are the attributes of a span. They leave out params,
// results and free text, so that traces cannot leak them.
type TraceAttributes struct {
	Organization string
	Session      string
	Invocation   string
	Source       string
	Action       string
	Mode         Mode
	ModeSource   Layer
	Status       Status
	Code         string // error code or denied reason
	Fault        string // the exact cause of a failure; empty: Code says it
	Repeated     bool   // the call joined an earlier one or got its outcome again
}

// Status is the status of an invocation:
//
//	            ┌─────────────► denied     (policy, human, withdrawn)
//	Call ── decide ──► executing ──► completed | failed
//	            └────► pending ── approve ──► approved ── claim ──► executing
//	                      ├── deny, withdraw ► denied      │
//	                      └── time ──► expired  ◄── 5 min ─┘ (also: stale → failed, now denied → denied)
type Status string

// The statuses. The last four are terminal.
const (
	StatusPending   Status = "pending"
	StatusApproved  Status = "approved"
	StatusExecuting Status = "executing"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusDenied    Status = "denied"
	StatusExpired   Status = "expired"
)

// Terminal reports whether nothing more can happen to the invocation.
func (s Status) Terminal() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusDenied || s == StatusExpired
}

// Valid reports whether s is one of the seven statuses.
func (s Status) Valid() bool {
	return s == StatusPending || s == StatusApproved || s == StatusExecuting || s.Terminal()
}

// The reasons of a denied invocation (denied_reason).
const (
	DeniedPolicy    = "policy"    // policy said so
	DeniedHuman     = "human"     // a person said no
	DeniedRepeated  = "repeated"  // a person said no to the same call a short while ago
	DeniedOften     = "often"     // people said no to this action again and again in this session
	DeniedWithdrawn = "withdrawn" // the last caller cancelled or left
	DeniedQuota     = "quota"     // a tool of the gateway's own has done for the session what it does at once
)

// The codes of a failed invocation (error.code).
const (
	FailedTool     = "tool_error"           // the source answered with isError
	FailedUpstream = "upstream_error"       // the source answered with a JSON-RPC error
	FailedReach    = "upstream_unavailable" // the source was not reached, or a read got no answer
	FailedUnknown  = "outcome_unknown"      // a write may or may not have happened
	FailedStale    = "stale_approval"       // what was approved is not what would run
	FailedInternal = "internal"             // the gateway failed before anything ran
)

// Failure is why an invocation failed.
type Failure struct {
	Code    string `json:"code" doc:"Whether anything was executed: one of tool_error, upstream_error, upstream_unavailable, outcome_unknown, stale_approval and internal."`
	Fault   string `json:"fault,omitempty" doc:"The exact cause, if the code alone does not say it, such as upstream_timeout, upstream_auth or upstream_rate_limited."`
	Message string `json:"message"` // redacted
}

// Label returns the codes for lists. A fault replaces [FailedReach], which says less.
func (f *Failure) Label() string {
	switch {
	case f.Fault == "":
		return f.Code
	case f.Code == FailedReach:
		return f.Fault
	}
	return f.Code + ": " + f.Fault
}

// Invocation is the record of a call. Its JSON form is the API's.
type Invocation struct {
	ID           string          `json:"id"`
	Organization string          `json:"organization_id"`
	Session      string          `json:"session_id"`
	Source       string          `json:"source_id"`
	SourceName   string          `json:"source_name"`
	Action       string          `json:"action"`
	Risk         Risk            `json:"risk"`
	Mode         Mode            `json:"mode"`
	ModeSource   Layer           `json:"mode_source"`
	Steps        []Step          `json:"decision,omitempty"`
	Status       Status          `json:"status"`
	Summary      string          `json:"summary,omitempty"`        // the call in one line; redacted
	Params       json.RawMessage `json:"params"`                   // redacted
	ParamsHash   string          `json:"params_hash"`              // keyed, over the canonical params
	ToolHash     string          `json:"tool_hash"`                // [Action.Hash] when it was decided
	Revision     string          `json:"-"`                        // [Action.Revision] when it was decided
	Result       json.RawMessage `json:"result,omitempty"`         // redacted, pruned to 10 KB
	ResultNote   string          `json:"result_summary,omitempty"` // the result in a line; redacted
	Error        *Failure        `json:"error,omitempty"`
	DeniedReason string          `json:"denied_reason,omitempty"`
	DeniedNote   string          `json:"denied_note,omitempty"`
	ApprovedBy   string          `json:"approved_by,omitempty"` // who decided, also for a denial
	ApprovedAt   *time.Time      `json:"approved_at,omitempty"`
	Grant        string          `json:"grant_id,omitempty"`       // that covered it
	Integration  string          `json:"integration_id,omitempty"` // that the module used
	Executor     string          `json:"executor,omitempty"`       // the instance that ran it
	CreatedAt    time.Time       `json:"created_at"`
	ExpiresAt    *time.Time      `json:"expires_at,omitempty"` // when the pending call expires
	StartedAt    *time.Time      `json:"started_at,omitempty"` // of the execution
	CompletedAt  *time.Time      `json:"completed_at,omitempty"`
	DurationMS   *int64          `json:"duration_ms,omitempty"` // of the execution
	ApprovalURL  string          `json:"approval_url,omitempty"`
}

// InvocationFilter selects invocations of an organization. Empty fields match
// all.
type InvocationFilter struct {
	Organization string
	Session      string
	Run          string // whose sessions, of all its claims
	Automation   string // of the session
	Group        string // of the session
	Person       string // who approved or denied it
	Statuses     []Status
	Source       string
	Action       string
	Risk         Risk
	Mode         Mode
	From, To     time.Time // created in this time: From is included, To is not
	Limit        int       // zero: 50; at most 500
	Cursor       string    // of the page before; empty: the newest
}

// Page is a page of a list, newest first.
type Page[T any] struct {
	Items  []T
	Next   string // cursor of the next page; empty: last page
	Total  int    // of the whole list, up to a limit
	Capped bool   // Total is a lower bound

	// SearchedSince is set if the search limit was reached: everything since
	// then was searched. The page may be short or empty, and Next continues.
	SearchedSince time.Time
}

// InboxCounts counts what needs a person, by kind.
type InboxCounts struct {
	Calls     int `json:"calls"`
	Grants    int `json:"grants"`    // requests for grants
	Variables int `json:"variables"` // requests for environment variables
	Runs      int `json:"runs"`      // that need attention
}

// CallerState is the state of the callers of a pending call.
type CallerState struct {
	SeenAt   time.Time // when a caller was last connected
	Answered bool      // a caller got "pending" and asks again later
}
