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

func (r sessionRows) ListSessions(ctx context.Context, organization string, q dashboard.Query) (dashboard.Page[action.Session], error) {
	page, err := r.DB.ListSessions(ctx, store.SessionFilter{Organization: organization, Limit: q.Limit, Cursor: q.Cursor})
	return dashboard.Page[action.Session](page), err
}

type invocationRows struct{ *store.DB }

func (r invocationRows) ListInvocations(ctx context.Context, f dashboard.InvocationFilter) (dashboard.Page[action.Invocation], error) {
	filter := store.Filter{
		Organization: f.Organization, Session: f.Session, Source: f.Source, Action: f.Action,
		Limit: f.Limit, Cursor: f.Cursor,
	}
	if f.Status != "" {
		filter.Statuses = []action.Status{f.Status}
	}
	page, err := r.DB.ListInvocations(ctx, filter)
	return dashboard.Page[action.Invocation](page), err
}

type overrideRows struct{ *store.DB }

func (r overrideRows) PutOverride(ctx context.Context, o action.Override) error {
	return r.SetOverride(ctx, o)
}

func (r overrideRows) DeleteOverride(ctx context.Context, organization, automation string, key action.Key) error {
	return r.UnsetOverride(ctx, organization, automation, key)
}

func (r overrideRows) ListOverrides(ctx context.Context, organization string) ([]action.Override, error) {
	list, _, err := r.Overrides(ctx, organization)
	return list, err
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
