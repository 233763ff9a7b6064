package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type callsCommand struct {
	remote
	api.Paging
	Status  []action.Status `env:"-" placeholder:"STATUS" help:"Filter by status, comma-separated: pending, approved, executing, completed, failed, denied, expired."`
	Session string          `env:"-" placeholder:"ID" help:"Only calls of this session."`
	Source  string          `env:"-" help:"Only calls to this source: a provider, or the slug, name or ID of a connector."`
	Action  string          `env:"-" help:"Only calls of this action; SOURCE:ACTION also sets the source."`
	Since   string          `env:"-" type:"moment" placeholder:"TIME" help:"Only calls since this time, such as 24h or 2026-01-02T15:04:05Z."`
}

func (*callsCommand) route() api.Operation { return api.ListInvocations.Operation }

// Run lists calls of the whole organization, newest first.
func (c *callsCommand) Run(ctx context.Context, std *stdio) error {
	if err := checkStatuses(c.Status); err != nil {
		return err
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	c.Source, c.Action = sourceOf(c.Source, c.Action)
	calls, raw, err := fetch(ctx, server, api.ListInvocations, api.ListInvocationsInput{
		Paging:  c.Paging,
		Sought:  api.Sought{Status: c.Status, Source: c.Source, Action: c.Action, From: c.Since},
		AskedBy: api.AskedBy{Session: c.Session},
	})
	if err != nil {
		return err
	}
	if len(calls.Items) == 0 {
		if err := server.hasSession(ctx, c.Session); err != nil {
			return err
		}
	}
	return c.print(std, raw, func(w io.Writer) {
		if len(calls.Items) == 0 && calls.NextCursor == "" {
			fmt.Fprintln(w, "there are no such calls")
			return
		}
		names := server.labels(ctx, actors()...)
		tableOf(w, "ID CALL RISK STATUS WHY DECIDED_BY SESSION MADE", calls.Items, func(v *api.InvocationView) []string {
			i := &v.Invocation
			return []string{i.ID, callName(i), string(i.Risk), string(i.Status), whyNot(i), names.of(i.ApprovedBy), i.Session, since(&i.CreatedAt)}
		})
		if calls.LookedBackTo != nil {
			said("looked back to what was made " + since(calls.LookedBackTo))(w)
		}
		more(w, calls.NextCursor)
	})
}

// checkStatuses refuses words that are no statuses.
func checkStatuses(all []action.Status) error {
	for _, status := range all {
		if !status.Valid() {
			return wrongUse("--status %s is none: a call is pending, approved, executing, completed, failed (also when nobody knows what it did), denied or expired", visible(string(status)))
		}
	}
	return nil
}

// sourceOf takes an action as calls are listed, SOURCE:ACTION, apart.
func sourceOf(source, name string) (of, bare string) {
	if i := strings.LastIndexByte(name, ':'); i > 0 && (source == "" || source == name[:i]) {
		return name[:i], name[i+1:]
	}
	return source, name
}

// hasSession refuses a session that is not there: to have found nothing of it
// would say that it made no calls.
func (c *client) hasSession(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	_, _, err := fetch(ctx, c, api.GetSession, api.ByID{ID: id})
	return err
}

// whyNot says in a word why a call did not run, or failed.
func whyNot(i *action.Invocation) string {
	switch {
	case i.Error != nil && i.Status == action.StatusFailed:
		return i.Error.Code
	case i.Status == action.StatusDenied:
		return i.DeniedReason
	}
	return ""
}
