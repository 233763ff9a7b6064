package mcpserver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"sallyport/action"
)

// maxSubscriptionsPerPrincipal limits the subscriptions at sources that a principal has
// through this instance, over all its MCP sessions and event streams.
const maxSubscriptionsPerPrincipal = 1000

// principalRegistry tracks what principals have open beyond a request: event streams
// and subscriptions at sources. Both are limited, and end with the principal's
// session.
type principalRegistry struct {
	mu   sync.Mutex
	byID map[string]*principalState // by principal
}

// principalState is what one principal has open.
type principalState struct {
	who           action.Session // as of the last request
	bearer        string         // of the last request
	streams       map[*stream]context.CancelFunc
	listens       int // stateless event streams
	subscriptions int // at sources
}

func (r *principalRegistry) stateLocked(x *exchange) *principalState {
	one := r.byID[x.who.ID]
	if one == nil {
		one = &principalState{streams: map[*stream]context.CancelFunc{}}
		r.byID[x.who.ID] = one
	}
	one.who = x.who
	if one.bearer != x.bearer {
		one.bearer = strings.Clone(x.bearer) // do not keep the request's headers alive
	}
	return one
}

func (r *principalRegistry) dropIfUnusedLocked(principal string, one *principalState) {
	if len(one.streams) == 0 && one.subscriptions == 0 {
		delete(r.byID, principal)
	}
}

// open adds an event stream with its cancel function; false if the principal is at
// the limit of stateless streams. The caller must close it.
func (r *principalRegistry) open(x *exchange, st *stream, end context.CancelFunc, limit int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.stateLocked(x)
	if x.stateless && one.listens >= limit {
		return false
	}
	if x.stateless {
		one.listens++
	}
	one.streams[st] = end
	return true
}

func (r *principalRegistry) close(x *exchange, st *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.byID[x.who.ID]
	delete(one.streams, st)
	if x.stateless {
		one.listens--
	}
	r.dropIfUnusedLocked(x.who.ID, one)
}

// subscribe reserves a subscription; false at the limit.
func (r *principalRegistry) subscribe(x *exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.stateLocked(x)
	if one.subscriptions >= maxSubscriptionsPerPrincipal {
		return false
	}
	one.subscriptions++
	return true
}

// unsubscribe releases a reservation.
func (r *principalRegistry) unsubscribe(principal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.byID[principal]
	one.subscriptions--
	r.dropIfUnusedLocked(principal, one)
}

// closeStreams cancels the event streams of a principal.
func (r *principalRegistry) closeStreams(principal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.byID[principal]; one != nil {
		for _, end := range one.streams {
			end()
		}
	}
}

// expired returns the principals whose sessions have expired.
func (r *principalRegistry) expired(now time.Time) (principals []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for principal, one := range r.byID {
		if e := one.who.ExpiresAt; e != nil && !now.Before(*e) {
			principals = append(principals, principal)
		}
	}
	return principals
}

// recheck is a principal whose session may have ended; all of an organization if
// principal is empty, and everybody if both are.
type recheck struct{ organization, principal string }

// recheckQueue collects rechecks.
type recheckQueue struct {
	mu      sync.Mutex
	pending map[recheck]bool
	wake    chan struct{}
}

func (d *recheckQueue) add(one recheck) {
	d.mu.Lock()
	d.pending[one] = true
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *recheckQueue) take() map[recheck]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.pending
	d.pending = map[recheck]bool{}
	return all
}

// bearersToRecheck returns the bearers of the principals to check.
func (r *principalRegistry) bearersToRecheck(of map[recheck]bool) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	bearers := map[string]string{}
	for principal, one := range r.byID {
		o := one.who.Organization
		if of[recheck{o, principal}] || of[recheck{o, ""}] || of[recheck{}] {
			bearers[principal] = one.bearer
		}
	}
	return bearers
}

// runRechecks processes rechecks until ctx ends.
func (s *Server) runRechecks(ctx context.Context) {
	settled := time.NewTimer(debounce)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.rechecks.wake:
		}
		settled.Reset(debounce) // caches of sessions are invalidated by the same hint
		select {
		case <-ctx.Done():
			return
		case <-settled.C:
		}
		s.recheckPrincipals(ctx, s.rechecks.take())
	}
}

// recheckPrincipals authenticates bearers again and closes what is open for invalid
// ones. If that is not possible at the moment, everything stays open until the next
// keep-alive, which triggers another check.
func (s *Server) recheckPrincipals(ctx context.Context, of map[recheck]bool) {
	for principal, bearer := range s.principals.bearersToRecheck(of) {
		who, err := s.reauthenticate(ctx, bearer)
		switch {
		case err == nil:
			s.principals.updateSession(who, s.views.keyOf)
		case errors.Is(err, action.ErrUnauthenticated), errors.Is(err, action.ErrForbidden):
			s.revoke(principal)
		default:
			s.cfg.Log.Warn("a session could not be checked again", "session", principal, "error", err)
			return
		}
	}
}

// reauthenticate returns the bearer's session while it may use MCP.
func (s *Server) reauthenticate(ctx context.Context, bearer string) (*action.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	who, err := s.cfg.Authenticate(ctx, bearer)
	if err != nil {
		return who, err
	}
	return who, who.Live(s.cfg.Now())
}

// updateSession notifies the event streams of a session whose view changed, for
// example to search mode.
func (r *principalRegistry) updateSession(who *action.Session, view func(*action.Session) viewKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.byID[who.ID]
	if one == nil || view(&one.who) == view(who) {
		return
	}
	one.who = *who
	for st := range one.streams {
		st.markChanged(kindTools)
		st.markChanged(kindPrompts)
	}
}

// revoke closes what a principal has open: its MCP sessions with their
// subscriptions, and its event streams. Calls in flight are the Gate's business.
func (s *Server) revoke(principal string) {
	s.cfg.Log.Info("a session ended: its MCP sessions and event streams are closed", "session", principal)
	for _, old := range s.sessions.removeByPrincipal(principal) {
		s.closeSession(old)
	}
	s.principals.closeStreams(principal)
}

// trackStream registers an event stream, which ends when its principal's session
// ends; false at the limit. The caller must call done.
func (s *Server) trackStream(ctx context.Context, x *exchange, st *stream) (_ context.Context, done func(), ok bool) {
	ctx, end := context.WithCancel(ctx)
	if e := x.who.ExpiresAt; e != nil {
		timer := time.AfterFunc(e.Sub(s.cfg.Now()), end)
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	if !s.principals.open(x, st, end, s.cfg.MaxSessions) {
		end()
		return nil, nil, false
	}
	return ctx, func() { s.principals.close(x, st); end() }, true
}
