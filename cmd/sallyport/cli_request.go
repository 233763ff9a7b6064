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
	api.ListGrantRequestsInput
}

func (*grantRequests) route() api.Operation { return api.ListGrantRequests.Operation }

func (c *grantRequests) Run(ctx context.Context, std *stdio) error {
	in := c.ListGrantRequestsInput
	in.Status = anyStatus(c.Status)
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
	api.Narrowing
	Pin []pin `sep:"none" env:"-" placeholder:"/PARAM=JSON" help:"Pin this param too; repeat for more."`
}

func (*grantApprove) route() api.Operation { return api.ApproveGrantRequest.Operation }

func (c *grantApprove) Run(ctx context.Context, std *stdio) (err error) {
	if c.Pins, err = pinned(c.Pin); err != nil {
		return err
	}
	c.Narrowing.MaxCalls, c.Lifetime = c.bounds.MaxCalls, c.Expires.Lifetime
	in := api.ByIDWith[*api.Narrowing]{ByID: api.ByID{ID: c.ID}, Body: &c.Narrowing}
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
