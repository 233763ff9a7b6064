package routes

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

// errNotPending explains why an invocation could not be decided. The ID may
// belong to a grant request, because the inbox shows both.
func (s *handlers) errNotPending(ctx context.Context, p *dashboard.Principal, id string, err error) error {
	if !errors.Is(err, action.ErrNotFound) {
		return errInvocation(err, id)
	}
	if _, missing := s.Policy.GrantRequest(ctx, p.Organization, id); missing != nil {
		return errInvocation(err, id)
	}
	return action.NewError("is_grant_request", render.Plain(id))
}

func (s *handlers) invocationRoutes() {
	dashboard.Handle(s.Server, api.ListInvocations, func(ctx context.Context, p *dashboard.Principal, in *api.ListInvocationsInput) (api.InvocationList, error) {
		return s.listInvocations(ctx, p, in.CallFilters, in.CallerFilters, in.Paging)
	})
	dashboard.Handle(s.Server, api.GetInvocation, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.InvocationView, error) {
		inv, err := s.Calls.Invocation(ctx, p.Organization, in.ID)
		if err != nil {
			return api.InvocationView{}, err
		}
		return s.viewInvocation(ctx, p, inv)
	})
	dashboard.Handle(s.Server, api.GetInvocationParams, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.FullParams, error) {
		return s.FullParams(ctx, p, in.ID)
	})
	dashboard.Handle(s.Server, api.ListInvocationEvents, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.List[action.Event], error) {
		if _, err := s.Calls.Invocation(ctx, p.Organization, in.ID); err != nil {
			return api.List[action.Event]{}, err
		}
		events, err := s.Calls.Events(ctx, p.Organization, in.ID)
		return view.ListOf(events), err
	})
	dashboard.Handle(s.Server, api.ApproveInvocation, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWaitWith[*api.Approval]) (api.Outcome, error) {
		return s.approve(ctx, p, "", in.ID, in.Body, in.Wait)
	})
	dashboard.Handle(s.Server, api.DenyInvocation, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.Denial]) (api.Outcome, error) {
		return s.deny(ctx, p, denialVerdict(in.Body, "", in.ID))
	})
	dashboard.Handle(s.Server, api.GetStatistics, func(ctx context.Context, p *dashboard.Principal, in *api.GetStatisticsInput) (api.StatisticsView, error) {
		return s.ViewStatistics(ctx, p.Organization, in.Window)
	})
}

// approvalVerdict converts a request body to a verdict; nil is a plain
// approval. The login determines who decides.
func approvalVerdict(a *api.Approval, session, id string, now time.Time) (action.Verdict, error) {
	v := action.Verdict{Session: session, ID: id}
	if a == nil {
		return v, nil
	}
	v.ParamsHash, v.ToolHash = a.ParamsHash, a.ToolHash
	grant := a.Grant
	switch {
	case grant != nil && a.Mode == "once":
		return v, dashboard.Invalid("/mode", "Mode once creates no grant. Leave grant out, or set mode to grant.")
	case grant == nil && a.Mode == "grant":
		grant = &api.ApprovalGrant{}
	case grant == nil:
		return v, nil
	}
	until, err := lifetimeUntil(grant.Lifetime, now)
	if err != nil {
		return v, fieldUnder(err, "/grant")
	}
	v.Pin, v.Unreviewed = grant.Pin, grant.Unreviewed
	v.Grant = &action.Grant{Terms: action.Terms{Scope: grantScope(grant.Scope), Pins: grant.Pins, MaxCalls: grant.MaxCalls, ExpiresAt: until}}
	return v, nil
}

// denialVerdict converts a request body to a verdict; nil is a plain denial.
func denialVerdict(d *api.Denial, session, id string) action.Verdict {
	v := action.Verdict{Session: session, ID: id}
	if d != nil {
		v.Note, v.ParamsHash, v.ToolHash = d.Reason, d.ParamsHash, d.ToolHash
	}
	return v
}

// withApprovalURL adds the approval URL, which the row does not contain.
func (s *handlers) withApprovalURL(inv action.Invocation) action.Invocation {
	if inv.Status == action.StatusPending && inv.ApprovalURL == "" {
		inv.ApprovalURL = s.PublicURL + "/invocations/" + inv.ID
	}
	return inv
}

func (s *handlers) approve(ctx context.Context, p *dashboard.Principal, session, id string, a *api.Approval, wait string) (api.Outcome, error) {
	patience, err := parseWait(wait)
	if err != nil {
		return api.Outcome{}, err
	}
	v, err := approvalVerdict(a, session, id, s.Now())
	if err != nil {
		return api.Outcome{}, err
	}
	v = s.verdict(p, v)
	inv, err := s.Gate.Approve(ctx, v)
	if err != nil {
		e := action.Public(err) // its field is about the terms, which are nested in the approval
		if (e.Code == "invalid_grant" || e.Code == "tool_unreviewed") && !strings.HasPrefix(e.Field, "/grant/") {
			err = fieldUnder(err, "/grant")
		}
		return api.Outcome{}, s.errNotPending(ctx, p, id, err)
	}
	s.Log.InfoContext(ctx, "call approved", "invocation", inv.ID, "by", p.By())
	out := api.Outcome{Invocation: s.withApprovalURL(inv)}
	if patience > 0 {
		out = s.await(ctx, p, inv, patience)
	}
	if v.Grant != nil {
		s.grantCreated(ctx, p, v.Grant)
		view, err := s.viewGrant(ctx, *v.Grant)
		if err != nil {
			s.Log.WarnContext(ctx, "could not look up the name of a source", "error", err) // the approval is valid without it
		}
		out.Grant = &view
	}
	return out, nil
}

// await waits for the outcome of an approved call. The approval is stored already,
// so an error of the wait must not look like an error of the approval.
func (s *handlers) await(ctx context.Context, p *dashboard.Principal, inv action.Invocation, patience time.Duration) api.Outcome {
	session, err := s.Session(ctx, p.Organization, inv.Session)
	if err == nil {
		waitCtx, stop := s.UntilClosing(ctx)
		defer stop()
		waitCtx, cancel := context.WithTimeoutCause(waitCtx, patience, action.ErrCallerGone)
		defer cancel()
		var out *action.Outcome
		if out, err = s.Gate.Wait(waitCtx, &session, inv.ID, action.Waiting{Patience: patience}); err == nil {
			return s.outcome(out)
		}
	}
	s.Log.DebugContext(ctx, "could not wait for the outcome of an approved call", "invocation", inv.ID, "error", err)
	if now, err := s.Calls.Invocation(ctx, p.Organization, inv.ID); err == nil {
		inv = now
	}
	return api.Outcome{Invocation: s.withApprovalURL(inv)}
}

func (s *handlers) outcome(o *action.Outcome) api.Outcome {
	return api.Outcome{Invocation: s.withApprovalURL(o.Invocation), Result: o.Answer.Body, Problem: o.Answer.Problem, Repeated: o.Repeated}
}

func (s *handlers) deny(ctx context.Context, p *dashboard.Principal, v action.Verdict) (api.Outcome, error) {
	inv, err := s.Gate.Deny(ctx, s.verdict(p, v))
	if err != nil {
		return api.Outcome{}, s.errNotPending(ctx, p, v.ID, err)
	}
	s.Log.InfoContext(ctx, "call denied", "invocation", inv.ID, "by", p.By())
	return api.Outcome{Invocation: inv}, nil
}

func (s *handlers) verdict(p *dashboard.Principal, v action.Verdict) action.Verdict {
	v.Organization, v.By, v.Now = p.Organization, p.By(), s.Now()
	return v
}

// errInvocation adds the ID of the invocation to an error that lacks it.
func errInvocation(err error, id string) error {
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
		return 0, dashboard.Invalid("/wait", "wait must be a duration, such as 30s or 2m.")
	}
	return min(d, dashboard.MaxWait), nil
}

// viewWithOrigin returns the view of an invocation with its origin.
func (s *handlers) viewWithOrigin(inv action.Invocation, from event.SessionOrigin) api.InvocationView {
	return api.InvocationView{Invocation: s.withApprovalURL(inv), CallerView: view.CallerOf(from), Event: from.Event, Run: from.Run}
}

// viewInvocation returns the view of one invocation.
func (s *handlers) viewInvocation(ctx context.Context, p *dashboard.Principal, inv action.Invocation) (api.InvocationView, error) {
	from, err := s.Origins(ctx, p, []action.Invocation{inv})
	return s.viewWithOrigin(inv, from[inv.Session]), err
}

func (s *handlers) listInvocations(ctx context.Context, p *dashboard.Principal, in api.CallFilters, by api.CallerFilters, q api.Paging) (api.InvocationList, error) {
	f, err := s.InvocationFilter(ctx, p, in, by)
	if err != nil {
		return api.InvocationList{}, err
	}
	f.Limit, f.Cursor = q.Limit, q.Cursor
	page, err := s.Calls.ListInvocations(ctx, f)
	if err != nil {
		return api.InvocationList{}, err
	}
	from, err := s.Origins(ctx, p, page.Items)
	out := api.InvocationList{List: view.PageOf(page, func(inv action.Invocation) api.InvocationView { return s.viewWithOrigin(inv, from[inv.Session]) })}
	if !page.SearchedSince.IsZero() {
		out.LookedBackTo = &page.SearchedSince
	}
	return out, err
}
