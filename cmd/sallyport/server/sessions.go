package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	sessionsrows "sallyport/store/sessions"
)

// sessions authenticates agents: a token proves a session's ID; the rest is
// read from its row, or from a snapshot that is at most one second old.
type sessions struct {
	verify func(token string) (id string, err error)
	load   func(ctx context.Context, id string) (action.Session, error)
	now    func() time.Time

	mu        sync.Mutex
	snapshots map[string]sessionSnapshot
	used      map[string]struct{} // sessions whose use is not recorded yet
}

type sessionSnapshot struct {
	session *action.Session // shared, read-only
	readAt  time.Time
}

// maxSessionSnapshots bounds memory: the cache is cleared when it is full.
const maxSessionSnapshots = 20_000

// Authenticate returns the live session of a bearer token.
func (s *sessions) Authenticate(ctx context.Context, token string) (*action.Session, error) {
	id, err := s.verify(token)
	if err != nil {
		return nil, err
	}
	session, err := s.snapshot(ctx, id)
	if errors.Is(err, action.ErrNotFound) {
		return nil, action.NewError("unknown_session")
	}
	if err != nil {
		return nil, err
	}
	if err := session.Live(s.now()); err != nil {
		return nil, err
	}
	s.markUsed(session)
	return session, nil
}

// markUsed remembers that a session was used, unless its row shows recent use.
func (s *sessions) markUsed(session *action.Session) {
	if last := session.LastSeenAt; session.Status != action.SessionPending && last != nil && s.now().Sub(*last) < sessionsrows.SeenInterval {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[string]struct{}{}
	}
	s.used[session.ID] = struct{}{}
}

// takeUsed returns and clears the sessions whose use is not recorded yet.
func (s *sessions) takeUsed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Collect(maps.Keys(s.used))
	clear(s.used)
	return ids
}

// Session implements action.Sessions. It reads the row.
func (s *sessions) Session(ctx context.Context, id string) (action.Session, error) {
	return s.load(ctx, id)
}

func (s *sessions) snapshot(ctx context.Context, id string) (*action.Session, error) {
	s.mu.Lock()
	snap, ok := s.snapshots[id]
	s.mu.Unlock()
	if ok && s.now().Sub(snap.readAt) < snapshotAge {
		return snap.session, nil
	}
	snap.readAt = s.now()
	session, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}
	snap.session = &session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshots == nil || len(s.snapshots) >= maxSessionSnapshots {
		s.snapshots = make(map[string]sessionSnapshot)
	}
	s.snapshots[id] = snap
	return &session, nil
}

// invalidate drops a snapshot because the session changed.
func (s *sessions) invalidate(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.snapshots, id)
}

// publishWithdrawn publishes calls that ended with their session or connector,
// which no Gate recorded.
func (g *Gateway) publishWithdrawn(calls []action.Invocation) {
	for i := range calls {
		inv := &calls[i]
		g.observer.Changed(inv)
		g.coord.Publish(action.Hint{Kind: action.HintInvocation, Organization: inv.Organization, Session: inv.Session, Invocation: inv.ID, Status: inv.Status})
	}
}

// sessionJobs returns the periodic jobs for sessions.
func (g *Gateway) sessionJobs() []job {
	iv := g.Options.Intervals
	return []job{
		{name: "session uses", every: iv.SessionEvery, do: g.flushSessionUse},
		{name: "idle sessions", every: iv.IdleSessionEvery, once: true, do: g.cleanSessions},
	}
}

// flushSessionUse records which sessions this instance used. After an error,
// the next use records it.
func (g *Gateway) flushSessionUse(ctx context.Context) {
	ids := g.sessions.takeUsed()
	if len(ids) == 0 {
		return
	}
	started, err := g.DB.SeeSessions(ctx, ids)
	if err != nil && ctx.Err() == nil {
		g.log.Warn("could not record the use of sessions", "error", err)
	}
	for _, id := range ids {
		g.sessions.invalidate(id)
	}
	for _, s := range started {
		g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: s.Organization, Session: s.ID})
	}
}

// cleanSessions stops idle sessions and deletes sessions past their retention,
// in batches.
func (g *Gateway) cleanSessions(ctx context.Context) {
	for n := cleanBatch; n == cleanBatch && ctx.Err() == nil; {
		ended, err := g.DB.StopIdle(ctx, g.Options.SessionIdle, cleanBatch)
		if n = len(ended); err != nil && ctx.Err() == nil {
			g.log.Warn("could not stop idle sessions", "error", err)
			n = 0
		}
		for _, e := range ended {
			g.log.Info("session stopped", "session", e.Session.ID, "why", e.Session.EndedNote)
			g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: e.Session.Organization, Session: e.Session.ID})
			g.publishWithdrawn(e.Withdrawn)
		}
	}
	keep, deleted := g.Options.SessionRetention, 0
	for n := cleanBatch; keep > 0 && n == cleanBatch && ctx.Err() == nil; deleted += n {
		var err error
		if n, err = g.DB.PurgeSessions(ctx, g.DB.Now().Add(-keep), cleanBatch); err != nil && ctx.Err() == nil {
			g.log.Warn("could not delete old sessions", "error", err)
		}
	}
	if deleted > 0 {
		g.log.Info("old sessions purged", "count", deleted)
	}
}
