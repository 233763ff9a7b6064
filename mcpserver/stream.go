package mcpserver

import (
	"context"
	"maps"
	"slices"
	"sync"

	"sallyport/internal/jsonlex"
)

// maxSubscribed is how many resources one client may subscribe to.
const maxSubscribed = 100

// stream is an open event stream: the one of a session of the older era, or a
// subscription of the stateless one. Whoever has news for it leaves them and
// goes on; it is the stream's own request that writes.
type stream struct {
	view         *view
	wants        [kinds]bool
	subscription []byte // raw id of the subscription; nil in the older era
	wake         chan struct{}

	mu      sync.Mutex
	knows   versions    // of the lists that the client was told of
	due     [kinds]bool // changes to tell
	updated []string    // resources that changed, each once
	beat    bool        // a sign of life is due
	// subscribed are those of the stateless era, by URI as the client knows it.
	subscribed map[string]*subscription
}

func newStream(v *view, wants [kinds]bool, subscription []byte) *stream {
	return &stream{view: v, wants: wants, subscription: subscription, wake: make(chan struct{}, 1)}
}

func (st *stream) sees() *view { return st.view }

// watch notes a subscription.
func (st *stream) watch(w *watches, sub *subscription) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.subscribed == nil {
		st.subscribed = map[string]*subscription{}
	}
	st.subscribed[sub.as] = sub
	w.add(sub.key, st, sub.as)
}

func (st *stream) watches(uri string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.subscribed[uri] != nil
}

// unwatch forgets a subscription and returns it, or nil.
func (st *stream) unwatch(w *watches, uri string) *subscription {
	st.mu.Lock()
	defer st.mu.Unlock()
	sub := st.subscribed[uri]
	if sub != nil {
		delete(st.subscribed, uri)
		w.remove(sub.key, st)
	}
	return sub
}

// unwatchStream forgets every subscription of a stream that is over.
func (s *Server) unwatchStream(st *stream) {
	st.mu.Lock()
	uris := slices.Collect(maps.Keys(st.subscribed))
	st.mu.Unlock()
	for _, uri := range uris {
		s.release(st.unwatch(&s.watches, uri))
	}
}

func (st *stream) nudge() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// now tells the stream of the version of a list.
func (st *stream) now(k kind, version string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if version == "" || st.knows[k] == version {
		return
	}
	if st.knows[k] != "" && st.wants[k] {
		st.due[k] = true
		st.nudge()
	}
	st.knows[k] = version
}

// missed has the stream begin with word of a change that its client may have
// missed.
func (st *stream) missed(k kind) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.due[k] = st.wants[k]
	st.nudge()
}

// update tells the stream of a resource that changed, by the URI that its
// client knows.
func (st *stream) update(uri string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.updated) < maxSubscribed && !slices.Contains(st.updated, uri) {
		st.updated = append(st.updated, uri)
	}
	st.nudge()
}

func (st *stream) keepAlive() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.beat = true
	st.nudge()
}

// take returns what there is to say and forgets it.
func (st *stream) take() (events [][]byte, beat bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for k := range kinds {
		if st.due[k] {
			events = append(events, st.notification(k.changed(), nil))
		}
	}
	for _, uri := range st.updated {
		events = append(events, st.notification("notifications/resources/updated", jsonlex.Quote([]byte(`"uri":`), uri)))
	}
	beat = st.beat && len(events) == 0
	st.due, st.updated, st.beat = [kinds]bool{}, nil, false
	return events, beat
}

// notification is a message with a member for its params, or none.
func (st *stream) notification(method string, member []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"`), method...)
	b = append(b, `","params":{`...)
	if st.subscription != nil {
		b = append(append(append(b, `"_meta":`...), st.meta()...), ',')
	}
	b = append(b, member...)
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, `}}`...)
}

// meta says of which subscription of the stateless era a message is.
func (st *stream) meta() []byte {
	b := append([]byte(`{"io.modelcontextprotocol/subscriptionId":`), st.subscription...)
	return append(b, '}')
}

// serve writes what there is to say until ctx ends or the client is gone.
func (st *stream) serve(ctx context.Context, a *reply) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-st.wake:
		}
		events, beat := st.take()
		for _, e := range events {
			if a.event(e) != nil {
				return
			}
		}
		if beat && a.comment("waiting") != nil {
			return
		}
	}
}
