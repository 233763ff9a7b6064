package mcpserver

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/wire"
)

// maxSubscriptionsPerClient is the limit of a session, and of one subscriptions/listen.
const maxSubscriptionsPerClient = 100

// stream is an open event stream: of a session, or of a stateless
// subscriptions/listen. Other goroutines only record what is to be sent; the request
// of the stream writes it.
type stream struct {
	view         *view
	wants        [kinds]bool
	subscription []byte // raw id of the subscriptions/listen; nil for sessions
	wake         chan struct{}

	mu               sync.Mutex
	listVersions     versions    // of the lists that the client was notified of
	pendingChanges   [kinds]bool // lists whose change is to be sent
	updatedResources []string    // changed resources, without duplicates
	keepAliveDue     bool        // a keep-alive comment is due
	// subscribed are the resources of a subscriptions/listen, by the client's URI.
	subscribed map[string]*subscription
}

func newStream(v *view, wants [kinds]bool, subscription []byte) *stream {
	return &stream{view: v, wants: wants, subscription: subscription, wake: make(chan struct{}, 1)}
}

func (st *stream) currentView() *view { return st.view }

// addSubscription adds a subscription.
func (st *stream) addSubscription(w *subscriberIndex, sub *subscription) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.subscribed == nil {
		st.subscribed = map[string]*subscription{}
	}
	st.subscribed[sub.uri] = sub
	w.add(sub.key, st, sub.uri)
}

func (st *stream) isSubscribed(uri string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.subscribed[uri] != nil
}

// removeSubscription removes a subscription and returns it, or nil.
func (st *stream) removeSubscription(w *subscriberIndex, uri string) *subscription {
	st.mu.Lock()
	defer st.mu.Unlock()
	sub := st.subscribed[uri]
	if sub != nil {
		delete(st.subscribed, uri)
		w.remove(sub.key, st)
	}
	return sub
}

// removeStreamSubscriptions removes all subscriptions of a closed stream.
func (s *Server) removeStreamSubscriptions(st *stream) {
	st.mu.Lock()
	uris := slices.Collect(maps.Keys(st.subscribed))
	st.mu.Unlock()
	for _, uri := range uris {
		s.queueUnsubscribe(st.removeSubscription(&s.subscribers, uri))
	}
}

func (st *stream) wakeUp() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// setVersion records the version of a list and schedules a notification if it
// changed.
func (st *stream) setVersion(k kind, version string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if version == "" || st.listVersions[k] == version {
		return
	}
	if st.listVersions[k] != "" && st.wants[k] {
		st.pendingChanges[k] = true
		st.wakeUp()
	}
	st.listVersions[k] = version
}

// markChanged schedules a notification of a change that the client may have missed.
func (st *stream) markChanged(k kind) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pendingChanges[k] = st.wants[k]
	st.wakeUp()
}

// update schedules a notification of a changed resource, by the client's URI.
func (st *stream) update(uri string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.updatedResources) < maxSubscriptionsPerClient && !slices.Contains(st.updatedResources, uri) {
		st.updatedResources = append(st.updatedResources, uri)
	}
	st.wakeUp()
}

func (st *stream) keepAlive() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.keepAliveDue = true
	st.wakeUp()
}

// drain returns what is to be sent and resets it.
func (st *stream) drain() (events [][]byte, beat bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for k := range kinds {
		if st.pendingChanges[k] {
			events = append(events, st.notification(k.notification(), nil))
		}
	}
	for _, uri := range st.updatedResources {
		events = append(events, st.notification("notifications/resources/updated", jsonlex.Quote([]byte(`"uri":`), uri)))
	}
	beat = st.keepAliveDue && len(events) == 0
	st.pendingChanges, st.updatedResources, st.keepAliveDue = [kinds]bool{}, nil, false
	return events, beat
}

// notification encodes a notification; member is the raw member of its params, or
// empty.
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

// meta is the _meta that names the subscription of a message.
func (st *stream) meta() []byte {
	b := append([]byte(`{"io.modelcontextprotocol/subscriptionId":`), st.subscription...)
	return append(b, '}')
}

// serve writes messages until ctx ends or the client disconnects.
func (st *stream) serve(ctx context.Context, a *wire.Writer) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-st.wake:
		}
		events, beat := st.drain()
		for _, e := range events {
			if a.Event(e) != nil {
				return
			}
		}
		if beat && a.Comment("waiting") != nil {
			return
		}
	}
}

// handleEventStream opens the event stream of a session. It carries changes of lists
// and resources that this instance observes; every instance observes them itself.
func (s *Server) handleEventStream(x *exchange) {
	if p := s.checkVersion(x.r.Header.Get(wire.VersionHeader)); p != nil {
		x.sendError(p)
		return
	}
	if _, takes := wire.Accepts(x.r); !takes {
		wire.WriteText(x.w, http.StatusNotAcceptable, "GET opens an event stream; Accept must list text/event-stream.")
		return
	}
	v := x.session.view
	o := s.currentOfferings(x.r.Context(), v, &x.who)
	st := newStream(v, o.features.announcedKinds(), nil)
	ctx, ok := x.session.openStream(x.r.Context(), st)
	if !ok {
		wire.WriteText(x.w, http.StatusConflict, "This MCP session has an event stream already.")
		return
	}
	defer v.removeStream(st)
	defer x.session.closeStream()
	ctx, done, _ := s.trackStream(ctx, x, st) // the limit concerns subscriptions/listen only
	defer done()
	// Before the client knows that the stream is open: it expects to be notified of every
	// later change.
	now := s.currentVersions(ctx, v, &x.who, o)
	a := wire.NewWriter(x.w)
	defer a.Close()
	if a.Comment("ok") != nil {
		return
	}
	for k := range kinds { // that changed since the client fetched them, or may have while it had no stream
		if now[k] == "" {
			continue
		}
		before := x.session.recordVersion(k, now[k])
		if before != now[k] && (before != "" || s.cfg.Now().Sub(x.session.issued) >= reopenedAfter) {
			st.markChanged(k)
		}
	}
	v.addStream(st, now)
	s.serveStream(ctx, st, a)
}

// serveStream serves a stream until it ends or the gateway shuts down.
func (s *Server) serveStream(ctx context.Context, st *stream, a *wire.Writer) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	st.serve(ctx, a)
}

// reopenedAfter is the age of a session at which the first event stream on this instance
// is assumed not to be its first one.
const reopenedAfter = time.Minute
