package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"sallyport/action"
)

// requestRow is an agent's wish for a grant with what people call its source.
type requestRow struct {
	action.GrantRequest
	Name string `json:"name"`
}

// report tells who asks for what. The reason is the agent's own word.
func (r *requestRow) report(w io.Writer) {
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

// requestsOf narrows a list of agents' requests.
func requestsOf(query url.Values, status, session string) url.Values {
	if status != "all" {
		query.Set("status", status)
	}
	if session != "" {
		query.Set("session", session)
	}
	return query
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
	paging
	Status  string `env:"-" enum:"pending,approved,denied,expired,all" default:"pending" help:"pending (default), approved, denied, expired or all."`
	Session string `env:"-" placeholder:"ID" help:"Only of this session."`
}

func (c *grantRequests) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, "/api/v1/grant-requests", requestsOf(c.query(), c.Status, c.Session), func(w io.Writer, all *list[requestRow]) {
		if len(all.Items) == 0 {
			noRequests(w, c.Status, "a decision")
		}
		for _, r := range all.Items {
			r.report(w)
		}
		more(w, all.NextCursor)
		if len(all.Items) > 0 && c.Status == "pending" {
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
	ID string `arg:"" help:"Id of the request; see sallyport grant requests."`
}

func (c *wish) path() string { return "/api/v1/grant-requests/" + url.PathEscape(c.ID) }

// settled is the answer of grant approve and grant deny.
type settled struct {
	Request requestRow `json:"request"`
	Grant   *grantRow  `json:"grant"`
}

type grantApprove struct {
	wish
	bounds
	Scope string `env:"-" enum:"session,org,organization," default:"" help:"session or org (default: as asked)."`
	Pin   []pin  `sep:"none" env:"-" placeholder:"/PARAM=JSON" help:"Pin this param too; again for more."`
}

func (c *grantApprove) Run(ctx context.Context, std *stdio) error {
	body := given{"scope": c.Scope}.set()
	if err := pinned(body, c.Pin); err != nil {
		return err
	}
	c.into(body)
	return alter(ctx, &c.remote, std, http.MethodPost, c.path()+"/approve", body, func(w io.Writer, s *settled) {
		if s.Grant != nil {
			s.Grant.report(w, &c.remote)
		}
	})
}

type grantDeny struct {
	wish
	Reason string `env:"-" placeholder:"TEXT" help:"Why; the agent reads it."`
}

func (c *grantDeny) Run(ctx context.Context, std *stdio) error {
	return alter(ctx, &c.remote, std, http.MethodPost, c.path()+"/deny", given{"reason": c.Reason}.set(), func(w io.Writer, s *settled) {
		r := &s.Request
		said(fmt.Sprintf("denied %s to session %s", covers(&r.Terms, r.Name), r.Session))(w)
	})
}
