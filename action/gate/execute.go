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
	joins      bool // a repeated call may get the outcome
	unattended bool
	returning  action.ClientFeatures   // questions that polling callers can answer
	trace      context.Context         // carries the caller's span, if any
	end        *action.TraceAttributes // the end of the call, for its trace
}

// claim starts the execution of an approved call, unless another instance wins
// it. It does not block.
func (g *Gate) claim(inv action.Invocation) {
	if !g.work.add() {
		return
	}
	if !g.board.start(inv.ID) {
		g.work.done() // this instance runs it already
		return
	}
	g.work.run(func() {
		defer g.work.done()
		if err := g.runClaimed(inv); err != nil {
			if !errors.Is(err, action.ErrConflict) {
				g.Log.Error("could not execute an approved call", "invocation", inv.ID, "error", err)
			}
			g.board.end(inv.ID, nil)
		}
	})
}

// runClaimed claims the row and checks again everything that the approval was based
// on. It executes exactly what was approved, or nothing.
func (g *Gate) runClaimed(inv action.Invocation) error {
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
	fin, err := g.recheck(ctx, j, rec.SealedParams)
	for action.IsDatabaseUnavailable(err) && pause(ctx, g.SweepEvery) {
		fin, err = g.recheck(ctx, j, rec.SealedParams)
	}
	if err != nil {
		// Nothing ran, so the row must not stay executing.
		g.Log.Error("could not recheck an approved call", "invocation", inv.ID, "error", err)
		fin = &action.Finish{Status: action.StatusFailed, Error: &action.Failure{Code: action.FailedInternal, Message: "The gateway could not check the call again before running it; nothing was executed."}}
	}
	g.traceRecheck(j, fin, began)
	if fin != nil {
		g.finish(j, fin, action.Answer{})
		return nil
	}
	j.returning, err = g.Ledger.CallerFeatures(ctx, rec.Organization, rec.ID)
	g.logError("could not read the features of the callers", err)
	g.execute(j)
	return nil
}

// pause waits, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// lease returns a claim that lasts for the check and the execution. It refuses an
// expired approval even if no sweep has ended the call yet.
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

// recheck reads everything that may have changed since the approval, and completes
// the job. A non-nil Finish ends the invocation instead.
func (g *Gate) recheck(ctx context.Context, j *job, sealed []byte) (*action.Finish, error) {
	s, err := g.Sessions.Session(ctx, j.Session)
	if err != nil {
		return nil, err
	}
	j.unattended = s.Kind == action.Unattended
	if err := s.Working(g.Now()); err != nil {
		return deniedNow("The session ended before the call could run."), nil
	}
	j.act, err = g.Catalog.Find(ctx, j.Organization, j.Source, j.Action, true)
	switch {
	case errors.Is(err, action.ErrNotFound):
		return staleApproval("The action no longer exists; nothing was executed."), nil
	case errors.Is(err, action.ErrUnavailable) && !action.IsDatabaseUnavailable(err):
		return &action.Finish{Status: action.StatusFailed, Error: &action.Failure{Code: action.FailedReach, Fault: fault(err), Message: "The source could not be reached; nothing was executed. You can call again."}}, nil
	case err != nil:
		return nil, err
	case j.act.Hash != j.ToolHash:
		return staleApproval("The action's definition changed after the approval; nothing was executed. Call again to request approval for the current version."), nil
	case j.act.Bind == nil && j.act.Revision != j.Revision:
		return targetChanged(), nil
	}
	if fin, err := g.recheckPolicy(ctx, j, &s); fin != nil || err != nil {
		return fin, err
	}
	j.params, err = g.Vault.Open(paramsRef(&j.Invocation), sealed)
	if err != nil {
		return nil, err
	}
	if g.Vault.Hash(j.params) != j.ParamsHash || !bytes.Equal(g.JSON.Redact(j.params, nil), j.Params) {
		return staleApproval("The stored params differ from the approved ones; nothing was executed."), nil
	}
	return g.recheckBinding(ctx, j, &s)
}

// recheckPolicy ends a call that policy denies by now.
func (g *Gate) recheckPolicy(ctx context.Context, j *job, s *action.Session) (*action.Finish, error) {
	decision, err := g.Decide(ctx, s, j.act, nil, true)
	if err != nil {
		return nil, err
	}
	if decision.Mode == action.ModeDeny {
		return deniedNow("Policy now denies this action: " + decision.Why()), nil
	}
	return nil, nil
}

// recheckBinding ends a call that would now use another integration, or another
// revision of it, than the approved one.
func (g *Gate) recheckBinding(ctx context.Context, j *job, s *action.Session) (*action.Finish, error) {
	if j.act.Bind == nil {
		return nil, nil
	}
	b, err := j.act.Bind(ctx, s, j.params)
	var e *action.Error
	switch {
	case errors.Is(err, action.ErrForbidden):
		return deniedNow(action.Public(err).Message), nil
	case errors.As(err, &e) && !action.IsDatabaseUnavailable(err):
		return staleApproval("The call can no longer run as it was approved; nothing was executed: " + e.Message), nil
	case err != nil:
		return nil, err
	case b.Integration != j.Integration || j.act.Bound(b) != j.Revision:
		return targetChanged(), nil
	}
	if changed := j.act.For(b); changed != j.act {
		j.act = changed
		return g.recheckPolicy(ctx, j, s)
	}
	return nil, nil
}

func targetChanged() *action.Finish {
	return staleApproval("The connection that this call uses changed after the approval; nothing was executed. Call again to request approval for the current one.")
}

func staleApproval(message string) *action.Finish {
	return &action.Finish{Status: action.StatusFailed, Error: &action.Failure{Code: action.FailedStale, Message: message}}
}

func deniedNow(note string) *action.Finish {
	return &action.Finish{Status: action.StatusDenied, DeniedReason: action.DeniedPolicy, DeniedNote: note}
}

func (g *Gate) timeout(act *action.Action) time.Duration {
	if act.Timeout > 0 {
		return act.Timeout
	}
	return g.CallTimeout
}

// execute runs a claimed invocation and records its outcome. Every effect of the
// gateway starts here. It does not depend on a caller: only its own timeout stops it.
func (g *Gate) execute(j *job) {
	ctx, stop := context.WithTimeout(j.trace, g.timeout(j.act))
	var end func(action.TraceAttributes)
	if g.Tracer != nil {
		ctx, end = g.Tracer.Start(ctx, action.TraceExecute)
	}
	started := g.Now()
	on := &executionCaller{Gate: g, job: j, can: j.returning}
	on.listeners()
	res, err := g.run(ctx, j, on)
	stop()
	on.over.Store(true)
	j.joins = j.joins || on.asked.Load() // the caller that replied will fetch the outcome
	fin, answer := g.verdict(j.act, &res, err)
	fin.Integration = res.Integration
	took := max(0, g.Now().Sub(started))
	fin.DurationMS = took.Milliseconds()
	g.Observer.Ran(&j.Invocation, fin.Status, took)
	if end != nil {
		end(j.traced(fin))
	}
	if j.joins && (answer.Body != nil || answer.Problem != nil) {
		if fin.SealedResult, err = g.Vault.Seal(resultRef(&j.Invocation), answer.Encode()); err != nil {
			g.Log.Error("could not seal a result", "invocation", j.ID, "error", err)
		}
	}
	g.finish(j, fin, answer)
}

// run calls the source. A panic in it counts as an unknown outcome.
func (g *Gate) run(ctx context.Context, j *job, caller action.Caller) (res action.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the source panicked: %v", action.ErrOutcomeUnknown, p)
		}
	}()
	return j.act.Run(ctx, j.params, caller)
}

const (
	// codeRateLimited is the error code of a rate limit of a service, with RetryAfter.
	codeRateLimited = "upstream_rate_limited"
	// codeTimeout is the code of an execution that reached its own timeout.
	codeTimeout = "upstream_timeout"
)

// fault returns the code of the cause of a source's error.
func fault(err error) string {
	var e *action.Error
	if !errors.As(err, &e) && errors.Is(err, context.DeadlineExceeded) {
		return codeTimeout
	}
	return action.Public(err).Code
}

// verdict converts a source's answer to the end of the row.
func (g *Gate) verdict(act *action.Action, res *action.Result, err error) (*action.Finish, action.Answer) {
	answer := action.Answer{Body: res.Body, Problem: res.Problem, IsError: res.IsError}
	switch {
	case act.Platform != nil && errors.Is(err, action.ErrTooMany):
		// Other calls of the session used the quota; the same call can be made later.
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
			fin.Error = &action.Failure{Code: action.FailedTool, Fault: res.Fault, Message: g.clip(toolText(res.Body), res.Secrets)}
		}
		return fin, answer
	}
	g.Log.Warn("a source failed", "source", act.Source, "action", act.Name, "error", g.JSON.RedactText(err.Error(), res.Secrets))
	failure := &action.Failure{Code: action.FailedUnknown, Fault: fault(err)}
	reason, again := "The source's answer did not arrive.", "You can try again."
	if e := (*action.Error)(nil); errors.As(err, &e) {
		if reason = e.Message; act.Provider != "" && e.Code == codeRateLimited {
			reason = act.SourceName + " limits its requests."
		}
		switch {
		case e.Persistent():
			again = "Do not repeat it: it fails until a person fixes the cause. Tell the user."
		case e.RetryAfter > 0:
			again = fmt.Sprintf("You can try again in %s.", e.RetryAfter.Round(time.Second))
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
		failure.Message = reason + " The effect may or may not have happened: check at the service before you try again. The gateway does not repeat it."
	}
	failure.Message = g.clip(failure.Message, res.Secrets)
	return &action.Finish{Status: action.StatusFailed, Error: failure}, action.Answer{}
}

// finish ends the row, then wakes its callers, so that every answer is durable before
// it is sent. If the row cannot be written, the callers get "outcome unknown", which a
// sweep will also write into the row.
func (g *Gate) finish(j *job, fin *action.Finish, answer action.Answer) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	fin.Organization, fin.ID, fin.Executor, fin.Now = j.Organization, j.ID, g.Instance, g.Now()
	switch {
	case fin.Status == action.StatusDenied: // there is no result to fetch; the next call is decided again
	case j.unattended:
		fin.PickupUntil = fin.Now.Add(g.PickupUnattended)
	default:
		fin.PickupUntil = fin.Now.Add(g.PickupInteractive)
	}
	ended, recorded, err := g.Ledger.Finish(ctx, fin)
	switch {
	case err != nil:
		g.Log.Error("could not record the end of a call", "invocation", j.ID, "status", fin.Status, "error", err)
		ended, answer = j.Invocation, action.Answer{}
		ended.Status = action.StatusFailed
		ended.Error = &action.Failure{Code: action.FailedUnknown, Message: "The end of the call could not be recorded; the effect may or may not have happened. Check at the service before you try again."}
	case !recorded:
		g.Log.Warn("a call ended after its lease expired", "invocation", j.ID, "status", fin.Status)
		answer = action.Answer{}
	default:
		g.Observer.Changed(&ended)
	}
	ended = g.withLink(ended)
	g.traceEnd(j, &ended)
	g.board.end(j.ID, &action.Outcome{Invocation: ended, Answer: answer, Joins: j.joins})
	g.announce(&ended)
}

// summary describes in one line what the call would do.
func (g *Gate) summary(act *action.Action, params, redacted json.RawMessage) string {
	if act.Summarize != nil {
		if text := act.Summarize(params); text != "" {
			return clipped(g.JSON.RedactText(text, nil), g.KeepSummary)
		}
	}
	return g.JSON.Summary(redacted, g.KeepSummary)
}

// clipped truncates text to at most limit bytes, between two runes.
func clipped(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := 0
	for i := range text {
		if i > limit-len("…") {
			break
		}
		end = i
	}
	return text[:end] + "…"
}

// clip redacts and truncates foreign text.
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
