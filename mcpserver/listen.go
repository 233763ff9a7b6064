package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"sallyport/mcpserver/wire"
)

// listen serves subscriptions/listen: an acknowledgement, then an event stream of
// what the client names. Tasks are not included: their clients poll.
func (s *Server) listen(x *exchange, p *params) (rest func()) {
	want := wire.Member(x.Params, "notifications")
	uris, ok := subscribedURIs(want)
	if !wire.IsObject(want) || !ok {
		x.sendError(wire.InvalidParams("notifications must be an object that says what to listen to, with resourceSubscriptions as a list of at most %d URIs.", maxSubscriptionsPerClient))
		return nil
	}
	if wire.Member(want, "taskIds") != nil && !declaresTasks(p.meta) {
		x.sendError(needsTasks())
		return nil
	}
	if s.calls.draining() {
		s.sendDraining(x.w)
		return nil
	}
	if len(uris) > 0 { // counts as one call, whatever the number
		if err := s.cfg.Gate.Admit(x.r.Context(), &x.who); err != nil {
			x.send(s.offeringError(err))
			return nil
		}
	}
	v := s.views.hold(&x.who, s.cfg.Now())
	o := s.currentOfferings(x.r.Context(), v, &x.who)
	wants := o.features.announcedKinds()
	for k := range kinds {
		wants[k] = wants[k] && string(wire.Member(want, k.listenFilter())) == "true"
	}
	st := newStream(v, wants, bytes.Clone(x.ID))
	x.Envelope = wire.Envelope{ID: st.subscription, Method: x.Method}
	return func() {
		defer func() { s.views.release(v, s.cfg.Now()) }()
		ctx, done, ok := s.trackStream(x.r.Context(), x, st)
		if !ok {
			x.sendError(&wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("This session has %d subscriptions/listen already; close one before you open another.", s.cfg.MaxSessions)})
			return
		}
		defer done()
		s.serveSubscription(ctx, x, st, o, uris)
	}
}

// subscribedURIs parses the list of resources, which may be absent.
func subscribedURIs(want []byte) (uris []string, ok bool) {
	raw := wire.Member(want, "resourceSubscriptions")
	if raw == nil || wire.IsNull(raw) {
		return nil, true
	}
	if json.Unmarshal(raw, &uris) != nil || len(uris) > maxSubscriptionsPerClient {
		return nil, false
	}
	return uris, true
}

// serveSubscription serves a subscription until its client disconnects. It ends
// earlier only if there is nothing to listen to, if the principal's session ends, or
// with the gateway.
func (s *Server) serveSubscription(ctx context.Context, x *exchange, st *stream, o *offerings, uris []string) {
	a := wire.NewWriter(x.w)
	defer a.Close()
	defer s.removeStreamSubscriptions(st)
	honoured := s.subscribeStream(ctx, x, st, a, uris)
	listens := len(honoured) > 0 || st.wants != [kinds]bool{}
	var now versions
	if listens { // before the client knows that it is subscribed
		now = s.currentVersions(ctx, st.view, &x.who, o)
	}
	if a.Event(st.acknowledgement(honoured)) != nil {
		return
	}
	if listens {
		st.view.addStream(st, now)
		defer st.view.removeStream(st)
		s.serveStream(ctx, st, a)
	}
	result := append([]byte(`{"resultType":"complete","_meta":`), st.meta()...)
	_ = x.sendTo(a, wire.Response{Result: append(result, '}')}) // a client that left needs no answer
}

// acknowledgement lists what of a subscription is honored.
func (st *stream) acknowledgement(uris []string) []byte {
	honoured := map[string]any{}
	for k := range kinds {
		if st.wants[k] {
			honoured[k.listenFilter()] = true
		}
	}
	if len(uris) > 0 {
		honoured["resourceSubscriptions"] = uris
	}
	raw, _ := json.Marshal(honoured) // strings and booleans always encode
	return st.notification("notifications/subscriptions/acknowledged", append([]byte(`"notifications":`), raw...))
}

// subscribeWorkers is the number of concurrent subscribe requests of a stream.
const subscribeWorkers = 8

// subscribeStream subscribes a stateless stream to resources within a time limit,
// and returns those that succeeded.
func (s *Server) subscribeStream(ctx context.Context, x *exchange, st *stream, a *wire.Writer, uris []string) (honoured []string) {
	uris = dedupe(uris)
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	defer s.keepAlive(a, func(err error) {
		if err != nil {
			cancel()
		}
	})()
	made := s.subscribeAll(ctx, x, uris)
	for left := len(uris); left > 0; left-- {
		select {
		case sub := <-made:
			if sub != nil {
				st.addSubscription(&s.subscribers, sub)
			}
		case <-ctx.Done():
			s.cfg.Log.Info("subscriptions timed out", "session", x.who.ID, "count", left)
			go s.unsubscribeLate(made, left)
			left = 1
		}
	}
	for _, uri := range uris {
		if st.isSubscribed(uri) {
			honoured = append(honoured, uri)
		}
	}
	return honoured
}

func dedupe(list []string) (out []string) {
	seen := map[string]bool{}
	for _, one := range list {
		if !seen[one] {
			seen[one] = true
			out = append(out, one)
		}
	}
	return out
}

// subscribeAll subscribes to resources concurrently. It sends one subscription, or
// nil, per resource.
func (s *Server) subscribeAll(ctx context.Context, x *exchange, uris []string) <-chan *subscription {
	made := make(chan *subscription, len(uris)) // so that late workers do not block
	todo := make(chan string, len(uris))
	for _, uri := range uris {
		todo <- uri
	}
	close(todo)
	who := &exchange{who: x.who, bearer: x.bearer} // the part of x that may outlive the request
	for range min(len(uris), subscribeWorkers) {
		go func() {
			for uri := range todo {
				if ctx.Err() != nil {
					made <- nil
					continue
				}
				sub, err := s.subscribeAtSource(ctx, who, uri)
				if err != nil {
					s.cfg.Log.Info("a subscription failed", "session", who.who.ID, "error", err)
				}
				made <- sub
			}
		}()
	}
	return made
}

// unsubscribeLate ends subscriptions that succeeded after the time limit.
func (s *Server) unsubscribeLate(made <-chan *subscription, left int) {
	for range left {
		s.queueUnsubscribe(<-made)
	}
}
