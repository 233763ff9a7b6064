package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
	"sallyport/internal/guard"
)

func (s *handlers) runRoutes() {
	dashboard.Handle(s.Server, api.ListRuns, s.ListRuns)
	dashboard.Handle(s.Server, api.GetRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.RunView, error) {
		run, err := s.Inbound.Run(ctx, p.Organization, in.ID)
		return s.ViewRun(ctx, run, err)
	})
	dashboard.HandleStatus(s.Server, api.ClaimRun, func(ctx context.Context, p *dashboard.Principal, in *api.ClaimRunInput) (*dashboard.StatusResponse[api.ClaimedRun], error) {
		if in.Body == nil {
			in.Body = &api.ClaimRequest{}
		}
		return s.claimRun(ctx, p, *in.Body, in.Wait)
	})
	s.API.OpenAPI().Paths["/api/v1/runs/claim"].Post.Responses["204"] = &huma.Response{Description: "No queued run"}
	dashboard.Handle(s.Server, api.RenewRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.Renewal]) (api.RunView, error) {
		if in.Body == nil {
			in.Body = &api.Renewal{}
		}
		claim, err := s.claimOf(ctx, p, in.Body.ClaimID)
		if err != nil {
			return api.RunView{}, err
		}
		run, err := s.Inbound.RenewRun(ctx, p.Organization, in.ID, claim)
		if err == nil {
			s.runChanged(&run)
		}
		return s.ViewRun(ctx, run, err)
	})
	dashboard.Handle(s.Server, api.FinishRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.Finish]) (api.RunView, error) {
		run, err := s.finishRun(ctx, p, in.ID, in.Body)
		return s.ViewRun(ctx, run, err)
	})
	dashboard.Handle(s.Server, api.CancelRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.Cancellation]) (api.RunView, error) {
		if in.Body == nil {
			in.Body = &api.Cancellation{}
		}
		run, withdrew, err := s.Inbound.CancelRun(ctx, p.Organization, in.ID, p.By(), s.JSON.RedactText(in.Body.Reason, nil))
		if err == nil {
			s.runEnded(ctx, p, "run cancelled", run, withdrew)
		}
		return s.ViewRun(ctx, run, err)
	})
	dashboard.Handle(s.Server, api.ResolveRun, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.Resolution]) (api.RunView, error) {
		e, err := s.runEnding(in.Body.Status, in.Body.RunOutcome)
		if err != nil {
			return api.RunView{}, err
		}
		run, err := s.Inbound.ResolveRun(ctx, p.Organization, in.ID, p.By(), e)
		if err == nil {
			s.runEnded(ctx, p, "run resolved", run, nil)
		}
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
	runPoll    = time.Second // polling interval of a waiting claim: hints may be lost
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
		Run: work.Run, Automation: api.RunAutomation{ID: work.Automation.ID, Name: work.Automation.Name, Instructions: work.Automation.Instructions, RunSettings: work.Automation.RunSettings},
		Event:   api.InboundEvent{Record: work.Record, Status: work.Record.Status(), AutomationName: work.Automation.Name},
		Session: api.RunSession{ID: work.Run.Session, Token: s.Tokens.Mint(work.Run.Session), MCPURL: s.MCPURL, ExpiresAt: work.ExpiresAt},
		ClaimID: work.Run.Claim, LeaseUntil: work.Run.LeaseUntil,
	}
	session, err := s.Session(ctx, p.Organization, work.Run.Session)
	if err != nil {
		return nil, err
	}
	if out.Workspace, err = s.workspaceOf(ctx, &session); err != nil {
		return nil, err
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
	queued := make(chan struct{}, 1)
	defer s.Hints.Subscribe(func(h action.Hint) {
		if h.Kind != action.HintRun || h.Organization != c.Organization || h.Status != action.Status(event.RunQueued) {
			return
		}
		select {
		case queued <- struct{}{}:
		default:
		}
	})()
	end, poll := time.NewTimer(patience), time.NewTicker(runPoll)
	defer end.Stop()
	defer poll.Stop()
	for {
		work, err := s.Inbound.ClaimRun(ctx, c)
		if !errNoRun(err) {
			return work, err
		}
		select {
		case <-queued:
		case <-poll.C:
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
func (s *handlers) claimOf(ctx context.Context, p *dashboard.Principal, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if p.Session == nil {
		return "", &action.Error{Kind: action.ErrInvalid, Code: "missing_field", Field: "/claim_id", Message: "The field claim_id is missing. Send the one from the response to the claim."}
	}
	run, err := s.Inbound.RunOfSession(ctx, p.Organization, p.Session.ID)
	if err == nil && (run.Session != p.Session.ID || run.Claim == "") {
		err = action.Errorf(action.ErrConflict, "claim_lost", "This session no longer has the run. Stop working on it.")
	}
	return run.Claim, err
}

func (s *handlers) finishRun(ctx context.Context, p *dashboard.Principal, id string, f api.Finish) (event.Run, error) {
	e, err := s.runEnding(f.Status, f.RunOutcome)
	if err == nil && f.Status == event.RunNeedsHuman && strings.TrimSpace(f.Message) == "" {
		err = dashboard.Invalid("/message", "`message` must say what a person has to do.")
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

func (s *handlers) redriveRun(ctx context.Context, p *dashboard.Principal, id string) (event.Run, error) {
	run, err := s.Inbound.RedriveRun(ctx, p.Organization, id, p.By())
	if err != nil {
		return run, err
	}
	s.runChanged(&run)
	s.Log.InfoContext(ctx, "run queued again", "run", run.ID, "by", p.By())
	return run, nil
}

// runEnding converts the result of a run, redacted and truncated.
func (s *handlers) runEnding(status event.RunStatus, o api.RunOutcome) (event.RunResult, error) {
	const letters, others = "abcdefghijklmnopqrstuvwxyz", "0123456789_"
	e := event.RunResult{Status: status, Code: o.Code, Message: s.JSON.RedactText(o.Message, nil)}
	switch {
	case o.Code != "" && (len(o.Code) > 64 || !strings.Contains(letters, o.Code[:1]) || strings.Trim(o.Code, letters+others) != ""):
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

// runEnded logs the end of a run and publishes that of its session.
func (s *handlers) runEnded(ctx context.Context, p *dashboard.Principal, what string, run event.Run, withdrew []action.Invocation) {
	s.Log.InfoContext(ctx, what, "run", run.ID, "status", run.Status, "code", run.Code, "by", cmp.Or(p.WorkerID(), "session"), "withdrew", len(withdrew))
	s.runChanged(&run)
	if run.Session != "" {
		s.sessionEnded(run.Organization, run.Session, withdrew)
	}
}

func (s *handlers) inboundRoutes() {
	dashboard.Handle(s.Server, api.ListInboundEvents, s.ListEvents)
	dashboard.Handle(s.Server, api.GetInboundEvent, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.InboundEvent, error) {
		r, err := s.Inbound.Event(ctx, p.Organization, in.ID)
		if err != nil {
			return api.InboundEvent{}, err
		}
		return s.ViewEvent(ctx, r)
	})
	dashboard.Handle(s.Server, api.GetInboundContext, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.WholeContext, error) {
		whole, err := s.FullContext(ctx, p, in.ID)
		return api.WholeContext{Context: whole}, err
	})
	dashboard.Handle(s.Server, api.SkipInboundEvent, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.InboundEvent, error) {
		r, err := s.Inbound.SkipEvent(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return api.InboundEvent{}, err
		}
		s.runChanged(&event.Run{ID: r.Run, Organization: r.Organization, Status: r.RunStatus})
		s.Log.InfoContext(ctx, "event skipped", "event", r.ID, "run", r.Run, "by", p.By())
		return s.ViewEvent(ctx, r)
	})
	dashboard.Handle(s.Server, api.ListDeliveries, func(ctx context.Context, p *dashboard.Principal, in *api.DeliveryQuery) (api.List[api.DeliveryView], error) {
		page, err := s.ListReceipts(ctx, p, in)
		return view.PageOf(page, func(r event.Receipt) api.DeliveryView { return api.DeliveryView{Receipt: r} }), err
	})
	dashboard.Handle(s.Server, api.GetDelivery, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.DeliveryView, error) {
		r, err := s.Inbound.Receipt(ctx, p.Organization, in.ID)
		return view.ViewDelivery(r), err
	})
	dashboard.Handle(s.Server, api.RedriveDelivery, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.DeliveryView, error) {
		r, err := s.Inbound.RedriveReceipt(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return api.DeliveryView{}, err
		}
		s.Log.InfoContext(ctx, "delivery queued again", "delivery", r.ID, "by", p.By())
		return view.ViewDelivery(r), nil
	})
	dashboard.Handle(s.Server, api.ListOutbox, func(ctx context.Context, p *dashboard.Principal, in *api.RunDeliveryQuery) (api.List[event.RunDelivery], error) {
		page, err := s.Inbound.ListRunDeliveries(ctx, event.RunDeliveryFilter{Organization: p.Organization, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor})
		return view.PageOf(page, identity), err
	})
	dashboard.Handle(s.Server, api.RedriveRunDelivery, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.RunView, error) {
		delivery, err := s.Inbound.RunDelivery(ctx, p.Organization, in.ID)
		switch {
		case err != nil:
			return api.RunView{}, err
		case delivery.Status != event.DeliveryDead:
			return api.RunView{}, action.NewError("parcel_not_dead", delivery.Status)
		}
		run, err := s.redriveRun(ctx, p, delivery.Run)
		return s.ViewRun(ctx, run, err)
	})
	dashboard.Handle(s.Server, api.GetRunEndpoint, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.EndpointView, error) {
		return s.RunEndpoint(ctx, p)
	})
	dashboard.Handle(s.Server, api.PutRunEndpoint, s.setEndpoint)
	dashboard.HandleNone(s.Server, api.DeleteRunEndpoint, func(ctx context.Context, p *dashboard.Principal, _ *api.None) error {
		if err := s.Inbound.DeleteRunEndpoint(ctx, p.Organization, p.By()); err != nil {
			return view.ErrNoEndpoint(err)
		}
		s.policyChanged(ctx, p, "run endpoint removed")
		return nil
	})
	dashboard.Handle(s.Server, api.RotateRunEndpoint, func(ctx context.Context, p *dashboard.Principal, in *api.Body[*api.Rotation]) (api.MintedSecret, error) {
		if _, err := s.RunEndpoint(ctx, p); err != nil {
			return api.MintedSecret{}, err
		}
		return s.rotate(ctx, p, dashboard.EndpointSecrets, in.Body, true)
	})
}

func (s *handlers) setEndpoint(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewEndpoint]) (api.MintedEndpoint, error) {
	n := in.Body
	if err := s.checkEndpoint(ctx, n.URL); err != nil {
		return api.MintedEndpoint{}, err
	}
	old, err := s.Inbound.RunEndpoint(ctx, p.Organization)
	if err != nil && !errors.Is(err, action.ErrNotFound) {
		return api.MintedEndpoint{}, err
	}
	e := event.Endpoint{Organization: p.Organization, URL: n.URL, Enabled: true, UpdatedBy: p.By(), UpdatedAt: s.Now()}
	setIfGiven(&e.Enabled, n.Enabled)
	var secret *event.Secret
	shown := ""
	switch {
	case len(old.Secrets) == 0:
		var first event.Secret
		if first, shown, err = s.newSecret(p.Organization, n.Secret, true); err != nil {
			return api.MintedEndpoint{}, err
		}
		secret = &first
	case n.Secret != "":
		return api.MintedEndpoint{}, dashboard.Invalid("/secret", "The endpoint already has a secret. Leave secret out; to replace it, use POST /api/v1/run-endpoint/rotate.")
	}
	if e, err = s.Inbound.SetRunEndpoint(ctx, e, secret); err != nil {
		return api.MintedEndpoint{}, err
	}
	s.policyChanged(ctx, p, "run endpoint set", "url", e.URL, "enabled", e.Enabled)
	return api.MintedEndpoint{EndpointView: view.ViewEndpoint(e), Secret: shown}, nil
}

// checkEndpoint accepts only https URLs that the guard may reach, and http on this
// machine.
func (s *handlers) checkEndpoint(ctx context.Context, text string) error {
	u, err := guard.CheckURL(text)
	switch {
	case err != nil:
		return err
	case u.Scheme != "https" && !guard.Loopback(u):
		return dashboard.Invalid("/url", fmt.Sprintf("url must be https, or http on this machine: deliveries contain a session token, and %s would receive it unencrypted.", u.Hostname()))
	}
	return s.Guard.CheckReach(ctx, u)
}
