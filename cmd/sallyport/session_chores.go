package main

import (
	"cmp"
	"context"
	"time"

	"sallyport/action"
)

// sessionChores look after the lives of sessions.
func (g *gateway) sessionChores() []chore {
	iv := g.options.Intervals
	return []chore{
		{name: "session uses", every: cmp.Or(iv.SessionEvery, time.Second), do: g.seeSessions},
		{name: "idle sessions", every: cmp.Or(iv.SessionIdleLook, 15*time.Second), once: true, do: g.tidySessions},
	}
}

// seeSessions notes which sessions were used here. What could not be noted is
// with the next use.
func (g *gateway) seeSessions(ctx context.Context) {
	ids := g.sessions.takeUsed()
	if len(ids) == 0 {
		return
	}
	began, err := g.db.SeeSessions(ctx, ids)
	if err != nil && ctx.Err() == nil {
		g.log.Warn("noting which sessions are used", "error", err)
	}
	for _, id := range ids {
		g.sessions.forget(id)
	}
	for _, s := range began {
		g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: s.Organization, Session: s.ID})
	}
}

// tidySessions stops idle sessions, and deletes what ended long ago, a hundred
// at a time.
func (g *gateway) tidySessions(ctx context.Context) {
	for n := cleanBatch; n == cleanBatch && ctx.Err() == nil; {
		ended, err := g.db.StopIdle(ctx, g.options.SessionIdle, cleanBatch)
		if n = len(ended); err != nil && ctx.Err() == nil {
			g.log.Warn("stopping idle sessions", "error", err)
			n = 0
		}
		for _, e := range ended {
			g.log.Info("session stopped", "session", e.Session.ID, "why", e.Session.EndedNote)
			g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: e.Session.Organization, Session: e.Session.ID})
			g.withdrew(e.Withdrew)
		}
	}
	keep := g.options.SessionRetention
	for n := cleanBatch; keep > 0 && n == cleanBatch && ctx.Err() == nil; {
		var err error
		if n, err = g.db.PurgeSessions(ctx, g.db.Now().Add(-keep), cleanBatch); err != nil && ctx.Err() == nil {
			g.log.Warn("deleting old sessions", "error", err)
		}
	}
}
