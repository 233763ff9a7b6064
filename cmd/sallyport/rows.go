package main

import (
	"context"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/store"
)

// The dashboard names what it needs of the rows in its own words; these say
// the same in the store's, where the two differ.

type sessionRows struct{ *store.DB }

func (r sessionRows) ListSessions(ctx context.Context, f dashboard.SessionFilter) (dashboard.Page[action.Session], error) {
	page, err := r.DB.ListSessions(ctx, store.SessionFilter{Organization: f.Organization, Live: f.Live, Ended: f.Ended, Status: f.Status, Limit: f.Limit, Cursor: f.Cursor})
	return dashboard.Page[action.Session](page), err
}

func (r sessionRows) SessionStates(ctx context.Context, organization string, ids []string) (map[string]dashboard.SessionState, error) {
	rows, err := r.DB.SessionStates(ctx, organization, ids)
	states := make(map[string]dashboard.SessionState, len(rows))
	for id, s := range rows {
		states[id] = dashboard.SessionState(s)
	}
	return states, err
}

type invocationRows struct{ *store.DB }

func (r invocationRows) ListInvocations(ctx context.Context, f dashboard.InvocationFilter) (dashboard.Page[action.Invocation], error) {
	page, err := r.DB.ListInvocations(ctx, wanted(f))
	return dashboard.Page[action.Invocation](page), err
}

func wanted(f dashboard.InvocationFilter) store.Filter {
	return store.Filter{
		Organization: f.Organization, Session: f.Session, Run: f.Run, Automation: f.Automation, Group: f.Group, Person: f.Person,
		Statuses: f.Statuses, Source: f.Source, Action: f.Action, Risk: f.Risk, Mode: f.Mode, From: f.From, To: f.To,
		Limit: f.Limit, Cursor: f.Cursor,
	}
}

type historyRows struct{ *store.DB }

func (r historyRows) PolicyEvents(ctx context.Context, f dashboard.PolicyEventFilter) (dashboard.Page[action.PolicyEvent], error) {
	page, err := r.DB.PolicyEvents(ctx, store.PolicyEventFilter{
		Organization: f.Organization, Kind: f.Kind, Subject: f.Subject, By: f.By, From: f.From, To: f.To, Limit: f.Limit, Cursor: f.Cursor,
	})
	return dashboard.Page[action.PolicyEvent](page), err
}

type grantRows struct{ *store.DB }

func (r grantRows) ListGrants(ctx context.Context, f dashboard.GrantFilter) (dashboard.Page[action.Grant], error) {
	page, err := r.DB.ListGrants(ctx, store.GrantFilter{
		Organization: f.Organization, Session: f.Session, Covering: f.Covering, Scope: f.Scope, Source: f.Source, Action: f.Action, Usable: f.Usable,
		Limit: f.Limit, Cursor: f.Cursor,
	})
	return dashboard.Page[action.Grant](page), err
}

type requestRows struct{ *store.DB }

func (r requestRows) ListGrantRequests(ctx context.Context, f dashboard.RequestFilter) (dashboard.Page[action.GrantRequest], error) {
	page, err := r.DB.ListGrantRequests(ctx, store.RequestFilter{
		Organization: f.Organization, Session: f.Session, Status: f.Status, Limit: f.Limit, Cursor: f.Cursor,
	})
	return dashboard.Page[action.GrantRequest](page), err
}

func (r requestRows) ApproveRequest(ctx context.Context, v dashboard.RequestVerdict) (action.GrantRequest, action.Grant, error) {
	return r.DB.ApproveRequest(ctx, store.RequestVerdict(v))
}

func (r requestRows) DenyRequest(ctx context.Context, v dashboard.RequestVerdict) (action.GrantRequest, error) {
	return r.DB.DenyRequest(ctx, store.RequestVerdict(v))
}

// auditRows know the key of the chain, which nobody else needs.
type auditRows struct {
	*store.DB
	key []byte
}

func (r auditRows) VerifyAudit(ctx context.Context, organization string, known *action.AuditHead) (action.AuditReport, error) {
	return r.DB.VerifyAudit(ctx, organization, r.key, known)
}

func (r auditRows) Export(ctx context.Context, f dashboard.InvocationFilter, yield func(action.Invocation) error) error {
	return r.DB.Export(ctx, wanted(f), yield)
}

// revealed writes down that somebody read the full params of a held call.
func (g *gateway) revealed(ctx context.Context, organization, invocation, by string) error {
	return g.db.AppendEvent(ctx, store.Event{
		Organization: organization, Invocation: invocation, Kind: store.EventRevealed, By: by, At: g.db.Now(),
	})
}

// events returns what else happened to an invocation.
func (g *gateway) events(ctx context.Context, organization, invocation string) ([]dashboard.Event, error) {
	rows, err := g.db.Events(ctx, organization, invocation)
	list := make([]dashboard.Event, 0, len(rows))
	for _, e := range rows {
		list = append(list, dashboard.Event{Kind: e.Kind, By: e.By, At: e.At, Data: e.Data})
	}
	return list, err
}

type loginRows struct{ *store.DB }

func (r loginRows) CreateLoginLink(ctx context.Context, l dashboard.LoginLink) error {
	return r.DB.CreateLoginLink(ctx, store.LoginLink(l))
}
