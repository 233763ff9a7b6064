package gate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/internal/defaults"
	"sallyport/internal/redact"
)

// Config is what a [Gate] works with. The interfaces, Decide and View are required.
type Config struct {
	Catalog  Catalog
	Sessions Sessions
	Ledger   action.Ledger
	Limiter  action.Limiter
	Vault    action.Vault
	JSON     *redact.JSON
	Hints    action.Hints

	// Decide decides one call of the action in the session with canonical
	// params. With current it reads the stored policy; without, a snapshot that is
	// at most one second old. Nil params stand for any; grants are ignored then.
	Decide func(ctx context.Context, s *action.Session, a *action.Action, params json.RawMessage, current bool) (action.Decision, error)
	// View returns the part of the session that decisions without params depend
	// on, so that sessions with the same view share a list, and a version that
	// changes whenever such a decision may change. Both are at most one second old.
	View func(ctx context.Context, s *action.Session) (view, version string, err error)

	Instance string // this process; unique among those that share rows
	Alone    bool   // no other process shares the rows
	// Hinted reports whether hints of other instances arrive at the moment. Nil
	// means always.
	Hinted func() bool
	NewID  func() string // ids of invocations, ascending in time (UUIDv7)
	// ApprovalURL returns the page where a person decides. Nil means no links.
	ApprovalURL func(id string) string

	Timing

	AskWithin  time.Duration `default:"110s"` // for which a source waits for replies, within its own timeout
	TakeWithin time.Duration `default:"5s"`   // until a question that no caller took is refused

	// Limits of calls, sizes in bytes; zero means the default.

	MaxPending    int `default:"10"`      // pending invocations of a session
	MaxHeldParams int `default:"262144"`  // params of a held call: 256 KiB
	KeepResult    int `default:"10000"`   // of a result that is kept for people
	KeepSummary   int `default:"300"`     // of a summary
	MaxRounds     int `default:"10"`      // rounds of questions of a call
	MaxAsked      int `default:"1048576"` // a round of questions, and the replies to it: 1 MiB

	Now func() time.Time `default:"time.Now"`
	Log *slog.Logger     `default:"discard"`

	Observer Observer // nobody
	Tracer   Tracer   // nil: calls are not traced
}

// Timing is how long the steps of a call may take, as flags of the server. Zero
// means the default.
type Timing struct {
	HoldInteractive   time.Duration `default:"5m" help:"Time a pending call waits for approval (default: ${default})." placeholder:"D"`
	HoldUnattended    time.Duration `default:"24h" help:"Time a pending call of an unattended session waits for approval (default: ${default})." placeholder:"D"`
	HoldEvery         time.Duration `default:"3s" help:"Interval of progress messages for a pending call (default: ${default})." placeholder:"D"`
	CallTimeout       time.Duration `default:"30s" help:"Timeout of one execution (default: ${default})." placeholder:"D"`
	CheckTimeout      time.Duration `default:"20s" help:"Timeout of the check before an approved call runs (default: ${default})." placeholder:"D"`
	LeaseMargin       time.Duration `default:"15s" help:"Lease of an execution beyond its timeout (default: ${default})." placeholder:"D"`
	ClaimGrace        time.Duration `default:"500ms" help:"Grace period before another instance runs an approved call (default: ${default})." placeholder:"D"`
	ClaimGraceBlind   time.Duration `default:"2.5s" help:"The same grace period while hints are unavailable (default: ${default})." placeholder:"D"` // longer than PollEvery
	ClaimWithin       time.Duration `default:"5m" help:"Time before an unused approval expires (default: ${default})." placeholder:"D"`
	AbandonAfter      time.Duration `default:"2m" help:"Time without a caller before a pending call is withdrawn (default: ${default})." placeholder:"D"`
	DenialHolds       time.Duration `default:"15m" help:"How long a denial also refuses identical calls (default: ${default})." placeholder:"D"`
	PickupInteractive time.Duration `default:"15m" help:"How long a result can be fetched (default: ${default})." name:"pickup" placeholder:"D"`
	PickupUnattended  time.Duration `default:"24h" help:"How long a result of an unattended session can be fetched (default: ${default})." placeholder:"D"`
	SweepEvery        time.Duration `default:"250ms" help:"Interval of the sweep that ends overdue calls (default: ${default})." placeholder:"D"` // and between two rounds of [Gate.Run]
	SeenEvery         time.Duration `default:"10s" help:"Interval of recording that callers still wait (default: ${default})." placeholder:"D"`
	PollEvery         time.Duration `default:"1s" help:"Interval of checking for changes by other instances (default: ${default})." placeholder:"D"`
}

func (c *Config) fill() error {
	if c.Catalog == nil || c.Decide == nil || c.View == nil || c.Sessions == nil || c.Ledger == nil || c.Limiter == nil ||
		c.Vault == nil || c.JSON == nil || c.Hints == nil || c.NewID == nil || c.Instance == "" {
		return errors.New("gate.Config: Catalog, Decide, View, Sessions, Ledger, Limiter, Vault, JSON, Hints, NewID and Instance are required")
	}
	defaults.Set(c)
	if c.ApprovalURL == nil {
		c.ApprovalURL = func(string) string { return "" }
	}
	if c.Hinted == nil {
		c.Hinted = func() bool { return true }
	}
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	return nil
}

// Gate runs calls. Every effect of the gateway starts in it. It is safe for
// concurrent use.
type Gate struct {
	Config
	board  board
	lists  decisionCache[decidedList]
	offers decisionCache[*action.Offerings]

	sweeps  sweepState
	traces  traces
	refused refusals

	refusing    atomic.Bool   // new calls are refused
	drain       chan struct{} // closed when new calls are refused
	work        *work         // callers and executions in progress
	unsubscribe func()        // ends the subscription to hints
}

// New returns a Gate. The caller must run [Gate.Run] beside it, call
// [Gate.Sweep] regularly on one of the instances, and end it by [Gate.Drain].
func New(c Config) (*Gate, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	g := &Gate{Config: c, drain: make(chan struct{}), work: newWork()}
	g.unsubscribe = g.Hints.Subscribe(g.onHint)
	return g, nil
}

// Catalog finds actions. Its implementation is sources.Catalog.
type Catalog interface {
	// Find returns the organization's action; ErrNotFound if no source has it,
	// ErrUnavailable if its source never answered. With fresh, the source is
	// queried again unless it was a moment ago.
	Find(ctx context.Context, organization, source, name string, fresh bool) (*action.Action, error)
	// List returns every known action of the organization, including those that
	// are not tools (see [action.Action.Tool]), in a stable order, with a version
	// that changes when the list does.
	List(ctx context.Context, organization string) (actions []*action.Action, version string, err error)
	// Offerings returns the known resources and prompts of the organization's
	// sources. The result is shared: treat it as read-only.
	Offerings(ctx context.Context, organization string) (*action.Offerings, error)
}

// Sessions reads sessions.
type Sessions interface {
	// Session returns the stored session; ErrNotFound.
	Session(ctx context.Context, id string) (action.Session, error)
}

// Observer is notified of calls, for logs and metrics. Its methods are called
// concurrently and delay calls: they must be quick, must not block, and must not
// change or keep their arguments.
type Observer interface {
	// Decided reports the decision of policy, and the time that finding, checking
	// and deciding took. A call that is retried is reported again.
	Decided(a *action.Action, d *action.Decision, took time.Duration)
	// Refused reports why a call got no row. [Gate.CountRefusal] counts it.
	Refused(err error)
	// Changed reports a new status that this instance wrote. For an allowed call only
	// the end is reported.
	Changed(inv *action.Invocation)
	// Ran reports an execution by this instance: how it ended, and how long the
	// source took.
	Ran(inv *action.Invocation, ended action.Status, took time.Duration)
}

// noObserver observes nothing.
type noObserver struct{}

func (noObserver) Decided(*action.Action, *action.Decision, time.Duration) {}

func (noObserver) Refused(error) {}

func (noObserver) Changed(*action.Invocation) {}

func (noObserver) Ran(*action.Invocation, action.Status, time.Duration) {}

// Tracer records calls as spans of traces. Its methods are called concurrently and
// delay calls: they must be quick and must not block.
type Tracer interface {
	// Start begins a span within the one that ctx carries, and returns a context
	// that carries the new one. Its end is called once.
	Start(ctx context.Context, step action.TraceStep) (_ context.Context, end func(action.TraceAttributes))
	// Past records a span that ends now, within the one that ctx carries.
	Past(ctx context.Context, step action.TraceStep, began time.Time, t action.TraceAttributes)
	// Bare returns a context that carries only the span of ctx: no deadline, no
	// cancellation and no other value.
	Bare(ctx context.Context) context.Context
}
