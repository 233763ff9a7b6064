package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"sallyport/action"
)

// subscription is a wish of a client to hear of one resource.
type subscription struct {
	key watchKey
	as  string // the URI that the client knows
	// owner is whose subscription it is at the source. Nil: another instance
	// made it there, or nobody did yet.
	owner *action.Session
}

// subscribeTo has the source of a resource tell of its changes. The resource is
// one that the session may read.
func (s *Server) subscribeTo(ctx context.Context, x *exchange, uri string) (*subscription, error) {
	owner := x.who
	source, name, err := s.cfg.Resolver.ResolveResource(ctx, &owner, uri)
	if err != nil {
		return nil, err
	}
	if !s.standings.subscribe(x) {
		return nil, action.Errorf(action.ErrTooMany, "too_many_subscriptions", "This session has %d subscriptions already; end some before you ask for another.", maxSubscriptions)
	}
	if err := s.cfg.Gate.Subscribe(ctx, &owner, source, name, true); err != nil {
		s.standings.unsubscribe(owner.ID)
		return nil, err
	}
	return &subscription{key: watchKey{owner.Organization, source, name}, as: uri, owner: &owner}, nil
}

// subscribe answers resources/subscribe of the older era.
func (s *Server) subscribe(x *exchange, p *params) {
	switch {
	case p.uri == "":
		x.fail(missingURI())
		return
	case p.uri == capabilitiesURI:
		x.fail(invalidParams("Nobody is told of changes of this resource; read it again instead."))
		return
	case !x.mcp.mayWatch(p.uri):
		x.fail(tooManySubscriptions())
		return
	case x.mcp.watches(p.uri):
		_ = x.answer(newReply(x.w), message{result: []byte("{}")}) // a client that left asks again
		return
	}
	err := s.cfg.Gate.Admit(x.r.Context(), &x.who)
	var sub *subscription
	if err == nil {
		sub, err = s.subscribeTo(x.r.Context(), x, p.uri)
	}
	if err != nil {
		x.refuse(s.resourceMessage(x, p.uri, err))
		return
	}
	if !x.mcp.watch(&s.watches, sub) {
		s.release(sub)
		s.notWatched(x, p.uri)
		return
	}
	s.postSubscription(x, SignalSubscribe, subscriptionData{URI: sub.as, Source: sub.key.source, Name: sub.key.uri})
	_ = x.answer(newReply(x.w), message{result: []byte("{}")}) // a client that left has what it wants
}

func tooManySubscriptions() *problem {
	return &problem{code: codeInternal, text: fmt.Sprintf("This MCP session has %d subscriptions already; end one before you ask for another.", maxSubscribed)}
}

// notWatched answers for a subscription that its source agreed to and that the
// session cannot have, since a moment ago.
func (s *Server) notWatched(x *exchange, uri string) {
	switch {
	case x.mcp.watches(uri): // it was asked for twice at once
		_ = x.answer(newReply(x.w), message{result: []byte("{}")}) // a client that left has what it wants
	case x.mcp.mayWatch(uri): // the session ended
		plain(x.w, http.StatusNotFound, sessionGone)
	default:
		x.fail(tooManySubscriptions())
	}
}

// endSubscription answers resources/unsubscribe of the older era, on whichever
// instance it comes to.
func (s *Server) endSubscription(x *exchange, p *params) {
	if p.uri == "" {
		x.fail(missingURI())
		return
	}
	s.release(x.mcp.unwatch(&s.watches, p.uri))
	s.postSubscription(x, SignalUnsubscribe, subscriptionData{URI: p.uri})
	_ = x.answer(newReply(x.w), message{result: []byte("{}")}) // a client that left has what it wants
}

// subscriptionData is the Data of a SignalSubscribe and a SignalUnsubscribe.
type subscriptionData struct {
	URI    string `json:"uri"` // as the client knows it
	Source string `json:"source,omitempty"`
	Name   string `json:"name,omitempty"` // the URI at the source
}

// maxPostedURI is the longest URI that is told to peers.
const maxPostedURI = 8 << 10

// postSubscription tells the other instances, one of which may have the
// client's event stream.
func (s *Server) postSubscription(x *exchange, kind SignalKind, d subscriptionData) {
	if s.cfg.Peers == nil || len(d.URI)+len(d.Name) > maxPostedURI || !s.mayPost(x, kind) {
		return
	}
	s.tellPeers(x, kind, d)
}

// tellPeers posts a signal about the session, which others can do without.
func (s *Server) tellPeers(x *exchange, kind SignalKind, what any) {
	data, err := json.Marshal(what)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerWithin)
		defer cancel()
		err = s.cfg.Peers.Post(ctx, Signal{Kind: kind, Organization: x.who.Organization, Session: x.mcp.name.String(), Data: data})
	}
	if err != nil {
		s.cfg.Log.Warn("telling other instances of an MCP session", "kind", kind, "error", err)
	}
}

// subscribedElsewhere takes a subscription that another instance made, or
// ended.
func (s *Server) subscribedElsewhere(known *session, kind SignalKind, data json.RawMessage) {
	var d subscriptionData
	if json.Unmarshal(data, &d) != nil || d.URI == "" {
		return
	}
	if kind == SignalSubscribe {
		known.watch(&s.watches, &subscription{key: watchKey{known.view.key.organization, d.Source, d.Name}, as: d.URI})
		return
	}
	s.release(known.unwatch(&s.watches, d.URI))
}

// mayWatch reports whether a session may have one more subscription, or this
// one again.
func (s *session) mayWatch(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subscribed) < maxSubscribed || s.subscribed[uri] != nil
}

func (s *session) watches(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscribed[uri] != nil
}

// watch notes a subscription. It returns false when it has it already, has too
// many, or is over.
func (s *session) watch(w *watches, sub *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.subscribed[sub.as] != nil || len(s.subscribed) >= maxSubscribed {
		return false
	}
	if s.subscribed == nil {
		s.subscribed = map[string]*subscription{}
	}
	s.subscribed[sub.as] = sub
	if sub.owner != nil {
		s.owns.Add(1)
	}
	w.add(sub.key, s, sub.as)
	return true
}

// unwatch forgets a subscription and returns it, or nil.
func (s *session) unwatch(w *watches, uri string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscribed[uri]
	if sub == nil {
		return nil
	}
	delete(s.subscribed, uri)
	if sub.owner != nil {
		s.owns.Add(-1)
	}
	w.remove(sub.key, s)
	return sub
}

func (s *session) sees() *view { return s.view }

// update tells the session's event stream, if it is here, of a resource that
// changed.
func (s *session) update(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.update(uri)
	}
}

// unwatchAll forgets every subscription of a session that is over, and has
// those end at their sources that were made here.
func (s *Server) unwatchAll(old *session) {
	old.mu.Lock()
	uris := make([]string, 0, len(old.subscribed))
	for uri := range old.subscribed {
		uris = append(uris, uri)
	}
	old.mu.Unlock()
	for _, uri := range uris {
		s.release(old.unwatch(&s.watches, uri))
	}
}

// unwatchDenied ends the subscriptions of a view's sessions that they could not
// make any more.
func (s *Server) unwatchDenied(list *toolset, all []watched) {
	for _, w := range all {
		if list.watchable[w.key.source] {
			continue
		}
		s.cfg.Log.Info("a subscription ends: policy allows it no more, or its source is gone", "organization", w.key.organization, "source", w.key.source)
		s.release(w.who.unwatch(&s.watches, w.as))
	}
}
