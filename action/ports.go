package action

import (
	"context"
	"encoding/json"
	"time"
)

// Limiter is a rate limiter. Keys are built from IDs, never from names that a
// caller chose.
type Limiter interface {
	// Allow counts one call and returns zero, or how long to wait if the
	// limit is reached.
	Allow(ctx context.Context, key string) time.Duration
	// Take counts one call against l in the same way.
	Take(ctx context.Context, l Limit) time.Duration
}

// Vault hashes and encrypts stored params and results.
type Vault interface {
	// Hash returns the keyed hash of canonical bytes, in hex.
	Hash(canonical []byte) string
	// Seal encrypts plain for the place that ref names; Open decrypts it only
	// for the same place.
	Seal(ref Ref, plain []byte) ([]byte, error)
	Open(ref Ref, sealed []byte) ([]byte, error)
}

// Ref is the location of an encrypted value. A value moved elsewhere cannot
// be decrypted.
type Ref struct {
	Organization string
	Table        string
	Row          string
	Column       string
}

// Ledger keeps invocations. Every method is one transaction and returns when
// it is durable, but for Begin of a Snapshot draft and Delivered, which are
// queued: later calls of the same ledger see them, and are durable only when
// they are.
type Ledger interface {
	// Begin writes the draft's row, or finds the one that answers the call
	// already. Nobody changes the draft afterwards. In its transaction, in this
	// order:
	//
	//  1. unless Snapshot: the session must be live (ErrUnauthenticated) and
	//     the policy version the organization's ([ErrPolicyMoved]);
	//  2. if Joins: the row of the same idempotency key is returned, or
	//     ErrConflict with code "idempotency_key_reused" when its params
	//     differ; else the open row of the same call (session, source,
	//     action, params hash); else a terminal one that no caller received
	//     yet and that may still be picked up. What joins nothing is refused
	//     when Paused, or when the session is paused unless Snapshot
	//     (ErrConflict, code "session_paused");
	//  3. if Grants: [ErrDeniedBefore] when a person denied the same call since
	//     DeniedSince; if Pending: such a denial turns the draft into a denied
	//     row with reason DeniedRepeated; DenialLimit denials of the action by people in the session, with any
	//     params, into one with reason DeniedOften; MaxPending pending rows of
	//     the session refuse it (ErrTooMany, code "too_many_pending");
	//  4. if Grants: one call of the first of them that is still usable is
	//     used up and noted in the row; [ErrGrantSpent] when none is;
	//  5. the row is inserted, and the idempotency key with it.
	//
	// A key or row whose invocation was denied, withdrawn or expired, or whose
	// pick-up time is over, counts as absent in step 2.
	Begin(ctx context.Context, d *Draft) (*BeginResult, error)

	// Approve, Deny, Withdraw, Claim and Finish change the status by
	// compare-and-swap: one caller of a race wins, and the others get
	// ErrConflict.

	// Approve turns pending into approved; Deny turns it into denied. Errors:
	// ErrNotFound; ErrGone if it expired; ErrConflict if it was already
	// decided (the message says how and by whom), or if a hash in v differs;
	// ErrForbidden (code "self_approval") if v.By created the session and the
	// organization does not allow self-approval.
	//
	// Approve also creates v.Grant in the same transaction, with the row's
	// source, action, tool hash and session, and sets v.Grant to the result.
	Approve(ctx context.Context, v Verdict) (Invocation, error)
	Deny(ctx context.Context, v Verdict) (Invocation, error)
	// Withdraw turns pending into denied with reason DeniedWithdrawn.
	Withdraw(ctx context.Context, organization, id string, now time.Time) (Invocation, error)
	// Claim turns approved into executing for the executor.
	Claim(ctx context.Context, c Claim) (Record, error)
	// Finish ends an executing row of the executor. If the row has already
	// ended, only a late-outcome event is appended, and recorded is false.
	Finish(ctx context.Context, f *Finish) (inv Invocation, recorded bool, err error)

	// The following methods read and maintain rows.

	// Load returns a row, or ErrNotFound if the organization has none with
	// the ID.
	Load(ctx context.Context, organization, id string) (Record, error)
	// MarkSeen records that callers still wait for these rows.
	MarkSeen(ctx context.Context, ids []string, now time.Time) error
	// MarkAnswered records that a caller got "pending", which counts as
	// waiting until the invocation ends.
	MarkAnswered(ctx context.Context, organization, id string) error
	// MarkDelivered records that a caller received the outcome. It is queued.
	MarkDelivered(ctx context.Context, organization, id string, now time.Time) error
	// Preview predicts what Begin would do with a pending draft that joins no
	// other row, and writes nothing: the reason and note of a denial,
	// "too_many_pending", or nothing.
	Preview(ctx context.Context, d *Draft) (refused, note string, err error)
	// Settled returns those of the IDs that are no longer pending.
	Settled(ctx context.Context, ids []string) ([]Invocation, error)
	// Unclaimed returns up to limit approved rows that were approved before t.
	Unclaimed(ctx context.Context, t time.Time, limit int) ([]Invocation, error)
	// Sweep processes up to Limit overdue rows of each kind and returns the
	// invocations that it ended.
	Sweep(ctx context.Context, r SweepRules) (Swept, error)

	// AddRefusals writes counts of calls that were refused without a row, and sets
	// their ids.
	AddRefusals(ctx context.Context, list []RefusalCount) error

	// The following methods store the rounds of questions of executing
	// invocations.

	// OpenRound writes a round. ErrConflict if the invocation is no longer
	// executing.
	OpenRound(ctx context.Context, r *AskedRound) error
	// OpenRounds returns those of the invocations with an open round that no
	// caller has taken.
	OpenRounds(ctx context.Context, invocations []string) ([]string, error)
	// TakeRound assigns the invocation's open round to one caller. It returns
	// nil if there is none, if another caller has it, or if can lacks a
	// needed feature. A round taken before lost and not answered counts as
	// not taken; with the zero time none does.
	TakeRound(ctx context.Context, organization, invocation string, can ClientFeatures, lost, now time.Time) (*AskedRound, error)
	// ReplyRound writes replies, by key, from the session of the round; a key
	// keeps its first reply. The round is answered when every key is, or with
	// final; an answered round is returned unchanged. Errors: ErrNotFound
	// (also for another session, an unknown key, and a round that nobody
	// took), and ErrGone if the source no longer waits.
	ReplyRound(ctx context.Context, organization, session, id string, replies map[string][]byte, final bool, now time.Time) (AskedRound, error)
	// LoadRound returns a round with its replies; ErrNotFound.
	LoadRound(ctx context.Context, organization, id string) (AskedRound, error)
	// SaveCallerFeatures records the features of a caller that left a pending
	// or approved call and will return. Features of several callers add up.
	SaveCallerFeatures(ctx context.Context, organization, invocation string, can ClientFeatures) error
	// CallerFeatures returns the recorded features; zero: none.
	CallerFeatures(ctx context.Context, organization, invocation string) (ClientFeatures, error)
	// CloseRound ends a round, deletes its encrypted content, and appends an
	// event of kind "asked" with redacted data to its invocation. A closed
	// round stays unchanged.
	CloseRound(ctx context.Context, organization, id string, data json.RawMessage, now time.Time) error
}

// ErrPolicyMoved says that policy changed between a decision and its row:
// decide again.
var ErrPolicyMoved = NewError("policy_moved")

// ErrGrantSpent says that a grant was used up, revoked or expired between a
// decision and its row: decide again.
var ErrGrantSpent = NewError("grant_spent")

// ErrDeniedBefore says that a person recently denied the same call, which
// takes precedence over grants: decide again without grants.
var ErrDeniedBefore = NewError("denied_before")

// Draft is an invocation to be written, with status pending, executing or
// denied.
type Draft struct {
	Invocation
	PolicyVersion  int64
	Snapshot       bool // an allowed read: queued, without step 1
	Joins          bool
	Paused         bool // the session was paused when the call arrived: the call joins or is refused
	IdempotencyKey string
	SealedParams   []byte    // of a pending row
	MaxPending     int       // zero: no limit
	MaxCalls       int64     // of the session; zero: no limit
	DeniedSince    time.Time // see step 3
	DenialLimit    int       // see step 3; zero: none
	Grants         []string  // ids, see step 4
	Executor       string    // of an executing row: the instance that runs it
	LeaseUntil     time.Time // of an executing row
	Unattended     bool      // not withdrawn when its callers disconnect
}

// BeginResult is the result of Begin.
type BeginResult struct {
	Record
	// Created reports that the draft's own row was written.
	Created bool
}

// Record is an invocation's row with the fields that only the Gate may read.
type Record struct {
	Invocation
	SealedParams []byte // nil after the end
	SealedResult []byte // an [Answer], while a caller may still fetch it
	Delivered    bool
	Answered     bool // a caller got "pending"
}

// Verdict is a person's decision.
type Verdict struct {
	Organization string
	Session      string // empty: any session of the organization
	ID           string
	By           string // the user, from the login
	Note         string // of a denial; shown to the agent
	ParamsHash   string // hash that the person saw; empty: not checked
	ToolHash     string // likewise
	// Grant is created by an approval to cover later calls. Its Terms have
	// scope, pins, limit and expiry; the rest is filled in. Nil: none.
	Grant *Grant
	// Pin lists params, as JSON Pointers, that the grant pins to their values
	// in this call. The Gate converts them to Grant.Pins.
	Pin []string
	// Unreviewed permits a grant for a tool that changed since its review.
	// Without it such a grant is refused.
	Unreviewed bool
	Now        time.Time
}

// Claim is an instance's request to execute an invocation.
type Claim struct {
	Organization string
	ID           string
	Executor     string
	LeaseUntil   time.Time
	Now          time.Time
}

// Finish is the result of an execution.
type Finish struct {
	Organization string
	ID           string
	Executor     string
	Status       Status          // completed, failed or denied
	Result       json.RawMessage // redacted and pruned
	ResultNote   string          // the result in one line; redacted
	SealedResult []byte          // an [Answer]; nil if no caller may fetch it
	PickupUntil  time.Time
	Error        *Failure
	DeniedReason string
	DeniedNote   string
	Now          time.Time
	DurationMS   int64
	Integration  string // for which a module ran
}

// SweepRules define what is overdue.
type SweepRules struct {
	Now time.Time
	// SeenBefore: pending rows of interactive sessions are withdrawn if their
	// last caller was seen before this and did not get "pending".
	SeenBefore time.Time
	// ApprovedBefore: unclaimed rows approved before this expire.
	ApprovedBefore time.Time
	// LeaseBefore: executing rows whose lease expired before this fail with
	// outcome_unknown. The zero time: none.
	LeaseBefore time.Time
	// SoleInstance is the executor of the only running instance: executing
	// rows of other executors belong to dead processes and fail at once.
	// Empty: there may be others.
	SoleInstance string
	// Limit is the maximum number of rows of each kind; a few hundred, so
	// that other writes are not blocked for long.
	Limit int
	// PickupInteractive and PickupUnattended are how long after its end an
	// outcome can be fetched.
	PickupInteractive, PickupUnattended time.Duration
}

// Swept is what a sweep did, also one that failed halfway.
type Swept struct {
	Ended []Invocation

	// Numbers of rows that are no longer of use: results past their pick-up time,
	// idempotency keys and rounds of questions.
	Results, Keys, Rounds int
}

// Hint notifies other parts and instances of the gateway of a change. It may
// be lost; rows are the truth.
type Hint struct {
	Kind         HintKind
	Organization string
	Session      string // of an invocation or a session
	Invocation   string
	Run          string // of an automation's run
	Status       Status // of an invocation or a run, now
	Asking       bool   // its source asked a question, or got the answer
	Resource     string // of a changed resource: its URI at its source
	Source       string // likewise: its source id
}

// HintKind is what changed.
type HintKind string

// The kinds of hint.
const (
	HintInvocation HintKind = "invocation"
	HintCatalog    HintKind = "catalog"
	HintPolicy     HintKind = "policy"
	HintSession    HintKind = "session"
	HintSignal     HintKind = "signal"   // signals between instances about MCP sessions
	HintResource   HintKind = "resource" // a resource with subscribers changed
	HintRun        HintKind = "run"      // a run started or changed
	HintLogin      HintKind = "login"    // logins ended: listeners check their own
	HintReload     HintKind = "reload"   // hints may be lost: reload everything
)

// Hints publishes hints.
type Hints interface {
	// Publish notifies all subscribers. It does not block.
	Publish(h Hint)
	// Subscribe calls f for each hint until cancel is called. f must not
	// block.
	Subscribe(f func(Hint)) (cancel func())
}
