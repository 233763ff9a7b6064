// Package gate runs calls: it decides, records, holds, executes and ends them.
//
// The life of a call, with the function at each stop:
//
//  1. admit: the session is live, its key is valid, its rate limit is not used up.
//  2. attempt: the catalog finds the action, check makes the params canonical and
//     validates them, Config.Decide asks policy, bind asks the guardrails of an
//     integration, takeQuotas charges limits. What is denied whatever the params is
//     denied with wrong params, too.
//  3. begin: the row is written. A call that is denied ends here; one that an
//     earlier call answers joins it.
//  4. await: the caller of a held call waits on the board. Approve or Deny changes
//     the row ([Gate.Approve], verdict.go).
//  5. claim: one instance wins an approved call and rechecks all that the approval
//     rested on (execute.go).
//  6. execute: the source runs. Every effect of the gateway starts there.
//  7. finish: the row ends, then the callers are answered.
//
// [Gate.Run] moves calls whose hint was lost or whose caller left, and
// [Gate.Sweep] ends what is overdue. Rows are the truth; the board is only memory.
//
// It promises: no row, no effect; one executor for each invocation; what was
// approved is what runs; a write is never run twice by itself; every invocation
// ends in a terminal status. It knows no rows, sockets or databases: it asks for
// them through the interfaces in ports.go and in package action.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
)

// Call runs an action for a session and returns when the invocation ended or
// the caller's patience is over. The outcome is never nil; an error may come
// with the outcome of the row that it concerns.
//
// Errors without a row: ErrInvalid (params, with the field), ErrForbidden (an
// action that no gateway can call), ErrNotFound (no such action),
// ErrUnauthenticated, ErrTooMany, ErrTooLarge, ErrConflict (idempotency key, or a
// paused session), ErrUnavailable, and the cause of ctx when the caller left.
//
// Ten thousand calls may be held, each on the stacks of all functions from here
// to the connection. Large values are therefore passed by pointer.
func (g *Gate) Call(ctx context.Context, c *action.Call) (out *action.Outcome, err error) {
	if g.refusing.Load() || !g.work.add() {
		return &action.Outcome{}, errDraining()
	}
	defer g.work.done()
	c.QuotasTaken, c.SkipGrants = false, false // the caller may reuse the Call
	if g.Tracer != nil {
		var end func(action.TraceAttributes)
		ctx, end = g.Tracer.Start(ctx, action.TraceCall)
		defer func() { end(tracedAnswer(&c.Session, orEmpty(out), err)) }() // nil in a panic
	}
	if err := g.admit(ctx, c); err != nil {
		return &action.Outcome{}, g.noRow(&c.Session, "", c.Source+":"+c.Action, err) // names that nobody looked up
	}
	if err := g.reloadPaused(ctx, c); err != nil {
		return &action.Outcome{}, g.noRow(&c.Session, "", c.Source+":"+c.Action, err)
	}
	for t := (attempts{}); ; t.n++ {
		out, wait, err := g.attempt(ctx, c, t.n > 0)
		if wait != nil {
			out, err = g.await(ctx, wait, &c.Waiting)
		}
		if err = withdrawnMeanwhile(out, err); t.retry(c, err) {
			continue
		}
		out = orEmpty(out)
		switch {
		case errors.Is(err, errWithdrawnMeanwhile):
			return out, nil // the outcome itself says withdrawn
		case err != nil && out.Invocation.ID == "":
			return out, g.noRow(&c.Session, c.Source, c.Action, err)
		}
		return out, err
	}
}

// noRow reports an error of a call without a row, and counts it if it is a refusal.
func (g *Gate) noRow(s *action.Session, source, name string, err error) error {
	g.Observer.Refused(err)
	if kind, ok := action.RefusalOf(err); ok {
		g.CountRefusal(s, kind, source, name)
	}
	return err
}

// attempts counts the attempts at one call.
type attempts struct {
	n        int
	replayed bool // the attempt after "completed" was made: the same call may have been answered meanwhile
}

// retry reports whether the call is attempted again.
func (t *attempts) retry(c *action.Call, err error) bool {
	if err == nil {
		return false
	}
	denied := errors.Is(err, action.ErrDeniedBefore)
	c.SkipGrants = c.SkipGrants || denied
	if !t.replayed && c.Source == action.Platform && action.Public(err).Code == action.CodeCompleted {
		t.replayed = true
		return true
	}
	return t.n < 5 && (denied || errors.Is(err, action.ErrPolicyMoved) || errors.Is(err, action.ErrGrantSpent) || errors.Is(err, errWithdrawnMeanwhile))
}

// attempt finds the action, checks the params, decides and writes the row. Policy
// or a connector may change between the decision and the row, and a call that is
// joined may be withdrawn in that moment: Call then retries from here, on the
// stored policy.
//
// Neither attempt nor what it calls waits: a held call waits for minutes, and the
// stack that it has by then must be small.
func (g *Gate) attempt(ctx context.Context, c *action.Call, current bool) (*action.Outcome, *wait, error) {
	began := time.Now()
	act, err := g.Catalog.Find(ctx, c.Session.Organization, c.Source, c.Action, current)
	if err != nil {
		return nil, nil, action.WriteFailed(err)
	}
	params, invalid := g.check(act, c.Params)
	if invalid == nil {
		if out, err := g.replay(ctx, c, act, params); out != nil || err != nil {
			return out, nil, err
		}
	}
	asked := params
	if c.SkipGrants || invalid != nil {
		asked = nil
	}
	decision, err := g.Decide(ctx, &c.Session, act, asked, current)
	if err != nil {
		return nil, nil, action.WriteFailed(err)
	}
	if invalid != nil && decision.Mode != action.ModeDeny {
		return nil, nil, invalid
	}
	act, binding, err := g.bind(ctx, &c.Session, act, &decision, params, func(act *action.Action) (action.Decision, error) {
		return g.Decide(ctx, &c.Session, act, asked, current)
	})
	if err != nil {
		return nil, nil, err
	}
	g.Observer.Decided(act, &decision, time.Since(began))
	g.tracePolicy(ctx, c, act, &decision, began)
	if err := g.takeQuotas(ctx, c, &decision); err != nil {
		return nil, nil, err
	}
	draft, err := g.draft(c, act, &decision, params, binding)
	if err != nil {
		return nil, nil, err
	}
	if invalid == nil {
		draft.Summary = g.summary(act, params, draft.Params)
	} else { // the action could not describe them
		draft.Summary = g.JSON.Summary(draft.Params, g.KeepSummary)
	}
	return g.begin(ctx, c, act, draft, params)
}

// admit refuses callers before anything is resolved.
func (g *Gate) admit(ctx context.Context, c *action.Call) error {
	live := c.Session.Working
	if c.Source == action.Platform { // a completed session may ask again; see replay
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

// reloadPaused reads a paused session again, since it may have been resumed. A
// call of a session that is still paused can only join an open call: a caller
// that lost its connection continues to wait, and nothing new begins.
func (g *Gate) reloadPaused(ctx context.Context, c *action.Call) error {
	if c.Session.Status != action.SessionPaused {
		return nil
	}
	s, err := g.Sessions.Session(ctx, c.Session.ID)
	if err != nil {
		return action.WriteFailed(err)
	}
	if err := s.Live(g.Now()); err != nil {
		return err
	}
	c.Session = s
	return nil
}

// takeQuotas charges a call that is not denied to the quotas that policy names,
// once per call however often it is decided.
func (g *Gate) takeQuotas(ctx context.Context, c *action.Call, d *action.Decision) error {
	if d.Mode == action.ModeDeny || c.QuotasTaken || c.Session.Status == action.SessionPaused {
		return nil
	}
	c.QuotasTaken = true
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

// printable reports whether a row can hold the text and a person can read it.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// check returns the canonical params: the bytes that are hashed, shown and sent. With
// an error they are what the row of a denied call shows: an empty object in place of
// params that are not a JSON object.
func (g *Gate) check(act *action.Action, raw json.RawMessage) (json.RawMessage, error) {
	none := json.RawMessage("{}")
	if len(raw) == 0 {
		raw = none
	}
	params, err := g.JSON.Canonical(raw)
	if err != nil {
		return none, err
	}
	if params[0] != '{' {
		return none, &action.Error{Kind: action.ErrInvalid, Code: "invalid_params", Message: "Params must be a JSON object."}
	}
	return params, act.Check(params)
}

// bind returns the integration that a held call would use, and the action as it was
// decided. It denies a call that a guardrail of its integration forbids: neither an
// approval nor a grant or capability permits that. A call whose params change its
// risk is decided again, as such. Allowed reads are not bound. What else stands in the way of
// an allowed call is reported by its execution.
func (g *Gate) bind(ctx context.Context, s *action.Session, act *action.Action, d *action.Decision, params json.RawMessage, decide func(*action.Action) (action.Decision, error)) (*action.Action, action.Binding, error) {
	held := d.Mode == action.ModeRequireApproval
	if act.Bind == nil || params == nil || !held && (d.Mode != action.ModeAllow || act.Risk == action.RiskRead) {
		return act, action.Binding{}, nil
	}
	b, err := act.Bind(ctx, s, params)
	if changed := act.For(b); changed != act {
		act = changed
		decided, failed := decide(act)
		if failed != nil {
			return act, b, action.WriteFailed(failed)
		}
		*d = decided
		held = d.Mode == action.ModeRequireApproval
	}
	switch {
	case errors.Is(err, action.ErrForbidden):
		*d = d.Forbidden(action.Public(err).Message)
		return act, action.Binding{}, nil
	case held:
		return act, b, err
	}
	return act, action.Binding{}, nil
}

// draft returns the row of a decided call, without its summary.
func (g *Gate) draft(c *action.Call, act *action.Action, d *action.Decision, params json.RawMessage, b action.Binding) (*action.Draft, error) {
	now := g.Now()
	draft := &action.Draft{
		Invocation: action.Invocation{
			ID: g.NewID(), Organization: c.Session.Organization, Session: c.Session.ID,
			Source: act.Source, SourceName: act.SourceName, Action: act.Name, Risk: act.Risk,
			Mode: d.Mode, ModeSource: d.Source, Steps: d.Steps,
			Params: g.JSON.Redact(params, nil), ParamsHash: g.Vault.Hash(params), ToolHash: act.Hash, Revision: act.Revision,
			CreatedAt: now,
		},
		PolicyVersion:  d.Version,
		IdempotencyKey: c.IdempotencyKey,
		Unattended:     c.Session.Kind == action.Unattended,
	}
	switch d.Mode {
	case action.ModeAllow:
		draft.Status = action.StatusExecuting
		draft.StartedAt = &now
		draft.Executor = g.Instance
		draft.LeaseUntil = now.Add(g.timeout(act) + g.LeaseMargin)
		// An allowed read never joins, so that each one reads anew. A caller that
		// passes an idempotency key wants the opposite.
		draft.Joins = act.Risk != action.RiskRead || c.IdempotencyKey != ""
		draft.Snapshot = !draft.Joins && len(d.Grants) == 0
		draft.Grants = d.Grants
		draft.DeniedSince = now.Add(-g.DenialHolds) // a person's denial of the same call overrides a grant
	case action.ModeRequireApproval:
		if len(params) > g.MaxHeldParams {
			return nil, action.Errorf(action.ErrTooLarge, "params_too_large",
				"This call needs approval, and its params have %d KiB: at most %d KiB can be reviewed. Pass smaller params.", len(params)>>10, g.MaxHeldParams>>10)
		}
		if act.Bind != nil && params != nil {
			draft.Integration, draft.Revision = b.Integration, act.Bound(b)
		}
		sealed, err := g.Vault.Seal(paramsRef(&draft.Invocation), params)
		if err != nil {
			return nil, err
		}
		draft.Status = action.StatusPending
		draft.SealedParams = sealed
		draft.Joins = true
		draft.MaxPending = g.MaxPending
		draft.DeniedSince = now.Add(-g.DenialHolds)
		draft.DenialLimit = d.DenialLimit
		expires := now.Add(g.HoldInteractive)
		if draft.Unattended {
			expires = now.Add(g.HoldUnattended)
		}
		draft.ExpiresAt = &expires
	case action.ModeDeny:
		draft.Status = action.StatusDenied
		draft.DeniedReason = action.DeniedPolicy
		draft.DeniedNote = d.Why()
		draft.CompletedAt = &now
	default:
		return nil, fmt.Errorf("policy answered with mode %q", d.Mode)
	}
	if c.Session.Status == action.SessionPaused {
		draft.Paused, draft.Snapshot = true, false
	}
	if c.Session.MaxCalls > 0 {
		draft.MaxCalls, draft.Snapshot = c.Session.MaxCalls, false
	}
	return draft, nil
}

// wait is a caller on the board that waits for an invocation to end.
type wait struct {
	inv       action.Invocation
	w         *waiter
	joins     bool // see Outcome.Joins
	repeated  bool
	new       bool      // this caller's call wrote the row
	heldSince time.Time // start of the wait for approval, in a traced call
}

// begin writes the draft's row, or joins the row that answers the call. It
// returns the outcome, or the wait for it. The caller enters the board before the
// row exists, so that it cannot miss a decision.
func (g *Gate) begin(ctx context.Context, c *action.Call, act *action.Action, d *action.Draft, params json.RawMessage) (*action.Outcome, *wait, error) {
	if d.Status == action.StatusDenied {
		begun, err := g.Ledger.Begin(ctx, d)
		if err != nil {
			return nil, nil, action.WriteFailed(err)
		}
		g.changed(&begun.Invocation)
		return &action.Outcome{Invocation: begun.Invocation}, nil, nil
	}
	c.Unattended = d.Unattended
	w := g.board.enter(d.ID, &c.Waiting, g.Now())
	begun, err := g.Ledger.Begin(ctx, d)
	if err != nil {
		g.board.leave(d.ID, w)
		return nil, nil, action.WriteFailed(err)
	}
	if !begun.Created {
		g.board.leave(d.ID, w)
		return g.join(ctx, begun, &c.Waiting)
	}
	switch begun.Status {
	case action.StatusExecuting:
		g.board.start(begun.ID)
		j := &job{Invocation: begun.Invocation, act: act, params: params, joins: d.Joins, unattended: d.Unattended, trace: g.detached(ctx)}
		g.work.run(func() { g.execute(j) })
	case action.StatusDenied: // a person denied the same call recently
		g.board.leave(d.ID, w)
		g.changed(&begun.Invocation)
		return &action.Outcome{Invocation: g.withLink(begun.Invocation)}, nil, nil
	}
	if begun.Status == action.StatusPending {
		g.keepTrace(ctx, begun.ID)
		g.changed(&begun.Invocation)
	}
	return nil, &wait{inv: begun.Invocation, w: w, joins: d.Joins, new: true}, nil
}

// join waits for an invocation that another call began, or returns its outcome.
func (g *Gate) join(ctx context.Context, b *action.BeginResult, how *action.Waiting) (*action.Outcome, *wait, error) {
	if b.Status.Terminal() {
		out, err := g.reopen(&b.Record)
		out.Repeated = true
		return out, nil, err
	}
	out, wait, err := g.enter(ctx, b.Organization, b.ID, how)
	if wait != nil {
		wait.repeated = true
		return nil, wait, err
	}
	if out != nil {
		out.Repeated = true
	}
	return out, nil, err
}

// withdrawnMeanwhile returns errWithdrawnMeanwhile for a call that was withdrawn
// while its caller waits. A note says that somebody withdrew it on purpose.
func withdrawnMeanwhile(out *action.Outcome, err error) error {
	if err == nil && out.Invocation.DeniedReason == action.DeniedWithdrawn && out.Invocation.DeniedNote == "" {
		return errWithdrawnMeanwhile
	}
	return err
}

// errWithdrawnMeanwhile is the error of a call that was withdrawn while a caller
// waits for it: by the last caller of another instance, or by a sweep while this
// instance could not record its callers. The call is retried.
var errWithdrawnMeanwhile = errors.New("the call was withdrawn while its caller waited")

// enter adds a caller to the board of an existing invocation, unless it ended.
func (g *Gate) enter(ctx context.Context, organization, id string, how *action.Waiting) (*action.Outcome, *wait, error) {
	w := g.board.enter(id, how, g.Now())
	rec, err := g.Ledger.Load(ctx, organization, id) // after entering the board; see begin
	if err != nil {
		g.board.leave(id, w)
		return nil, nil, action.ReadFailed(err, id)
	}
	if rec.Status.Terminal() {
		g.board.leave(id, w)
		out, err := g.reopen(&rec)
		return out, nil, err
	}
	if rec.Status != action.StatusExecuting {
		g.keepTrace(ctx, id)
	}
	switch rec.Status {
	case action.StatusApproved:
		g.claim(rec.Invocation)
	case action.StatusExecuting:
		if how.Features != 0 { // the source may have asked already
			g.board.notifyQuestion(id)
		}
	}
	return nil, &wait{inv: rec.Invocation, w: w, joins: true}, nil
}

func paramsRef(inv *action.Invocation) action.Ref {
	return action.Ref{Organization: inv.Organization, Table: "invocations", Row: inv.ID, Column: "sealed_params"}
}

func resultRef(inv *action.Invocation) action.Ref {
	return action.Ref{Organization: inv.Organization, Table: "invocations", Row: inv.ID, Column: "sealed_result"}
}

func (g *Gate) withLink(inv action.Invocation) action.Invocation {
	inv.ApprovalURL = g.ApprovalURL(inv.ID)
	return inv
}

// changed reports that this instance changed the status of an invocation, to the
// observer and to other instances.
func (g *Gate) changed(inv *action.Invocation) {
	g.Observer.Changed(inv)
	g.announce(inv)
}

func (g *Gate) announce(inv *action.Invocation) {
	g.Hints.Publish(action.Hint{
		Kind: action.HintInvocation, Organization: inv.Organization, Session: inv.Session,
		Invocation: inv.ID, Status: inv.Status,
	})
}
