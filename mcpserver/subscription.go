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

// subscription is a client's subscription to one resource.
type subscription struct {
	key resourceKey
	uri string // the client's URI
	// owner is the session that subscribed at the source. Nil: another instance did.
	owner *action.Session
}

// subscribeAtSource subscribes to a resource at its source, if the session may read
// it.
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

// handleSubscribe answers resources/subscribe.
func (s *Server) handleSubscribe(x *exchange, p *params) {
	switch {
	case p.uri == "":
		x.sendError(missingURI())
		return
	case p.uri == capabilitiesURI:
		x.sendError(wire.InvalidParams("This resource does not support subscriptions; read it again instead."))
		return
	case !x.session.canSubscribe(p.uri):
		x.sendError(tooManySubscriptions())
		return
	case x.session.isSubscribed(p.uri):
		s.sendEmpty(x)
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
	if !x.session.addSubscription(&s.subscribers, sub) { // the session changed meanwhile
		s.queueUnsubscribe(sub)
		switch {
		case x.session.isSubscribed(p.uri): // by a concurrent request
			s.sendEmpty(x)
		case x.session.canSubscribe(p.uri): // the session ended
			wire.WriteText(x.w, http.StatusNotFound, sessionGoneText)
		default:
			x.sendError(tooManySubscriptions())
		}
		return
	}
	s.postSubscription(x, SignalSubscribe, subscriptionData{URI: sub.uri, Source: sub.key.source, Name: sub.key.uri})
	s.sendEmpty(x)
}

func tooManySubscriptions() *wire.Error {
	return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("This MCP session has %d subscriptions already; end one before you ask for another.", maxSubscriptionsPerClient)}
}

// handleUnsubscribe answers resources/unsubscribe on any instance.
func (s *Server) handleUnsubscribe(x *exchange, p *params) {
	if p.uri == "" {
		x.sendError(missingURI())
		return
	}
	s.queueUnsubscribe(x.session.removeSubscription(&s.subscribers, p.uri))
	s.postSubscription(x, SignalUnsubscribe, subscriptionData{URI: p.uri})
	s.sendEmpty(x)
}

// subscriptionData is the Data of a SignalSubscribe and a SignalUnsubscribe.
type subscriptionData struct {
	URI    string `json:"uri"` // the client's URI
	Source string `json:"source,omitempty"`
	Name   string `json:"name,omitempty"` // the URI at the source
}

// maxSignalURI is the longest URI in a signal.
const maxSignalURI = 8 << 10

// postSubscription tells peers about a subscription: one of them may have the
// client's event stream.
func (s *Server) postSubscription(x *exchange, kind SignalKind, d subscriptionData) {
	if s.cfg.Peers == nil || len(d.URI)+len(d.Name) > maxSignalURI || !s.allow(x, kind) {
		return
	}
	s.postSignal(x, kind, d)
}

// postSignal posts a signal whose loss is tolerable.
func (s *Server) postSignal(x *exchange, kind SignalKind, what any) {
	data, err := json.Marshal(what)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
		defer cancel()
		err = s.cfg.Peers.Post(ctx, Signal{Kind: kind, Organization: x.who.Organization, Session: x.session.name.String(), Data: data})
	}
	if err != nil {
		s.cfg.Log.Warn("a change of an MCP session could not be sent to other instances", "kind", kind, "error", err)
	}
}

// applyPeerSubscription adds or removes a subscription that another instance made or
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

// canSubscribe reports whether the session is below its limit, or has the
// subscription already.
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

// addSubscription adds a subscription. It returns false if the session has it
// already, is at its limit, or is closed.
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

// removeSubscription removes a subscription and returns it, or nil.
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

// update notifies the session's event stream, if it is on this instance, of a
// changed resource.
func (s *session) update(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.update(uri)
	}
}

// removeSubscriptions removes all subscriptions of a closed session, and ends those
// at the sources that this instance made.
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

// removeDenied ends subscriptions of a view's sessions that policy no longer allows.
func (s *Server) removeDenied(list *toolset, all []subscribedResource) {
	for _, w := range all {
		if list.subscribable[w.key.source] {
			continue
		}
		s.cfg.Log.Info("a subscription ended: policy no longer allows it, or its source was removed", "organization", w.key.organization, "source", w.key.source)
		s.queueUnsubscribe(w.subscriber.removeSubscription(&s.subscribers, w.uri))
	}
}

// resourceKey identifies a resource by its URI at its source.
type resourceKey struct{ organization, source, uri string }

func (k resourceKey) sourceKey() sourceKey { return sourceKey{k.organization, k.source} }

// subscriber is a session or a stateless stream.
type subscriber interface {
	// update reports a changed resource by the client's URI. It must not block.
	update(uri string)
	// removeSubscription removes a subscription and returns it, or nil.
	removeSubscription(w *subscriberIndex, uri string) *subscription
	// currentView is the view of the subscriber.
	currentView() *view
}

// subscriberIndex maps resources to their subscribers.
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

// onHint handles a hint that a resource changed.
func (w *subscriberIndex) onHint(h action.Hint) {
	w.mu.Lock()
	told := maps.Clone(w.byResource[resourceKey{h.Organization, h.Source, h.Resource}])
	w.mu.Unlock() // a session locks the index while it holds its own lock
	for who, as := range told {
		who.update(as)
	}
}

// subscribedResource is a resource with one of its subscribers.
type subscribedResource struct {
	key        resourceKey
	subscriber subscriber
	uri        string
}

// byView returns the subscribed resources by the views of their subscribers.
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
	// subscribeTimeout bounds a subscribe or unsubscribe request to a source.
	subscribeTimeout = 10 * time.Second
	// unsubscribeWorkers is the number of concurrent unsubscribe requests, and
	// maxQueuedUnsubscribes the limit of queued ones per source.
	unsubscribeWorkers    = 8
	maxQueuedUnsubscribes = 1000
)

// sourceKey identifies a source.
type sourceKey struct{ organization, source string }

// unsubscribeQueue holds subscriptions that are to be ended at their sources. Each
// source gets one request at a time, so that a slow one delays only its own.
type unsubscribeQueue struct {
	mu       sync.Mutex
	bySource map[sourceKey][]*subscription
	busy     map[sourceKey]bool
	wake     chan struct{}
}

func newUnsubscribeQueue() unsubscribeQueue {
	return unsubscribeQueue{bySource: map[sourceKey][]*subscription{}, busy: map[sourceKey]bool{}, wake: make(chan struct{}, unsubscribeWorkers)}
}

// add returns false if the queue of the source is full.
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

// next returns a subscription of a source without a request in progress, or nil. The
// caller must call done.
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

// queueUnsubscribe ends a subscription at its source if this instance made it.
func (s *Server) queueUnsubscribe(sub *subscription) {
	if sub == nil || sub.owner == nil || s.unsubscribes.add(sub) {
		return
	}
	s.principals.unsubscribe(sub.owner.ID)
	s.cfg.Log.Warn("a source is too slow to end all subscriptions; it keeps sending updates for this one", "session", sub.owner.ID, "source", sub.key.source)
}

// runUnsubscribes sends queued unsubscribe requests until ctx ends.
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
		s.cfg.Log.Warn("a subscription could not be ended at its source", "session", sub.owner.ID, "source", sub.key.source, "error", err)
	}
}
