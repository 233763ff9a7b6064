package gate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
	"sallyport/internal/redact"
)

// Config says what a [Gate] works with. The interfaces, Decide and View are
// required; of the durations and numbers, zero means the default in the comment.
type Config struct {
	Catalog  Catalog
	Sessions Sessions
	Ledger   action.Ledger
	Limiter  action.Limiter
	Vault    action.Vault
	JSON     *redact.JSON
	Hints    action.Hints

	// Decide decides one call of the action in the session with canonical
	// params. With current it reads the stored policy; without, a snapshot of
	// at most one second. Nil params stand for any: grants are not looked at.
	Decide func(ctx context.Context, s *action.Session, a *action.Action, params json.RawMessage, current bool) (action.Decision, error)
	// View returns what of the session matters to decisions without params, so
	// that sessions with the same view see the same list, and what changes
	// whenever such a decision may: the policy's version, and what of it has
	// expired by now. At most one second old.
	View func(ctx context.Context, s *action.Session) (view, version string, err error)

	Instance string // this process; unique among those that share rows
	Alone    bool   // no other process shares the rows
	// Hinted tells whether hints of other instances arrive just now. Nil:
	// always.
	Hinted func() bool
	NewID  func() string // ids of invocations, ascending in time (UUIDv7)
	// ApprovalURL returns the page where a person decides. Nil: no links.
	ApprovalURL func(id string) string

	HoldInteractive time.Duration // how long a call is held; 5 minutes
	HoldUnattended  time.Duration // likewise, nobody sitting there; 24 hours
	HoldEvery       time.Duration // between two calls of Waiting.Held; 3 seconds
	CallTimeout     time.Duration // of one execution; 30 seconds
	CheckTimeout    time.Duration // of reading everything again before an approved call runs; 20 seconds
	LeaseMargin     time.Duration // of an executor's lease over the timeout; 15 seconds
	ClaimGrace      time.Duration // before an approved call nobody waits for is run; 500 milliseconds
	ClaimGraceBlind time.Duration // likewise while hints do not arrive: longer than PollEvery; 2.5 seconds
	ClaimWithin     time.Duration // before an approval nobody used expires; 5 minutes
	AbandonAfter    time.Duration // without a caller, before an interactive hold is withdrawn; 2 minutes
	DenialHolds     time.Duration // that a person's denial refuses the same call; 15 minutes

	AskWithin  time.Duration // that a source waits for replies to its questions, within its timeout; 110 seconds
	TakeWithin time.Duration // before nobody is taken to be there for a question; 5 seconds

	PickupInteractive time.Duration // that an outcome can be picked up; 15 minutes
	PickupUnattended  time.Duration // likewise, nobody sitting there; 24 hours

	LookEvery time.Duration // between two rounds of [Gate.Run]; 250 milliseconds
	SeenEvery time.Duration // between two notes that callers still wait; 10 seconds
	PollEvery time.Duration // between two looks at rows that are waited for; 1 second

	MaxPending    int // pending invocations of a session; 10
	MaxHeldParams int // bytes of the params of a held call; 256 KiB
	KeepResult    int // bytes of a result that are kept for people; 10 KB
	KeepSummary   int // bytes of a summary; 300
	MaxRounds     int // rounds of questions of a call; 10
	MaxAsked      int // bytes of a round, and of the replies to it; 1 MiB

	Now func() time.Time // time.Now
	Log *slog.Logger     // discards

	Observer Observer // nobody
	Tracer   Tracer   // nil: calls are not traced, which costs nothing
}

func (c *Config) fill() error {
	if c.Catalog == nil || c.Decide == nil || c.View == nil || c.Sessions == nil || c.Ledger == nil || c.Limiter == nil ||
		c.Vault == nil || c.JSON == nil || c.Hints == nil || c.NewID == nil || c.Instance == "" {
		return errors.New("gate.Config: Catalog, Decide, View, Sessions, Ledger, Limiter, Vault, JSON, Hints, NewID and Instance are required")
	}
	for _, d := range []struct {
		value *time.Duration
		use   time.Duration
	}{
		{&c.HoldInteractive, 5 * time.Minute},
		{&c.HoldUnattended, 24 * time.Hour},
		{&c.HoldEvery, 3 * time.Second},
		{&c.CallTimeout, 30 * time.Second},
		{&c.CheckTimeout, 20 * time.Second},
		{&c.LeaseMargin, 15 * time.Second},
		{&c.ClaimGrace, 500 * time.Millisecond},
		{&c.ClaimGraceBlind, 2500 * time.Millisecond},
		{&c.ClaimWithin, 5 * time.Minute},
		{&c.AbandonAfter, 2 * time.Minute},
		{&c.DenialHolds, 15 * time.Minute},
		{&c.AskWithin, 110 * time.Second},
		{&c.TakeWithin, 5 * time.Second},
		{&c.PickupInteractive, 15 * time.Minute},
		{&c.PickupUnattended, 24 * time.Hour},
		{&c.LookEvery, 250 * time.Millisecond},
		{&c.SeenEvery, 10 * time.Second},
		{&c.PollEvery, time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.use
		}
	}
	for _, n := range []struct {
		value *int
		use   int
	}{{&c.MaxPending, 10}, {&c.MaxHeldParams, 256 << 10}, {&c.KeepResult, 10_000}, {&c.KeepSummary, 300}, {&c.MaxRounds, 10}, {&c.MaxAsked, 1 << 20}} {
		if *n.value == 0 {
			*n.value = n.use
		}
	}
	if c.ApprovalURL == nil {
		c.ApprovalURL = func(string) string { return "" }
	}
	if c.Hinted == nil {
		c.Hinted = func() bool { return true }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	return nil
}

// Gate is the one door to effects. Its methods may be called at once from
// many goroutines.
type Gate struct {
	Config
	board  board
	lists  lists
	offers offers

	sweeps sweeps
	traces traces

	refusing atomic.Bool   // no new calls are taken
	drain    chan struct{} // closed when no new work is taken
	work     work          // callers and executions on their way
	ends     func()        // ends the subscription to hints
}

// New returns a Gate. [Gate.Run] must run beside it, [Gate.Sweep] be called
// every now and then on one of the instances, and [Gate.Drain] end it.
func New(c Config) (*Gate, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	g := &Gate{Config: c, drain: make(chan struct{})}
	g.ends = g.Hints.Subscribe(g.hinted)
	return g, nil
}

// Call runs an action for a session: it checks, decides, records, holds and
// executes, and returns when the invocation ended or the caller's patience
// did. Errors, with no row behind them: ErrInvalid (params, with the field),
// ErrForbidden (nobody can call it through a gateway), ErrNotFound (no such
// action), ErrUnauthenticated, ErrTooMany, ErrTooLarge, ErrConflict (idempotency
// key, or a paused session), ErrUnavailable; and the cause of ctx when the caller
// left. The outcome is never nil; an error may come with one, of the row that it
// is about.
//
// A held call rests on the stacks of everybody from here to the connection, and
// ten thousand may be held: so what is large goes by pointer.
func (g *Gate) Call(ctx context.Context, c *action.Call) (out *action.Outcome, err error) {
	if g.refusing.Load() || !g.work.add() {
		return &action.Outcome{}, errDraining()
	}
	defer g.work.done()
	c.Counted, c.Ungranted = false, false // it may be made a second time
	if g.Tracer != nil {
		var end func(action.Traced)
		ctx, end = g.Tracer.Start(ctx, action.TraceCall)
		defer func() { end(tracedAnswer(&c.Session, orNone(out), err)) }() // there is none in a panic
	}
	if err := g.admit(ctx, c); err != nil {
		g.Observer.Refused(err)
		return &action.Outcome{}, err
	}
	if err := g.repeats(ctx, c); err != nil {
		g.Observer.Refused(err)
		return &action.Outcome{}, err
	}
	for t := (tries{}); ; t.n++ {
		out, wait, err := g.attempt(ctx, c, t.n > 0)
		if wait != nil {
			out, err = g.await(ctx, wait, &c.Waiting)
		}
		if err = withdrawnUnder(out, err); !t.again(c, err) {
			return g.came(out, err)
		}
	}
}

// tries counts the attempts at one call.
type tries struct {
	n        int
	recalled bool // by the same call, perhaps, which was answered meanwhile
}

// again tells whether the call is attempted once more.
func (t *tries) again(c *action.Call, err error) bool {
	if err == nil {
		return false
	}
	denied := errors.Is(err, action.ErrDeniedBefore)
	c.Ungranted = c.Ungranted || denied
	if !t.recalled && c.Source == action.Platform && action.Public(err).Code == action.CodeCompleted {
		t.recalled = true
		return true
	}
	return t.n < 5 && (denied || errors.Is(err, action.ErrPolicyMoved) || errors.Is(err, action.ErrGrantSpent) || errors.Is(err, errWithdrawn))
}

// came is what the last attempt came to.
func (g *Gate) came(out *action.Outcome, err error) (*action.Outcome, error) {
	out = orNone(out)
	switch {
	case errors.Is(err, errWithdrawn):
		return out, nil // it says so of itself
	case err != nil && out.Invocation.ID == "":
		g.Observer.Refused(err)
	}
	return out, err
}

// attempt finds, checks, decides and begins. Policy may move between deciding
// and the row, connectors with it, and a call that is joined may be withdrawn
// in that moment: who lost such a race does all of it again, on what is stored.
//
// It does not wait itself, and nor does what it calls: a held call waits for
// minutes on the stack that it has by then, and there may be ten thousand.
func (g *Gate) attempt(ctx context.Context, c *action.Call, current bool) (*action.Outcome, *wait, error) {
	began := time.Now()
	act, err := g.Catalog.Find(ctx, c.Session.Organization, c.Source, c.Action, current)
	if err != nil {
		return nil, nil, action.Unwritten(err)
	}
	params, err := g.check(act, c.Params)
	if err != nil {
		return nil, nil, err
	}
	if out, err := g.recall(ctx, c, act, params); out != nil || err != nil {
		return out, nil, err
	}
	asked := params
	if c.Ungranted {
		asked = nil
	}
	decision, err := g.Decide(ctx, &c.Session, act, asked, current)
	if err != nil {
		return nil, nil, action.Unwritten(err)
	}
	g.Observer.Decided(act, &decision, time.Since(began))
	g.tracePolicy(ctx, c, act, &decision, began)
	if err := g.spend(ctx, c, &decision); err != nil {
		return nil, nil, err
	}
	draft, err := g.draft(ctx, c, act, decision, params, g.Vault.Hash(params))
	if err != nil {
		return nil, nil, err
	}
	return g.begin(ctx, c, act, draft, params)
}

// admit refuses callers before anything is resolved for them.
func (g *Gate) admit(ctx context.Context, c *action.Call) error {
	live := c.Session.Working
	if c.Source == action.Platform { // see recall
		live = c.Session.Live
	}
	if err := live(g.Now()); err != nil {
		return err
	}
	if len(c.IdempotencyKey) > 255 || !printable(c.IdempotencyKey) {
		return action.NewError("invalid_idempotency_key").WithField("/idempotency_key")
	}
	if wait := g.Limiter.Allow(ctx, c.Session.Organization+"/"+c.Session.ID); wait > 0 {
		e := action.NewError("rate_limited", wait.Round(time.Second)+time.Second)
		e.RetryAfter = wait
		return e
	}
	return nil
}

// repeats has a call of a paused session only join one that is open: a caller
// who lost his connection may wait on, while nothing new begins. That it is
// paused is not taken from a snapshot, so that who was resumed need not wait.
func (g *Gate) repeats(ctx context.Context, c *action.Call) error {
	if c.Session.Status != action.SessionPaused {
		return nil
	}
	s, err := g.Sessions.Session(ctx, c.Session.ID)
	if err != nil {
		return action.Unwritten(err)
	}
	if err := s.Live(g.Now()); err != nil {
		return err
	}
	c.Session = s
	return nil
}

// spend counts a call that is not denied against the limits that policy names:
// once, however often it is decided.
func (g *Gate) spend(ctx context.Context, c *action.Call, d *action.Decision) error {
	if d.Mode == action.ModeDeny || c.Counted || c.Session.Status == action.SessionPaused {
		return nil
	}
	c.Counted = true
	for _, l := range d.Limits {
		wait := g.Limiter.Take(ctx, l)
		if wait <= 0 {
			continue
		}
		e := action.Errorf(action.ErrTooMany, "quota_reached", "The quota of %s is used up (%d calls in %s); try again in %s.",
			l.What, l.Calls, l.Span(), wait.Round(time.Second)+time.Second)
		e.RetryAfter = wait
		return e
	}
	return nil
}

// printable tells whether a row can hold the text and a person read it.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// check returns the canonical params, which are what is hashed, shown and sent.
func (g *Gate) check(act *action.Action, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	params, err := g.JSON.Canonical(raw)
	if err != nil {
		return nil, err
	}
	if params[0] != '{' {
		return nil, &action.Error{Kind: action.ErrInvalid, Code: "invalid_params", Message: "Params must be a JSON object."}
	}
	if err := act.Check(params); err != nil {
		return nil, err
	}
	return params, nil
}
