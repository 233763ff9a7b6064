package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/wire"
)

// subscription is a wish of a client to hear of one resource.
type subscription struct {
	key resourceKey
	uri string // the URI that the client knows
	// owner is whose subscription it is at the source. Nil: another instance
	// made it there, or nobody did yet.
	owner *action.Session
}

// subscribeAtSource has the source of a resource tell of its changes. The resource is
// one that the session may read.
func (s *Server) subscribeAtSource(ctx context.Context, x *exchange, uri string) (*subscription, error) {
	owner := x.who
	source, name, err := s.cfg.Resolver.ResolveResource(ctx, &owner, uri)
	if err != nil {
		return nil, err
	}
	if !s.principals.subscribe(x) {
		return nil, action.Errorf(action.ErrTooMany, "too_many_subscriptions", "This session has %d subscriptions already; end some before you ask for another.", maxSubscriptionsPerPrincipal)
	}
	if err := s.cfg.Gate.Subscribe(ctx, &owner, source, name, true); err != nil {
		s.principals.unsubscribe(owner.ID)
		return nil, err
	}
	return &subscription{key: resourceKey{owner.Organization, source, name}, uri: uri, owner: &owner}, nil
}

// handleSubscribe answers resources/subscribe of the older era.
func (s *Server) handleSubscribe(x *exchange, p *params) {
	switch {
	case p.uri == "":
		x.sendError(missingURI())
		return
	case p.uri == capabilitiesURI:
		x.sendError(wire.InvalidParams("Nobody is told of changes of this resource; read it again instead."))
		return
	case !x.session.canSubscribe(p.uri):
		x.sendError(tooManySubscriptions())
		return
	case x.session.isSubscribed(p.uri):
		_ = x.sendTo(wire.NewWriter(x.w), wire.Response{Result: []byte("{}")}) // a client that left asks again
		return
	}
	err := s.cfg.Gate.Admit(x.r.Context(), &x.who)
	var sub *subscription
	if err == nil {
		sub, err = s.subscribeAtSource(x.r.Context(), x, p.uri)
	}
	if err != nil {
		x.send(s.resourceError(x, p.uri, err))
		return
	}
	if !x.session.addSubscription(&s.subscribers, sub) {
		s.queueUnsubscribe(sub)
		s.sendNotSubscribed(x, p.uri)
		return
	}
	s.postSubscription(x, SignalSubscribe, subscriptionData{URI: sub.uri, Source: sub.key.source, Name: sub.key.uri})
	_ = x.sendTo(wire.NewWriter(x.w), wire.Response{Result: []byte("{}")}) // a client that left has what it wants
}

func tooManySubscriptions() *wire.Error {
	return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("This MCP session has %d subscriptions already; end one before you ask for another.", maxSubscriptionsPerClient)}
}

// sendNotSubscribed answers for a subscription that its source agreed to and that the
// session cannot have, since a moment ago.
func (s *Server) sendNotSubscribed(x *exchange, uri string) {
	switch {
	case x.session.isSubscribed(uri): // it was asked for twice at once
		_ = x.sendTo(wire.NewWriter(x.w), wire.Response{Result: []byte("{}")}) // a client that left has what it wants
	case x.session.canSubscribe(uri): // the session ended
		wire.WriteText(x.w, http.StatusNotFound, sessionGoneText)
	default:
		x.sendError(tooManySubscriptions())
	}
}

// handleUnsubscribe answers resources/unsubscribe of the older era, on whichever
// instance it comes to.
func (s *Server) handleUnsubscribe(x *exchange, p *params) {
	if p.uri == "" {
		x.sendError(missingURI())
		return
	}
	s.queueUnsubscribe(x.session.removeSubscription(&s.subscribers, p.uri))
	s.postSubscription(x, SignalUnsubscribe, subscriptionData{URI: p.uri})
	_ = x.sendTo(wire.NewWriter(x.w), wire.Response{Result: []byte("{}")}) // a client that left has what it wants
}

// subscriptionData is the Data of a SignalSubscribe and a SignalUnsubscribe.
type subscriptionData struct {
	URI    string `json:"uri"` // as the client knows it
	Source string `json:"source,omitempty"`
	Name   string `json:"name,omitempty"` // the URI at the source
}

// maxSignalURI is the longest URI that is told to peers.
const maxSignalURI = 8 << 10

// postSubscription tells the other instances, one of which may have the
// client's event stream.
func (s *Server) postSubscription(x *exchange, kind SignalKind, d subscriptionData) {
	if s.cfg.Peers == nil || len(d.URI)+len(d.Name) > maxSignalURI || !s.allowSignal(x, kind) {
		return
	}
	s.postSignal(x, kind, d)
}

// postSignal posts a signal about the session, which others can do without.
func (s *Server) postSignal(x *exchange, kind SignalKind, what any) {
	data, err := json.Marshal(what)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
		defer cancel()
		err = s.cfg.Peers.Post(ctx, Signal{Kind: kind, Organization: x.who.Organization, Session: x.session.name.String(), Data: data})
	}
	if err != nil {
		s.cfg.Log.Warn("telling other instances of an MCP session", "kind", kind, "error", err)
	}
}

// applyPeerSubscription takes a subscription that another instance made, or
// ended.
func (s *Server) applyPeerSubscription(known *session, kind SignalKind, data json.RawMessage) {
	var d subscriptionData
	if json.Unmarshal(data, &d) != nil || d.URI == "" {
		return
	}
	if kind == SignalSubscribe {
		known.addSubscription(&s.subscribers, &subscription{key: resourceKey{known.view.key.organization, d.Source, d.Name}, uri: d.URI})
		return
	}
	s.queueUnsubscribe(known.removeSubscription(&s.subscribers, d.URI))
}

// canSubscribe reports whether a session may have one more subscription, or this
// one again.
func (s *session) canSubscribe(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subscribed) < maxSubscriptionsPerClient || s.subscribed[uri] != nil
}

func (s *session) isSubscribed(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscribed[uri] != nil
}

// addSubscription notes a subscription. It returns false when it has it already, has too
// many, or is over.
func (s *session) addSubscription(w *subscriberIndex, sub *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.subscribed[sub.uri] != nil || len(s.subscribed) >= maxSubscriptionsPerClient {
		return false
	}
	if s.subscribed == nil {
		s.subscribed = map[string]*subscription{}
	}
	s.subscribed[sub.uri] = sub
	if sub.owner != nil {
		s.ownedSubscriptions.Add(1)
	}
	w.add(sub.key, s, sub.uri)
	return true
}

// removeSubscription forgets a subscription and returns it, or nil.
func (s *session) removeSubscription(w *subscriberIndex, uri string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscribed[uri]
	if sub == nil {
		return nil
	}
	delete(s.subscribed, uri)
	if sub.owner != nil {
		s.ownedSubscriptions.Add(-1)
	}
	w.remove(sub.key, s)
	return sub
}

func (s *session) currentView() *view { return s.view }

// update tells the session's event stream, if it is here, of a resource that
// changed.
func (s *session) update(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.update(uri)
	}
}

// removeSubscriptions forgets every subscription of a session that is over, and has
// those end at their sources that were made here.
func (s *Server) removeSubscriptions(old *session) {
	old.mu.Lock()
	uris := make([]string, 0, len(old.subscribed))
	for uri := range old.subscribed {
		uris = append(uris, uri)
	}
	old.mu.Unlock()
	for _, uri := range uris {
		s.queueUnsubscribe(old.removeSubscription(&s.subscribers, uri))
	}
}

// removeDenied ends the subscriptions of a view's sessions that they could not
// make any more.
func (s *Server) removeDenied(list *toolset, all []subscribedResource) {
	for _, w := range all {
		if list.subscribable[w.key.source] {
			continue
		}
		s.cfg.Log.Info("a subscription ends: policy allows it no more, or its source is gone", "organization", w.key.organization, "source", w.key.source)
		s.queueUnsubscribe(w.subscriber.removeSubscription(&s.subscribers, w.uri))
	}
}

// resourceKey names a resource: by its URI at its source.
type resourceKey struct{ organization, source, uri string }

func (k resourceKey) sourceKey() sourceKey { return sourceKey{k.organization, k.source} }

// subscriber is a session of the older era or a stream of the stateless one.
type subscriber interface {
	// update tells of a resource that changed, by the URI that the client
	// knows. It must not block.
	update(uri string)
	// unwatch forgets a subscription and returns it, or nil.
	removeSubscription(w *subscriberIndex, uri string) *subscription
	// sees is the view of whoever watches.
	currentView() *view
}

// subscriberIndex know who wants to hear of which resource.
type subscriberIndex struct {
	mu         sync.Mutex
	byResource map[resourceKey]map[subscriber]string
}

func (w *subscriberIndex) add(key resourceKey, who subscriber, as string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byResource == nil {
		w.byResource = map[resourceKey]map[subscriber]string{}
	}
	if w.byResource[key] == nil {
		w.byResource[key] = map[subscriber]string{}
	}
	w.byResource[key][who] = as
}

func (w *subscriberIndex) remove(key resourceKey, who subscriber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byResource[key], who)
	if len(w.byResource[key]) == 0 {
		delete(w.byResource, key)
	}
}

// onHint takes a hint that a resource changed.
func (w *subscriberIndex) onHint(h action.Hint) {
	w.mu.Lock()
	told := maps.Clone(w.byResource[resourceKey{h.Organization, h.Source, h.Resource}])
	w.mu.Unlock() // a session adds to us while it holds itself
	for who, as := range told {
		who.update(as)
	}
}

// subscribedResource is a resource that somebody wants to hear of.
type subscribedResource struct {
	key        resourceKey
	subscriber subscriber
	uri        string
}

// byView returns what is watched, by the views of those who do.
func (w *subscriberIndex) byView() map[*view][]subscribedResource {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[*view][]subscribedResource{}
	for key, by := range w.byResource {
		for who, as := range by {
			all[who.currentView()] = append(all[who.currentView()], subscribedResource{key, who, as})
		}
	}
	return all
}

const (
	// subscribeTimeout bounds the beginning and the end of a subscription at its
	// source.
	subscribeTimeout = 10 * time.Second
	// unsubscribeWorkers is how many sources are told at once that somebody does not
	// want to hear of a resource any more, and maxReleases how many such words
	// wait for one of them.
	unsubscribeWorkers    = 8
	maxQueuedUnsubscribes = 1000
)

// sourceKey names a source.
type sourceKey struct{ organization, source string }

// unsubscribeQueue are subscriptions that end at their sources, when there is time for
// it. Each source is told one word after another, so that one that hangs keeps
// only itself waiting.
type unsubscribeQueue struct {
	mu       sync.Mutex
	bySource map[sourceKey][]*subscription
	busy     map[sourceKey]bool
	wake     chan struct{}
}

func newUnsubscribeQueue() unsubscribeQueue {
	return unsubscribeQueue{bySource: map[sourceKey][]*subscription{}, busy: map[sourceKey]bool{}, wake: make(chan struct{}, unsubscribeWorkers)}
}

// add returns false when too many wait for the source.
func (r *unsubscribeQueue) add(sub *subscription) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := sub.key.sourceKey()
	if len(r.bySource[at]) >= maxQueuedUnsubscribes {
		return false
	}
	r.bySource[at] = append(r.bySource[at], sub)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

// next returns one of a source that nobody tells anything now, or nil. The
// caller calls done with it.
func (r *unsubscribeQueue) next() *subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, waiting := range r.bySource {
		if r.busy[at] {
			continue
		}
		r.busy[at] = true
		if r.bySource[at] = waiting[1:]; len(waiting) == 1 {
			delete(r.bySource, at)
		}
		return waiting[0]
	}
	return nil
}

func (r *unsubscribeQueue) done(sub *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, sub.key.sourceKey())
}

// queueUnsubscribe has a subscription end at its source, if it was made here.
func (s *Server) queueUnsubscribe(sub *subscription) {
	if sub == nil || sub.owner == nil || s.unsubscribes.add(sub) {
		return
	}
	s.principals.unsubscribe(sub.owner.ID)
	s.cfg.Log.Warn("a source is too slow to be told of all subscriptions that ended; it goes on telling of this one", "session", sub.owner.ID, "source", sub.key.source)
}

// runUnsubscribes ends what nobody wants any more, until ctx ends.
func (s *Server) runUnsubscribes(ctx context.Context) {
	for ctx.Err() == nil {
		if sub := s.unsubscribes.next(); sub != nil {
			s.unsubscribeAtSource(ctx, sub)
			s.unsubscribes.done(sub)
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.unsubscribes.wake:
		}
	}
}

// unsubscribeAtSource ends a subscription at its source.
func (s *Server) unsubscribeAtSource(ctx context.Context, sub *subscription) {
	defer s.principals.unsubscribe(sub.owner.ID)
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	if err := s.cfg.Gate.Subscribe(ctx, sub.owner, sub.key.source, sub.key.uri, false); err != nil {
		s.cfg.Log.Warn("ending a subscription at its source", "session", sub.owner.ID, "source", sub.key.source, "error", err)
	}
}
