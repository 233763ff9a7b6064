package main

import (
	"context"
	"fmt"
	"io"

	"sallyport/action"
	"sallyport/api"
)

// showRequest tells who asks for what. The reason is the agent's own word.
func showRequest(w io.Writer, r *api.RequestView) {
	whose := "the session"
	if r.Terms.Scope == action.ScopeOrganization {
		whose = "all sessions"
	}
	said(fmt.Sprintf("%s  session %s asks for %s for %s: %s", r.ID, r.Session, covers(&r.Terms, r.Name), whose, budget(&r.Terms)))(w)
	if r.Reason != "" {
		said("    the agent says: " + r.Reason)(w)
	}
	at := "    asked " + since(&r.CreatedAt)
	if r.Status == action.RequestPending {
		fmt.Fprintf(w, "%s, expires %s\n", at, since(&r.ExpiresAt))
		return
	}
	text := fmt.Sprintf("%s, %s", at, r.Status)
	if r.DecidedBy != "" {
		text += " by " + r.DecidedBy
	}
	if r.DecidedNote != "" {
		text += ": " + r.DecidedNote
	}
	said(text)(w)
}

// anyStatus is the status by which a list of agents' requests is asked for; all
// is none.
func anyStatus[S ~string](status S) S {
	if status == "all" {
		return ""
	}
	return status
}

// noRequests says so of such a list.
func noRequests(w io.Writer, status, awaited string) {
	if status == "pending" {
		fmt.Fprintln(w, "nothing waits for "+awaited)
		return
	}
	fmt.Fprintln(w, "there is no such request")
}

type grantRequests struct {
	remote
	api.Paging
	Status  action.RequestStatus `env:"-" enum:"pending,approved,denied,expired,all" default:"pending" help:"Filter by status: pending, approved, denied, expired or all (default: pending)."`
	Session string               `env:"-" placeholder:"ID" help:"Only for this session."`
}

func (c *grantRequests) Run(ctx context.Context, std *stdio) error {
	in := api.ListGrantRequestsInput{Paging: c.Paging, Status: anyStatus(c.Status), Session: c.Session}
	return perform(ctx, &c.remote, std, api.ListGrantRequests, in, func(w io.Writer, all *api.List[api.RequestView]) {
		if len(all.Items) == 0 {
			noRequests(w, string(c.Status), "a decision")
		}
		for i := range all.Items {
			showRequest(w, &all.Items[i])
		}
		more(w, all.NextCursor)
		if len(all.Items) > 0 && c.Status == action.RequestPending {
			c.howToGrant(w)
		}
	})
}

func (r *remote) howToGrant(w io.Writer) {
	said(fmt.Sprintf("grant with: %s (narrow it with --max-calls, --expires, --pin), or: %s",
		r.hint("grant", "approve", "ID"), r.hint("grant", "deny", "ID", "--reason", "TEXT")))(w)
}

// wish names a request.
type wish struct {
	remote
	ID string `arg:"" help:"ID of the request; see sallyport grant requests."`
}

type grantApprove struct {
	wish
	bounds
	Scope api.ScopeName `env:"-" enum:"session,org,organization," default:"" help:"Scope: session or org (default: as requested)."`
	Pin   []pin         `sep:"none" env:"-" placeholder:"/PARAM=JSON" help:"Pin this param too; repeat for more."`
}

func (c *grantApprove) Run(ctx context.Context, std *stdio) error {
	pins, err := pinned(c.Pin)
	if err != nil {
		return err
	}
	in := api.ByIDWith[*api.Narrowing]{ByID: api.ByID{ID: c.ID}, Body: &api.Narrowing{Scope: c.Scope, MaxCalls: c.MaxCalls, Pins: pins, Lifetime: c.Expires.Lifetime}}
	return perform(ctx, &c.remote, std, api.ApproveGrantRequest, in, func(w io.Writer, now *api.RequestOutcome) {
		if now.Grant != nil {
			showGrant(w, now.Grant, &c.remote)
		}
	})
}

type grantDeny struct {
	wish
	api.Refusal
}

func (c *grantDeny) Run(ctx context.Context, std *stdio) error {
	in := api.ByIDWith[*api.Refusal]{ByID: api.ByID{ID: c.ID}, Body: &c.Refusal}
	return perform(ctx, &c.remote, std, api.DenyGrantRequest, in, func(w io.Writer, now *api.RequestOutcome) {
		r := &now.Request
		said(fmt.Sprintf("denied %s to session %s", covers(&r.Terms, r.Name), r.Session))(w)
	})
}
