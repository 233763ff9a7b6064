package routes

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/ingest/event"
)

const runsPath = "/api/v1/runs"

func (s *handlers) runRoutes() {
	dashboard.Handle(s.Server, api.ListRuns, func(ctx context.Context, p *dashboard.Principal, in *api.RunQuery) (api.List[api.RunView], error) {
		return s.ListRuns(ctx, p, in)
	})
	dashboard.Handle(s.Server, api.GetRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.RunView, error) {
		run, err := s.Inbound.Run(ctx, p.Organization, in.ID)
		return s.ViewRun(ctx, run, err)
	})
	s.workerRoutes()
	s.runVerdictRoutes(runsPath + "/{id}")
}

func (s *handlers) workerRoutes() {
	dashboard.HandleStatus(s.Server, api.ClaimRun, func(ctx context.Context, p *dashboard.Principal, in *api.ClaimRunInput) (*dashboard.StatusResponse[api.ClaimedRun], error) {
		if in.Body == nil {
			in.Body = &api.ClaimRequest{}
		}
		return s.claimRun(ctx, p, *in.Body, in.Wait)
	})
	op := s.API.OpenAPI().Paths[runsPath+"/claim"].Post
	op.Responses["204"] = &huma.Response{Description: "No queued run"}
	dashboard.Handle(s.Server, api.RenewRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.Renewal]) (api.RunView, error) {
		run, err := s.renewRun(ctx, p, in.ID, in.Body)
		return s.ViewRun(ctx, run, err)
	})
	dashboard.Handle(s.Server, api.FinishRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.Finish]) (api.RunView, error) {
		run, err := s.finishRun(ctx, p, in.ID, in.Body)
		return s.ViewRun(ctx, run, err)
	})
}

func (s *handlers) runVerdictRoutes(one string) {
	dashboard.Handle(s.Server, api.CancelRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.Cancellation]) (api.RunView, error) {
		if in.Body == nil {
			in.Body = &api.Cancellation{}
		}
		run, err := s.cancelRun(ctx, p, in.ID, in.Body.Reason)
		return s.ViewRun(ctx, run, err)
	})
	dashboard.Handle(s.Server, api.ResolveRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.Resolution]) (api.RunView, error) {
		run, err := s.resolveRun(ctx, p, in.ID, in.Body)
		return s.ViewRun(ctx, run, err)
	})
	dashboard.Handle(s.Server, api.RedriveRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.RunView, error) {
		run, err := s.redriveRun(ctx, p, in.ID)
		return s.ViewRun(ctx, run, err)
	})
}

// Limits of what workers send.
const (
	runLease   = 5 * time.Minute
	maxLease   = 24 * time.Hour
	maxResult  = 64 << 10 // as sent
	keptResult = 10 << 10
	maxRunWait = time.Minute
	runLook    = time.Second // polling interval of a waiting claim: hints may be lost
)

// claimRun claims a run for the worker; 204 if none is queued.
func (s *handlers) claimRun(ctx context.Context, p *dashboard.Principal, w api.ClaimRequest, wait string) (*dashboard.StatusResponse[api.ClaimedRun], error) {
	patience, err := parseWait(wait)
	if err != nil {
		return nil, err
	}
	c, err := s.claim(ctx, p, w)
	if err != nil {
		return nil, err
	}
	work, err := s.awaitRun(ctx, c, min(patience, maxRunWait))
	switch {
	case errNoRun(err):
		return &dashboard.StatusResponse[api.ClaimedRun]{Status: http.StatusNoContent}, nil
	case err != nil:
		return nil, err
	}
	s.runChanged(&work.Run)
	s.Log.InfoContext(ctx, "run claimed", "run", work.Run.ID, "session", work.Run.Session, "by", c.By)
	out := api.ClaimedRun{
		Run: work.Run, Automation: api.RunAutomation{ID: work.Automation.ID, Name: work.Automation.Name, Instructions: work.Automation.Instructions},
		Event:   api.InboundEvent{Record: work.Record, Status: work.Record.Status(), AutomationName: work.Automation.Name},
		Session: api.RunSession{ID: work.Run.Session, Token: s.Tokens.Mint(work.Run.Session), MCPURL: s.MCPURL, ExpiresAt: work.ExpiresAt},
		ClaimID: work.Run.Claim, LeaseUntil: work.Run.LeaseUntil,
	}
	if work.Sealed != nil {
		out.Event.Context, err = s.OpenContext(p.Organization, work.Record.ID, work.Sealed)
	}
	return &dashboard.StatusResponse[api.ClaimedRun]{Status: http.StatusOK, Body: out}, err
}

func errNoRun(err error) bool {
	return errors.Is(err, action.ErrNotFound) && action.Public(err).Code == "no_run"
}

// awaitRun claims a run as soon as one is queued.
func (s *handlers) awaitRun(ctx context.Context, c event.Claim, patience time.Duration) (event.Work, error) {
	if patience == 0 {
		return s.Inbound.ClaimRun(ctx, c)
	}
	came := make(chan struct{}, 1)
	defer s.Hints.Subscribe(func(h action.Hint) {
		if h.Kind != action.HintRun || h.Organization != c.Organization || h.Status != action.Status(event.RunQueued) {
			return
		}
		select {
		case came <- struct{}{}:
		default:
		}
	})()
	end, look := time.NewTimer(patience), time.NewTicker(runLook)
	defer end.Stop()
	defer look.Stop()
	for {
		work, err := s.Inbound.ClaimRun(ctx, c)
		if !errNoRun(err) {
			return work, err
		}
		select {
		case <-came:
		case <-look.C:
		case <-end.C:
			return work, err
		case <-s.Done():
			return work, err
		case <-ctx.Done():
			return work, err
		}
		if err := dashboard.Reauthorize(ctx); err != nil {
			return work, err
		}
	}
}

// runChanged publishes a hint for people and waiting workers.
func (s *handlers) runChanged(r *event.Run) {
	s.Hints.Publish(action.Hint{Kind: action.HintRun, Organization: r.Organization, Run: r.ID, Status: action.Status(r.Status)})
}

func (s *handlers) claim(ctx context.Context, p *dashboard.Principal, w api.ClaimRequest) (event.Claim, error) {
	c := event.Claim{Organization: p.Organization, Run: w.Run, By: p.WorkerID(), Life: s.RunLife}
	var err error
	if c.Automation, err = s.AutomationID(ctx, p, w.Automation, "/automation"); err != nil {
		return c, err
	}
	c.Lease, err = time.ParseDuration(cmp.Or(w.Lease, runLease.String()))
	if err != nil || c.Lease < time.Second || c.Lease > maxLease {
		return c, dashboard.Invalid("/lease", "lease must be a duration from 1s to 24h, such as 5m.")
	}
	c.Lease = c.Lease.Truncate(time.Second)
	return c, nil
}

// claimOf returns the claim that a worker presents. The session of a run does not
// have to: it belongs to one claim only.
func (s *handlers) claimOf(ctx context.Context, p *dashboard.Principal, said string) (string, error) {
	if said != "" {
		return said, nil
	}
	if p.Session == nil {
		return "", &action.Error{Kind: action.ErrInvalid, Code: "missing_field", Field: "/claim_id", Message: "The body lacks the field claim_id, which the claim was answered with."}
	}
	run, err := s.Inbound.RunOfSession(ctx, p.Organization, p.Session.ID)
	if err == nil && (run.Session != p.Session.ID || run.Claim == "") {
		err = action.Errorf(action.ErrConflict, "claim_lost", "This session has the run no more; stop working on it.")
	}
	return run.Claim, err
}

func (s *handlers) renewRun(ctx context.Context, p *dashboard.Principal, id string, r *api.Renewal) (event.Run, error) {
	if r == nil {
		r = &api.Renewal{}
	}
	claim, err := s.claimOf(ctx, p, r.ClaimID)
	if err != nil {
		return event.Run{}, err
	}
	run, err := s.Inbound.RenewRun(ctx, p.Organization, id, claim)
	if err == nil {
		s.runChanged(&run)
	}
	return run, err
}

func (s *handlers) finishRun(ctx context.Context, p *dashboard.Principal, id string, f api.Finish) (event.Run, error) {
	e, err := s.runEnding(f.Status, f.RunOutcome)
	if err == nil && f.Status == event.RunNeedsHuman && strings.TrimSpace(f.Message) == "" {
		err = dashboard.Invalid("/message", "`message` must say what a person is to do.")
	}
	if err != nil {
		return event.Run{}, err
	}
	claim, err := s.claimOf(ctx, p, f.ClaimID)
	if err != nil {
		return event.Run{}, err
	}
	run, withdrew, err := s.Inbound.FinishRun(ctx, p.Organization, id, claim, e)
	if err != nil {
		return run, err
	}
	s.runEnded(ctx, p, "run finished", run, withdrew)
	return run, nil
}

func (s *handlers) cancelRun(ctx context.Context, p *dashboard.Principal, id, reason string) (event.Run, error) {
	run, withdrew, err := s.Inbound.CancelRun(ctx, p.Organization, id, p.By(), s.JSON.RedactText(reason, nil))
	if err != nil {
		return run, err
	}
	s.runEnded(ctx, p, "run cancelled", run, withdrew)
	return run, nil
}

func (s *handlers) resolveRun(ctx context.Context, p *dashboard.Principal, id string, r api.Resolution) (event.Run, error) {
	e, err := s.runEnding(r.Status, r.RunOutcome)
	if err != nil {
		return event.Run{}, err
	}
	run, err := s.Inbound.ResolveRun(ctx, p.Organization, id, p.By(), e)
	if err != nil {
		return run, err
	}
	s.runEnded(ctx, p, "run resolved", run, nil)
	return run, nil
}

func (s *handlers) redriveRun(ctx context.Context, p *dashboard.Principal, id string) (event.Run, error) {
	run, err := s.Inbound.RedriveRun(ctx, p.Organization, id, p.By())
	if err != nil {
		return run, err
	}
	s.runChanged(&run)
	s.Log.InfoContext(ctx, "run queued anew", "run", run.ID, "by", p.By())
	return run, nil
}

// runEnding converts the result of a run, redacted and truncated.
func (s *handlers) runEnding(status event.RunStatus, o api.RunOutcome) (event.RunResult, error) {
	e := event.RunResult{Status: status, Code: o.Code, Message: s.JSON.RedactText(o.Message, nil)}
	switch {
	case o.Code != "" && !isCode(o.Code):
		return e, dashboard.Invalid("/code", "code must be 1 to 64 lower-case letters, digits and underscores, such as tests_failed.")
	case o.Code != "" && status == event.RunSucceeded:
		return e, dashboard.Invalid("/code", "code says why a run did not succeed; leave it out.")
	case len(o.Result) > maxResult:
		return e, action.NewError("result_too_large").WithField("/result")
	}
	if result := normalizeSettings(o.Result); result != nil {
		e.Result = s.JSON.Prune(s.JSON.Redact(result, nil), keptResult)
	}
	return e, nil
}

// isCode reports whether a non-empty text is a machine-readable code.
func isCode(text string) bool {
	return len(text) <= 64 && strings.Trim(text[:1], "abcdefghijklmnopqrstuvwxyz") == "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// runEnded logs the end of a run and publishes that of its session.
func (s *handlers) runEnded(ctx context.Context, p *dashboard.Principal, what string, run event.Run, withdrew []action.Invocation) {
	s.Log.InfoContext(ctx, what, "run", run.ID, "status", run.Status, "code", run.Code, "by", cmp.Or(p.WorkerID(), "session"), "withdrew", len(withdrew))
	s.runChanged(&run)
	if run.Session != "" {
		s.sessionEnded(run.Organization, run.Session, withdrew)
	}
}
