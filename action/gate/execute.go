package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sallyport/action"
)

// job is an invocation that this instance may execute.
type job struct {
	action.Invocation
	act        *action.Action
	params     json.RawMessage
	joins      bool // a repeat may be handed the outcome
	unattended bool
	returning  action.ClientFeatures // what callers can be asked who come back by themselves
	trace      context.Context       // carries the span of its caller, where calls are traced and it is known
	end        *action.Traced        // how it ended, where calls are traced
}

// claim has an approved call executed by this instance, if no other wins it.
// It returns at once.
func (g *Gate) claim(inv action.Invocation) {
	if !g.work.add() {
		return
	}
	if !g.board.start(inv.ID) {
		g.work.done() // it runs here already
		return
	}
	g.work.run(func() {
		defer g.work.done()
		if err := g.claimed(inv); err != nil {
			if !errors.Is(err, action.ErrConflict) {
				g.Log.Error("executing an approved call", "invocation", inv.ID, "error", err)
			}
			g.board.end(inv.ID, nil)
		}
	})
}

// claimed wins the row, reads again everything that the approval rested on,
// and executes what was approved or nothing.
func (g *Gate) claimed(inv action.Invocation) error {
	ctx, stop := context.WithTimeout(context.Background(), g.CheckTimeout)
	defer stop()
	lease, err := g.lease(ctx, inv)
	if err != nil {
		return err
	}
	rec, err := g.Ledger.Claim(ctx, lease)
	if err != nil {
		return err
	}
	g.changed(&rec.Invocation)
	j := &job{Invocation: rec.Invocation, joins: true}
	defer g.traceResume(j)()
	began := time.Now()
	fin, err := g.again(ctx, j, rec.SealedParams)
	for action.RowsAway(err) && pause(ctx, g.LookEvery) {
		fin, err = g.again(ctx, j, rec.SealedParams)
	}
	if err != nil {
		// Nothing ran, and the row must not look as if something had.
		g.Log.Error("checking an approved call again", "invocation", inv.ID, "error", err)
		fin = &action.Finish{Status: action.StatusFailed, Error: &action.Failure{Code: action.FailedInternal, Message: "The gateway could not check the call again before running it; nothing was executed."}}
	}
	g.traceRecheck(j, fin, began)
	if fin != nil {
		g.finish(j, fin, action.Answer{})
		return nil
	}
	j.returning, err = g.Ledger.Returning(ctx, rec.Organization, rec.ID)
	g.logged("reading what the callers can be asked", err)
	g.execute(j)
	return nil
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// lease is a claim for long enough to check and to execute. An approval that
// nobody used in time is not used any more, also when no sweep came by.
func (g *Gate) lease(ctx context.Context, inv action.Invocation) (action.Claim, error) {
	rec, err := g.Ledger.Load(ctx, inv.Organization, inv.ID)
	if err != nil {
		return action.Claim{}, err
	}
	now, run := g.Now(), g.CallTimeout
	if rec.ApprovedAt != nil && now.Sub(*rec.ApprovedAt) > g.ClaimWithin {
		return action.Claim{}, action.NewError("approval_expired").WithInvocation(inv.ID)
	}
	if act, err := g.Catalog.Find(ctx, rec.Organization, rec.Source, rec.Action, false); err == nil {
		run = g.timeout(act)
	}
	return action.Claim{
		Organization: inv.Organization, ID: inv.ID, Executor: g.Instance, Now: now,
		LeaseUntil: now.Add(g.CheckTimeout + run + g.LeaseMargin),
	}, nil
}

// again reads everything that may have changed since a person approved, and
// fills in the job. A non-nil Finish is how the invocation ends instead.
func (g *Gate) again(ctx context.Context, j *job, sealed []byte) (*action.Finish, error) {
	s, err := g.Sessions.Session(ctx, j.Session)
	if err != nil {
		return nil, err
	}
	j.unattended = s.Kind == action.Unattended
	if err := s.Working(g.Now()); err != nil {
		return denial("The session ended before the call could run."), nil
	}
	j.act, err = g.Catalog.Find(ctx, j.Organization, j.Source, j.Action, true)
	switch {
	case errors.Is(err, action.ErrNotFound):
		return stale("The action does not exist any more; nothing was executed."), nil
	case errors.Is(err, action.ErrUnavailable) && !action.RowsAway(err):
		return &action.Finish{Status: action.StatusFailed, Error: &action.Failure{Code: action.FailedReach, Message: "The source could not be reached; nothing was executed. It may be called again."}}, nil
	case err != nil:
		return nil, err
	case j.act.Hash != j.ToolHash:
		return stale("The action's definition changed after it was approved; nothing was executed. Call it again to have it approved as it is now."), nil
	case j.act.Bind == nil && j.act.Revision != j.Revision:
		return moved(), nil
	}
	decision, err := g.Decide(ctx, &s, j.act, nil, true)
	if err != nil {
		return nil, err
	}
	if decision.Mode == action.ModeDeny {
		return denial("Policy denies this action now: " + decision.Why()), nil
	}
	j.params, err = g.Vault.Open(paramsRef(&j.Invocation), sealed)
	if err != nil {
		return nil, err
	}
	if g.Vault.Hash(j.params) != j.ParamsHash || !bytes.Equal(g.JSON.Redact(j.params, nil), j.Params) {
		return stale("The stored params are not those that were approved; nothing was executed."), nil
	}
	return g.boundAgain(ctx, j, &s)
}

// boundAgain ends a call of a module that would go elsewhere now than where a
// person let it.
func (g *Gate) boundAgain(ctx context.Context, j *job, s *action.Session) (*action.Finish, error) {
	if j.act.Bind == nil {
		return nil, nil
	}
	b, err := j.act.Bind(ctx, s, j.params)
	var e *action.Error
	switch {
	case errors.As(err, &e) && !action.RowsAway(err):
		return stale("The call cannot run any more as it was approved, so nothing was executed: " + e.Message), nil
	case err != nil:
		return nil, err
	case b.Integration != j.Integration || j.act.Bound(b) != j.Revision:
		return moved(), nil
	}
	return nil, nil
}

func moved() *action.Finish {
	return stale("What the call is sent to was changed after the approval; nothing was executed. Call again to have it approved as it is now.")
}

func stale(message string) *action.Finish {
	return &action.Finish{Status: action.StatusFailed, Error: &action.Failure{Code: action.FailedStale, Message: message}}
}

func denial(note string) *action.Finish {
	return &action.Finish{Status: action.StatusDenied, DeniedReason: action.DeniedPolicy, DeniedNote: note}
}

func (g *Gate) timeout(act *action.Action) time.Duration {
	if act.Timeout > 0 {
		return act.Timeout
	}
	return g.CallTimeout
}

// execute runs a claimed invocation and writes down how it ended. It is the
// only place from which an effect starts, and knows no caller: nobody's
// leaving stops it, only its own timeout.
func (g *Gate) execute(j *job) {
	ctx, stop := context.WithTimeout(j.trace, g.timeout(j.act))
	var end func(action.Traced)
	if g.Tracer != nil {
		ctx, end = g.Tracer.Start(ctx, action.TraceExecute)
	}
	started := g.Now()
	on := &line{Gate: g, job: j, can: j.returning}
	on.listeners()
	res, err := g.run(ctx, j, on)
	stop()
	on.over.Store(true)
	j.joins = j.joins || on.asked.Load() // whoever replied comes back for the outcome
	fin, answer := g.verdict(j.act, &res, err)
	fin.Integration = res.Integration
	took := max(0, g.Now().Sub(started))
	fin.DurationMS = took.Milliseconds()
	g.Observer.Ran(&j.Invocation, fin.Status, took)
	if end != nil {
		end(j.came(fin))
	}
	if j.joins && (answer.Body != nil || answer.Problem != nil) {
		if fin.SealedResult, err = g.Vault.Seal(resultRef(&j.Invocation), answer.Keep()); err != nil {
			g.Log.Error("sealing a result", "invocation", j.ID, "error", err)
		}
	}
	g.finish(j, fin, answer)
}

// run calls the source. A panic of it is an outcome like any other.
func (g *Gate) run(ctx context.Context, j *job, caller action.Caller) (res action.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the source panicked: %v", action.ErrOutcomeUnknown, p)
		}
	}()
	return j.act.Run(ctx, j.params, caller)
}

// codeRateLimited is of a service that wants fewer requests; RetryAfter says for
// how long.
const codeRateLimited = "upstream_rate_limited"

// verdict says what a source's answer means for the row.
func (g *Gate) verdict(act *action.Action, res *action.Result, err error) (*action.Finish, action.Answer) {
	answer := action.Answer{Body: res.Body, Problem: res.Problem, IsError: res.IsError}
	switch {
	case act.Own != nil && errors.Is(err, action.ErrTooMany):
		// Others of the session came first; the same call may be made again later.
		return &action.Finish{Status: action.StatusDenied, DeniedReason: action.DeniedQuota, DeniedNote: action.Public(err).Message}, action.Answer{}
	case err == nil && res.Problem != nil:
		return &action.Finish{Status: action.StatusFailed, Error: &action.Failure{
			Code: action.FailedUpstream, Message: g.clip(problemText(res.Problem), res.Secrets),
		}}, answer
	case err == nil:
		redacted := g.JSON.Redact(res.Body, res.Secrets)
		fin := &action.Finish{
			Status: action.StatusCompleted, Result: g.JSON.Prune(redacted, g.KeepResult),
		}
		fin.ResultNote = g.JSON.Summary(fin.Result, g.KeepSummary)
		if res.IsError {
			fin.Status = action.StatusFailed
			fin.Error = &action.Failure{Code: action.FailedTool, Message: g.clip(toolText(res.Body), res.Secrets)}
		}
		return fin, answer
	}
	g.Log.Warn("a source failed", "source", act.Source, "action", act.Name, "error", g.JSON.RedactText(err.Error(), res.Secrets))
	failure := &action.Failure{Code: action.FailedUnknown}
	reason, again := "The source's answer did not arrive.", "It may be tried again."
	if e := (*action.Error)(nil); errors.As(err, &e) {
		if reason = e.Message; act.Provider != "" && e.Code == codeRateLimited {
			reason = act.SourceName + " wants fewer requests."
		}
		switch {
		case e.Lasting():
			again = "Do not repeat it: it fails again until a person has mended that; tell the user."
		case e.RetryAfter > 0:
			again = fmt.Sprintf("It may be tried again in %s.", e.RetryAfter.Round(time.Second))
		}
	} else if errors.Is(err, context.DeadlineExceeded) {
		reason = fmt.Sprintf("The source did not answer within %s.", g.timeout(act))
	}
	switch {
	case errors.Is(err, action.ErrUnavailable):
		failure.Code = action.FailedReach
		failure.Message = reason + " Nothing was executed. " + again
	case act.Risk == action.RiskRead:
		failure.Code = action.FailedReach
		failure.Message = reason + " Nothing was changed. " + again
	default:
		failure.Message = reason + " It may or may not have happened; check at the service before trying again. The gateway will not repeat it."
	}
	failure.Message = g.clip(failure.Message, res.Secrets)
	return &action.Finish{Status: action.StatusFailed, Error: failure}, action.Answer{}
}

// clip cleans a line of foreign text and bounds it.
func (g *Gate) clip(text string, secrets []string) string {
	text = g.JSON.RedactText(text, secrets)
	if r := []rune(text); len(r) > 500 {
		text = string(r[:500]) + "…"
	}
	return text
}

func problemText(problem json.RawMessage) string {
	var p struct {
		Code    json.Number `json:"code"`
		Message string      `json:"message"`
	}
	if json.Unmarshal(problem, &p) != nil {
		return "the source answered with an error"
	}
	return fmt.Sprintf("%s (%s)", p.Message, p.Code)
}

func toolText(body json.RawMessage) string {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(body, &r) == nil {
		for _, c := range r.Content {
			if c.Text != "" {
				return c.Text
			}
		}
	}
	return "the tool reported an error"
}

// finish ends the row and then the waits for it: nobody is answered before
// what is told is durable. When the row cannot be written, the callers are
// told that the outcome is unknown, which is what the row will come to say.
func (g *Gate) finish(j *job, fin *action.Finish, answer action.Answer) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	fin.Organization, fin.ID, fin.Executor, fin.Now = j.Organization, j.ID, g.Instance, g.Now()
	switch {
	case fin.Status == action.StatusDenied: // the next call is decided anew
	case j.unattended:
		fin.PickupUntil = fin.Now.Add(g.PickupUnattended)
	default:
		fin.PickupUntil = fin.Now.Add(g.PickupInteractive)
	}
	ended, recorded, err := g.Ledger.Finish(ctx, fin)
	switch {
	case err != nil:
		g.Log.Error("recording how a call ended", "invocation", j.ID, "status", fin.Status, "error", err)
		ended, answer = j.Invocation, action.Answer{}
		ended.Status = action.StatusFailed
		ended.Error = &action.Failure{Code: action.FailedUnknown, Message: "How the call ended could not be recorded; it may or may not have happened. Check at the service before trying again."}
	case !recorded:
		g.Log.Warn("a call ended after it was given up", "invocation", j.ID, "status", fin.Status)
		answer = action.Answer{}
	default:
		g.Observer.Changed(&ended)
	}
	ended = g.linked(ended)
	g.traceEnd(j, &ended)
	g.board.end(j.ID, &action.Outcome{Invocation: ended, Answer: answer, Joins: j.joins})
	g.announce(&ended)
}
