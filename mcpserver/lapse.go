package mcpserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"sallyport/action"
)

// doubt is a principal, or all of an organization, or with neither everybody,
// whose right may have ended.
type doubt struct{ organization, principal string }

// doubts are what there is to look at.
type doubts struct {
	mu    sync.Mutex
	of    map[doubt]bool
	nudge chan struct{}
}

func (d *doubts) add(one doubt) {
	d.mu.Lock()
	d.of[one] = true
	d.mu.Unlock()
	select {
	case d.nudge <- struct{}{}:
	default:
	}
}

func (d *doubts) take() map[doubt]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.of
	d.of = map[doubt]bool{}
	return all
}

// doubted returns who has something open and is in doubt, and by what bearer.
func (r *standings) doubted(of map[doubt]bool) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	bearers := map[string]string{}
	for principal, one := range r.of {
		o := one.who.Organization
		if of[doubt{o, principal}] || of[doubt{o, ""}] || of[doubt{}] {
			bearers[principal] = one.bearer
		}
	}
	return bearers
}

// runChecks looks at who is in doubt, until ctx ends.
func (s *Server) runChecks(ctx context.Context) {
	settled := time.NewTimer(settleFor)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.doubts.nudge:
		}
		settled.Reset(settleFor) // others drop by the same hint what they kept of it
		select {
		case <-ctx.Done():
			return
		case <-settled.C:
		}
		s.check(ctx, s.doubts.take())
	}
}

// check asks again whether bearers are good, and ends what is open of those
// that are not. While that cannot be said, everything goes on; it is asked
// again with the next sign of life of the event streams.
func (s *Server) check(ctx context.Context, of map[doubt]bool) {
	for principal, bearer := range s.standings.doubted(of) {
		who, err := s.good(ctx, bearer)
		switch {
		case err == nil:
			s.standings.sees(who, s.views.keyOf)
		case errors.Is(err, action.ErrUnauthenticated), errors.Is(err, action.ErrForbidden):
			s.lapse(principal)
		default:
			s.cfg.Log.Warn("asking whether a session is good still", "session", principal, "error", err)
			return
		}
	}
}

// good returns the bearer's session while it may use MCP.
func (s *Server) good(ctx context.Context, bearer string) (*action.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	who, err := s.cfg.Authenticate(ctx, bearer)
	if err != nil {
		return who, err
	}
	return who, who.Live(s.cfg.Now())
}

// sees has the event streams of a session that lists otherwise than it did, such
// as in search mode now, say so. It goes on hearing of what changes in the list
// that it had: whatever changes one changes the other.
func (r *standings) sees(who *action.Session, view func(*action.Session) viewKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[who.ID]
	if one == nil || view(&one.who) == view(who) {
		return
	}
	one.who = *who
	for st := range one.streams {
		st.missed(kindTools)
		st.missed(kindPrompts)
	}
}

// lapse ends what a principal has open whose right to it ended: its MCP
// sessions, with their subscriptions, and its event streams. Calls in flight
// are the Gate's.
func (s *Server) lapse(principal string) {
	s.cfg.Log.Info("a session has ended, and with it what it had open", "session", principal)
	for _, old := range s.sessions.takeOf(principal) {
		s.end(old)
	}
	s.standings.end(principal)
}

// stand has an event stream end with the right of its principal; false when
// that has too many already. The caller calls done in the end.
func (s *Server) stand(ctx context.Context, x *exchange, st *stream) (_ context.Context, done func(), ok bool) {
	ctx, end := context.WithCancel(ctx)
	if e := x.who.ExpiresAt; e != nil {
		timer := time.AfterFunc(e.Sub(s.cfg.Now()), end)
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	if !s.standings.open(x, st, end, s.cfg.MaxSessions) {
		end()
		return nil, nil, false
	}
	return ctx, func() { s.standings.close(x, st); end() }, true
}
