package main

import (
	"context"

	"sallyport/action"
	"sallyport/api"
	"sallyport/store"
)

// auditRows know the key of the chain, which nobody else needs.
type auditRows struct {
	*store.DB
	key []byte
}

func (r auditRows) VerifyAudit(ctx context.Context, organization string, known *action.AuditHead) (action.AuditReport, error) {
	return r.DB.VerifyAudit(ctx, organization, r.key, known)
}

// revealed writes down that somebody read the full params of a held call.
func (g *gateway) revealed(ctx context.Context, organization, invocation, by string) error {
	return g.db.AppendEvent(ctx, store.Event{
		Organization: organization, Invocation: invocation, Kind: store.EventRevealed, By: by, At: g.db.Now(),
	})
}

// events returns what else happened to an invocation.
func (g *gateway) events(ctx context.Context, organization, invocation string) ([]api.Event, error) {
	rows, err := g.db.Events(ctx, organization, invocation)
	list := make([]api.Event, 0, len(rows))
	for _, e := range rows {
		list = append(list, api.Event{Kind: e.Kind, By: e.By, At: e.At, Data: e.Data})
	}
	return list, err
}
