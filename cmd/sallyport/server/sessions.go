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

// sessions authenticates agents: a token proves a session's id, and the rest
// is read from its row, or from a snapshot of at most one second.
type sessions struct {
	verify func(token string) (id string, err error)
	load   func(ctx context.Context, id string) (action.Session, error)
	now    func() time.Time

	mu   sync.Mutex
	m    map[string]sessionSnapshot
	used map[string]struct{} // whose use is to be noted
}

type sessionSnapshot struct {
	session *action.Session // shared: nobody changes it
	read    time.Time
}

// maxSessionSnapshots bounds the memory; past it the map starts anew.
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
	s.use(session)
	return session, nil
}

// use remembers that a session is used, unless that is written already.
func (s *sessions) use(session *action.Session) {
	if last := session.LastSeenAt; session.Status != action.SessionPending && last != nil && s.now().Sub(*last) < sessionsrows.SeenEvery {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[string]struct{}{}
	}
	s.used[session.ID] = struct{}{}
}

// takeUsed returns the sessions whose use is to be noted.
func (s *sessions) takeUsed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Collect(maps.Keys(s.used))
	clear(s.used)
	return ids
}

// Session implements action.Sessions: it reads the row.
func (s *sessions) Session(ctx context.Context, id string) (action.Session, error) {
	return s.load(ctx, id)
}

func (s *sessions) snapshot(ctx context.Context, id string) (*action.Session, error) {
	s.mu.Lock()
	snap, ok := s.m[id]
	s.mu.Unlock()
	if ok && s.now().Sub(snap.read) < snapshotAge {
		return snap.session, nil
	}
	snap.read = s.now()
	session, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}
	snap.session = &session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil || len(s.m) >= maxSessionSnapshots {
		s.m = make(map[string]sessionSnapshot)
	}
	s.m[id] = snap
	return &session, nil
}

// forget drops a snapshot because the session changed.
func (s *sessions) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, id)
}

// withdrew tells everybody of calls that ended with their session or their
// connector, which no Gate wrote down.
func (g *Gateway) withdrew(calls []action.Invocation) {
	for i := range calls {
		inv := &calls[i]
		g.observer.Changed(inv)
		g.coord.Publish(action.Hint{Kind: action.HintInvocation, Organization: inv.Organization, Session: inv.Session, Invocation: inv.ID, Status: inv.Status})
	}
}

// sessionChores look after the lives of sessions.
func (g *Gateway) sessionChores() []chore {
	iv := g.Options.Intervals
	return []chore{
		{name: "session uses", every: iv.SessionEvery, do: g.seeSessions},
		{name: "idle sessions", every: iv.SessionIdleLook, once: true, do: g.tidySessions},
	}
}

// seeSessions notes which sessions were used here. What could not be noted is
// with the next use.
func (g *Gateway) seeSessions(ctx context.Context) {
	ids := g.sessions.takeUsed()
	if len(ids) == 0 {
		return
	}
	began, err := g.DB.SeeSessions(ctx, ids)
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
func (g *Gateway) tidySessions(ctx context.Context) {
	for n := cleanBatch; n == cleanBatch && ctx.Err() == nil; {
		ended, err := g.DB.StopIdle(ctx, g.Options.SessionIdle, cleanBatch)
		if n = len(ended); err != nil && ctx.Err() == nil {
			g.log.Warn("stopping idle sessions", "error", err)
			n = 0
		}
		for _, e := range ended {
			g.log.Info("session stopped", "session", e.Session.ID, "why", e.Session.EndedNote)
			g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: e.Session.Organization, Session: e.Session.ID})
			g.withdrew(e.Withdrawn)
		}
	}
	keep := g.Options.SessionRetention
	for n := cleanBatch; keep > 0 && n == cleanBatch && ctx.Err() == nil; {
		var err error
		if n, err = g.DB.PurgeSessions(ctx, g.DB.Now().Add(-keep), cleanBatch); err != nil && ctx.Err() == nil {
			g.log.Warn("deleting old sessions", "error", err)
		}
	}
}
