package mcpserver

import (
	"context"
	"strings"
	"sync"
	"time"

	"sallyport/action"
)

// maxSubscriptions is how many subscriptions at sources a principal may have by
// this instance, of whatever MCP sessions and event streams.
const maxSubscriptions = 1000

// standings know what principals have open here that outlasts their requests:
// event streams, and subscriptions at sources. Both are bounded, and end with
// the right to them; see lapse.go.
type standings struct {
	mu sync.Mutex
	of map[string]*standing // by principal
}

// standing is what one principal has open.
type standing struct {
	who           action.Session // as it last came
	bearer        string         // with which it last came
	streams       map[*stream]context.CancelFunc
	listens       int // event streams of the stateless era
	subscriptions int // at sources, until they ended there
}

func (r *standings) ofLocked(x *exchange) *standing {
	one := r.of[x.who.ID]
	if one == nil {
		one = &standing{streams: map[*stream]context.CancelFunc{}}
		r.of[x.who.ID] = one
	}
	one.who = x.who
	if one.bearer != x.bearer {
		one.bearer = strings.Clone(x.bearer) // not all headers of the request
	}
	return one
}

func (r *standings) restLocked(principal string, one *standing) {
	if len(one.streams) == 0 && one.subscriptions == 0 {
		delete(r.of, principal)
	}
}

// open notes an event stream and what ends it; false when its principal has
// as many of the stateless era as the limit allows. The caller must close it.
func (r *standings) open(x *exchange, st *stream, end context.CancelFunc, limit int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.ofLocked(x)
	if x.modern && one.listens >= limit {
		return false
	}
	if x.modern {
		one.listens++
	}
	one.streams[st] = end
	return true
}

func (r *standings) close(x *exchange, st *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[x.who.ID]
	delete(one.streams, st)
	if x.modern {
		one.listens--
	}
	r.restLocked(x.who.ID, one)
}

// subscribe makes room for a subscription; false when there is none.
func (r *standings) subscribe(x *exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.ofLocked(x)
	if one.subscriptions >= maxSubscriptions {
		return false
	}
	one.subscriptions++
	return true
}

// unsubscribe gives the room back.
func (r *standings) unsubscribe(principal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[principal]
	one.subscriptions--
	r.restLocked(principal, one)
}

// end ends the event streams of a principal.
func (r *standings) end(principal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.of[principal]; one != nil {
		for _, end := range one.streams {
			end()
		}
	}
}

// expired returns the principals whose time is over.
func (r *standings) expired(now time.Time) (principals []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for principal, one := range r.of {
		if e := one.who.ExpiresAt; e != nil && !now.Before(*e) {
			principals = append(principals, principal)
		}
	}
	return principals
}
