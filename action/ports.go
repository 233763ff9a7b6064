package action

import (
	"context"
	"encoding/json"
	"time"
)

// Limiter counts calls. Keys are identities, never names that a caller chose.
type Limiter interface {
	// Allow counts one call and returns zero, or how long to wait when the
	// limit is reached.
	Allow(ctx context.Context, key string) time.Duration
	// Take counts one call against l in the same way.
	Take(ctx context.Context, l Limit) time.Duration
}

// Vault hashes and seals what is kept of params and results.
type Vault interface {
	// Hash returns the keyed hash of canonical bytes, in hex.
	Hash(canonical []byte) string
	// Seal encrypts plain for the place that ref names; Open decrypts it only
	// for the same place.
	Seal(ref Ref, plain []byte) ([]byte, error)
	Open(ref Ref, sealed []byte) ([]byte, error)
}

// Ref is the place of a sealed value. Moving a value elsewhere breaks it.
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

	// Approve, Deny, Withdraw, Claim and Finish move rows from status to status by
	// compare-and-swap: of several that race, one wins, and the others get
	// ErrConflict.

	// Approve turns pending into approved; Deny turns it into denied. Errors:
	// ErrNotFound; ErrGone when it expired; ErrConflict when it was decided
	// (the message says how and by whom), or when a hash in v differs;
	// ErrForbidden (code "self_approval") when v.By made the session and the
	// organization's settings do not let him approve its calls.
	//
	// Approve makes v.Grant in the same transaction, of the row's source,
	// action, tool hash and session, and completes what v.Grant points to.
	Approve(ctx context.Context, v Verdict) (Invocation, error)
	Deny(ctx context.Context, v Verdict) (Invocation, error)
	// Withdraw turns pending into denied with reason DeniedWithdrawn.
	Withdraw(ctx context.Context, organization, id string, now time.Time) (Invocation, error)
	// Claim turns approved into executing for the executor.
	Claim(ctx context.Context, c Claim) (Record, error)
	// Finish ends an executing row of the executor. When the row is terminal
	// already, nothing of it changes, a late-outcome event is appended, and
	// recorded is false.
	Finish(ctx context.Context, f *Finish) (inv Invocation, recorded bool, err error)

	// The following read rows and keep them in order.

	// Load returns one row; ErrNotFound when the organization has no such.
	Load(ctx context.Context, organization, id string) (Record, error)
	// MarkSeen notes that callers still wait on these rows.
	MarkSeen(ctx context.Context, ids []string, now time.Time) error
	// MarkAnswered notes that a caller was told "pending", which counts as
	// waiting until the invocation ends.
	MarkAnswered(ctx context.Context, organization, id string) error
	// MarkDelivered notes that a caller received the outcome. It is queued.
	MarkDelivered(ctx context.Context, organization, id string, now time.Time) error
	// Preview says what Begin would do with a pending draft that no other row
	// answers, and writes nothing: the reason and the note with which it would
	// be denied, or "too_many_pending", or nothing.
	Preview(ctx context.Context, d *Draft) (refused, note string, err error)
	// Settled returns those of the ids whose status is no longer pending.
	Settled(ctx context.Context, ids []string) ([]Invocation, error)
	// Unclaimed returns up to limit approved rows that were approved before t.
	Unclaimed(ctx context.Context, t time.Time, limit int) ([]Invocation, error)
	// Sweep does up to Limit rows of each kind of overdue work, and returns
	// the invocations that it ended.
	Sweep(ctx context.Context, r SweepRules) ([]Invocation, error)

	// The following keep the rounds of questions of executing invocations.

	// OpenRound writes a round. ErrConflict when the invocation does not
	// execute any more.
	OpenRound(ctx context.Context, r *AskedRound) error
	// OpenRounds returns those of the invocations that have an open round which
	// nobody took.
	OpenRounds(ctx context.Context, invocations []string) ([]string, error)
	// TakeRound gives the invocation's open round to one caller: nil when
	// there is none, another has it, or can lacks what it needs. A round that
	// was taken before lost and is not answered counts as one that nobody has;
	// the zero time: none does.
	TakeRound(ctx context.Context, organization, invocation string, can ClientFeatures, lost, now time.Time) (*AskedRound, error)
	// ReplyRound writes replies, by key, of the session that was asked; keys
	// that were answered keep their first reply. The round is answered when
	// every key is, or with final. A round that was answered already is
	// returned unchanged. Errors: ErrNotFound (also for another session's, a
	// key that was not asked, and a round that nobody took), ErrGone when the
	// source waits no more.
	ReplyRound(ctx context.Context, organization, session, id string, replies map[string][]byte, final bool, now time.Time) (AskedRound, error)
	// LoadRound returns a round with its replies; ErrNotFound.
	LoadRound(ctx context.Context, organization, id string) (AskedRound, error)
	// SaveCallerFeatures notes what can be asked of a caller who left with a call that is
	// held or approved, and comes back for it by itself; what several can adds up.
	SaveCallerFeatures(ctx context.Context, organization, invocation string, can ClientFeatures) error
	// CallerFeatures returns what was noted so; zero: nothing.
	CallerFeatures(ctx context.Context, organization, invocation string) (ClientFeatures, error)
	// CloseRound ends a round, wipes what was sealed of it, and appends an
	// event of kind "asked" with data, redacted, to its invocation. A closed
	// round stays as it is.
	CloseRound(ctx context.Context, organization, id string, data json.RawMessage, now time.Time) error
}

// ErrPolicyMoved tells that policy changed between a decision and its row:
// decide again.
var ErrPolicyMoved = NewError("policy_moved")

// ErrGrantSpent tells that a grant was used up, revoked or expired between a
// decision and its row: decide again.
var ErrGrantSpent = NewError("grant_spent")

// ErrDeniedBefore tells that a person said no to this very call a short while
// ago, which goes before a grant: decide again, without grants.
var ErrDeniedBefore = NewError("denied_before")

// Draft is an invocation about to be written: Status is pending, executing or
// denied.
type Draft struct {
	Invocation
	PolicyVersion  int64
	Snapshot       bool // an allowed read: queued, step 1 left out
	Joins          bool
	Paused         bool // the session was paused when the call came: it joins, or is refused
	IdempotencyKey string
	SealedParams   []byte    // of a pending row
	MaxPending     int       // zero: no limit
	DeniedSince    time.Time // see step 3
	DenialLimit    int       // see step 3; zero: none
	Grants         []string  // ids, see step 4
	Executor       string    // of an executing row: the instance that runs it
	LeaseUntil     time.Time // of an executing row
	Unattended     bool      // silence of the callers withdraws nothing
}

// BeginResult is the answer of Begin.
type BeginResult struct {
	Record
	// Created tells that the draft's own row was written.
	Created bool
}

// Record is an invocation's row with what only the Gate may see.
type Record struct {
	Invocation
	SealedParams []byte // nil once terminal
	SealedResult []byte // an [Answer], for as long as it may be picked up
	Delivered    bool
	Answered     bool // a caller was told "pending"
}

// Verdict is a person's decision.
type Verdict struct {
	Organization string
	Session      string // empty: any session of the organization
	ID           string
	By           string // the user, from the login
	Note         string // shown to the agent when it is a denial
	ParamsHash   string // what the person saw; empty: not checked
	ToolHash     string // likewise
	// Grant of an approval: what else is let through without asking. Its
	// Terms say scope, pins, budget and expiry; the rest is filled in. Nil:
	// nothing.
	Grant *Grant
	// Pin are JSON Pointers of params that the grant pins to the values that
	// they have in this call. The Gate turns them into Grant.Pins.
	Pin []string
	// Unreviewed says that the grant may be for a tool that is not as it was
	// reviewed. Without it such a grant is refused.
	Unreviewed bool
	Now        time.Time
}

// Claim is one instance's wish to execute.
type Claim struct {
	Organization string
	ID           string
	Executor     string
	LeaseUntil   time.Time
	Now          time.Time
}

// Finish is how an execution ended.
type Finish struct {
	Organization string
	ID           string
	Executor     string
	Status       Status          // completed, failed or denied
	Result       json.RawMessage // redacted and pruned
	ResultNote   string          // of the result, in a line; redacted
	SealedResult []byte          // an [Answer]; nil when nobody may pick it up
	PickupUntil  time.Time
	Error        *Failure
	DeniedReason string
	DeniedNote   string
	Now          time.Time
	DurationMS   int64
	Integration  string // for which a module ran
}

// SweepRules say what is overdue.
type SweepRules struct {
	Now time.Time
	// SeenBefore: pending rows of interactive sessions whose last caller was
	// seen before this, and who was not told "pending", are withdrawn.
	SeenBefore time.Time
	// ApprovedBefore: approved rows that nobody claimed are expired.
	ApprovedBefore time.Time
	// LeaseBefore: executing rows whose lease lapsed before this are lost:
	// failed, outcome_unknown. The zero time: none is.
	LeaseBefore time.Time
	// Alone: this executor is the only instance, so that executing rows of
	// any other are of a dead process, and lost whatever their lease.
	SoleInstance string
	// Limit of rows a kind; a few hundred at most, so that the writer is free
	// again soon.
	Limit int
	// PickupInteractive and PickupUnattended: how long after its end an
	// outcome may be picked up.
	PickupInteractive, PickupUnattended time.Duration
}

// Hint tells other parts of the gateway, and other instances, that something
// changed. It may be lost: rows are the truth.
type Hint struct {
	Kind         HintKind
	Organization string
	Session      string // of an invocation or a session
	Invocation   string
	Run          string // of an automation's run
	Status       Status // of an invocation or a run, now
	Asking       bool   // its source asks something, or was answered
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
	HintSignal     HintKind = "signal"   // instances have something to tell one another about MCP sessions
	HintResource   HintKind = "resource" // a resource that somebody subscribed to changed
	HintRun        HintKind = "run"      // a run of an automation began, or changed
	HintLogin      HintKind = "login"    // people's logins ended: who listens looks whether its own did
	HintReload     HintKind = "reload"   // hints may have been lost: look at everything again
)

// Hints carries hints.
type Hints interface {
	// Publish tells all subscribers. It does not block.
	Publish(h Hint)
	// Subscribe calls f for each hint until cancel is called. f must not
	// block.
	Subscribe(f func(Hint)) (cancel func())
}
