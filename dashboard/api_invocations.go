package dashboard

import (
	"context"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) invocationRoutes() {
	handle(s, api.ListInvocations, func(ctx context.Context, p *Principal, in *api.ListInvocationsInput) (api.InvocationList, error) {
		return s.listInvocations(ctx, p, in.Sought, in.AskedBy, in.Paging)
	})
	handle(s, api.GetInvocation, func(ctx context.Context, p *Principal, in *api.ByID) (api.InvocationView, error) {
		inv, err := s.Calls.Invocation(ctx, p.Organization, in.ID)
		if err != nil {
			return api.InvocationView{}, err
		}
		return s.view(ctx, p, inv)
	})
	handle(s, api.GetInvocationParams, func(ctx context.Context, p *Principal, in *api.ByID) (api.FullParams, error) {
		return s.fullParams(ctx, p, in.ID)
	})
	handle(s, api.ListInvocationEvents, func(ctx context.Context, p *Principal, in *api.ByID) (api.List[action.Event], error) {
		events, err := s.events(ctx, p.Organization, in.ID)
		return listOf(events), err
	})
	s.verdictRoutes("/api/v1/invocations/{id}")
}

// approvalVerdict is the decision that a body says; nil says no more than yes. Who
// decided comes from the login.
func approvalVerdict(a *api.Approval, session, id string, now time.Time) (action.Verdict, error) {
	v := action.Verdict{Session: session, ID: id}
	if a == nil {
		return v, nil
	}
	v.ParamsHash, v.ToolHash = a.ParamsHash, a.ToolHash
	grant := a.Grant
	switch {
	case grant != nil && a.Mode == "once":
		return v, invalid("/mode", "An approval for once makes no grant; leave grant out, or send mode grant.")
	case grant == nil && a.Mode == "grant":
		grant = &api.ApprovalGrant{}
	case grant == nil:
		return v, nil
	}
	until, err := lifetimeUntil(grant.Lifetime, now)
	if err != nil {
		return v, under(err, "/grant")
	}
	v.Pin, v.Unreviewed = grant.Pin, grant.Unreviewed
	v.Grant = &action.Grant{Terms: action.Terms{Scope: scopeNameScope(grant.Scope), Pins: grant.Pins, MaxCalls: grant.MaxCalls, ExpiresAt: until}}
	return v, nil
}

// denialVerdict is the decision that a body says; nil says no more than no.
func denialVerdict(d *api.Denial, session, id string) action.Verdict {
	v := action.Verdict{Session: session, ID: id}
	if d != nil {
		v.Note, v.ParamsHash, v.ToolHash = d.Reason, d.ParamsHash, d.ToolHash
	}
	return v
}

// verdictRoutes adds approve and deny under an invocation's path; see
// sessionVerdicts for those under a session's.
func (s *Server) verdictRoutes(path string) {
	handle(s, api.ApproveInvocation, func(ctx context.Context, p *Principal, in *api.ByIDWaitWith[*api.Approval]) (api.Outcome, error) {
		return s.approve(ctx, p, "", in.ID, in.Body, in.Wait)
	})
	handle(s, api.DenyInvocation, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.Denial]) (api.Outcome, error) {
		return s.deny(ctx, p, denialVerdict(in.Body, "", in.ID))
	})
}

// shown adds what a row does not hold: where a person decides.
func (s *Server) shown(inv action.Invocation) action.Invocation {
	if inv.Status == action.StatusPending && inv.ApprovalURL == "" {
		inv.ApprovalURL = s.PublicURL + "/invocations/" + inv.ID
	}
	return inv
}

// events returns the events of an invocation that the organization has.
func (s *Server) events(ctx context.Context, organization, id string) ([]action.Event, error) {
	if _, err := s.Calls.Invocation(ctx, organization, id); err != nil {
		return nil, err
	}
	return s.Calls.Events(ctx, organization, id)
}

func (s *Server) fullParams(ctx context.Context, p *Principal, id string) (api.FullParams, error) {
	inv, err := s.Calls.Invocation(ctx, p.Organization, id)
	if err != nil {
		return api.FullParams{}, err
	}
	params, full, err := s.Gate.Params(ctx, p.Organization, id)
	if err != nil {
		return api.FullParams{}, err
	}
	if full { // without a record nothing is revealed
		e := action.Event{Organization: p.Organization, Invocation: id, Kind: action.ParamsRevealed, By: p.By(), At: s.Now()}
		if err := s.Calls.AppendEvent(ctx, e); err != nil {
			return api.FullParams{}, err
		}
	}
	return api.FullParams{Params: params, Full: full, ParamsHash: inv.ParamsHash, ToolHash: inv.ToolHash}, nil
}

func (s *Server) approve(ctx context.Context, p *Principal, session, id string, said *api.Approval, wait string) (api.Outcome, error) {
	patience, err := parseWait(wait)
	if err != nil {
		return api.Outcome{}, err
	}
	v, err := approvalVerdict(said, session, id, s.now())
	if err != nil {
		return api.Outcome{}, err
	}
	v = s.verdict(p, v)
	inv, err := s.Gate.Approve(ctx, v)
	if err != nil {
		return api.Outcome{}, s.undecided(ctx, p, id, ofGrant(err))
	}
	s.Log.InfoContext(ctx, "call approved", "invocation", inv.ID, "by", p.By())
	out := api.Outcome{Invocation: s.shown(inv)}
	if patience > 0 {
		out = s.await(ctx, p, inv, patience)
	}
	if v.Grant != nil {
		s.granted(ctx, p, v.Grant)
		view, err := s.viewGrant(ctx, *v.Grant)
		if err != nil {
			s.Log.WarnContext(ctx, "the name of a source is not known", "error", err) // the approval holds
		}
		out.Grant = &view
	}
	return out, nil
}

// ofGrant says of the terms of a grant where they stand in an approval.
func ofGrant(err error) error {
	e := action.Public(err)
	if (e.Code == "invalid_grant" || e.Code == "tool_unreviewed") && !strings.HasPrefix(e.Field, "/grant/") {
		return under(err, "/grant")
	}
	return err
}

// await gives the outcome of an approved call, or what stands after the
// patience. The approval holds in any case, so that no trouble with the wait
// may look like one with the approval.
func (s *Server) await(ctx context.Context, p *Principal, inv action.Invocation, patience time.Duration) api.Outcome {
	session, err := s.session(ctx, p.Organization, inv.Session)
	if err == nil {
		waitCtx, stop := s.untilClosing(ctx)
		defer stop()
		waitCtx, cancel := context.WithTimeoutCause(waitCtx, patience, action.ErrCallerGone)
		defer cancel()
		var out *action.Outcome
		if out, err = s.Gate.Wait(waitCtx, &session, inv.ID, action.Waiting{Patience: patience}); err == nil {
			return s.outcome(out)
		}
	}
	s.Log.DebugContext(ctx, "no outcome of an approved call", "invocation", inv.ID, "error", err)
	if now, err := s.Calls.Invocation(ctx, p.Organization, inv.ID); err == nil {
		inv = now
	}
	return api.Outcome{Invocation: s.shown(inv)}
}

func (s *Server) outcome(o *action.Outcome) api.Outcome {
	return api.Outcome{Invocation: s.shown(o.Invocation), Result: o.Answer.Body, Problem: o.Answer.Problem, Repeated: o.Repeated}
}

func (s *Server) deny(ctx context.Context, p *Principal, v action.Verdict) (api.Outcome, error) {
	inv, err := s.Gate.Deny(ctx, s.verdict(p, v))
	if err != nil {
		return api.Outcome{}, s.undecided(ctx, p, v.ID, err)
	}
	s.Log.InfoContext(ctx, "call denied", "invocation", inv.ID, "by", p.By())
	return api.Outcome{Invocation: inv}, nil
}

func (s *Server) verdict(p *Principal, v action.Verdict) action.Verdict {
	v.Organization, v.By, v.Now = p.Organization, p.By(), s.now()
	return v
}

// named puts the invocation into an error that lacks it.
func named(err error, id string) error {
	public := action.Public(err)
	if public.Kind == nil || public.Invocation != "" {
		return err
	}
	e := *public
	e.Invocation = id
	return &e
}

// parseWait reads ?wait=, a duration or a number of seconds.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		if n, convErr := strconv.Atoi(text); convErr == nil {
			d, err = time.Duration(n)*time.Second, nil
		}
	}
	if err != nil || d < 0 {
		return 0, invalid("/wait", "wait must be a duration, such as 30s or 2m.")
	}
	return min(d, maxWait), nil
}
