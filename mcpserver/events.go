package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// openEvents opens the event stream of a session of the older era. On it comes
// word of changed lists and resources, from this instance: every instance looks
// for itself when it hears that something changed.
func (s *Server) openEvents(x *exchange) {
	if p := s.checkVersion(x.r.Header.Get(versionHeader)); p != nil {
		x.fail(p)
		return
	}
	if _, takes := accepts(x.r); !takes {
		plain(x.w, http.StatusNotAcceptable, "GET opens an event stream; Accept must list text/event-stream.")
		return
	}
	v := x.mcp.view
	o := s.offersOf(x.r.Context(), v, &x.who)
	st := newStream(o.can.announced(), nil)
	ctx, ok := x.mcp.openStream(x.r.Context(), st)
	if !ok {
		plain(x.w, http.StatusConflict, "This MCP session has an event stream already.")
		return
	}
	defer v.leave(st)
	defer x.mcp.closeStream()
	a := newReply(x.w)
	defer a.close()
	if a.comment("ok") != nil {
		return
	}
	now := s.versionsNow(ctx, v, &x.who, o)
	s.remind(x, st, now)
	v.join(st, now)
	s.stream(ctx, st, a)
}

// stream serves a stream until it or the gateway ends.
func (s *Server) stream(ctx context.Context, st *stream, a *reply) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	st.serve(ctx, a)
}

// reopened is how old a session is when an event stream of it, the first that
// is seen here, cannot be its first one any more.
const reopened = time.Minute

// remind has a stream begin with word of lists that changed since the client
// took them, or may have: one that was without a stream for some time may have
// missed it.
func (s *Server) remind(x *exchange, st *stream, now versions) {
	for k := range kinds {
		if now[k] == "" {
			continue
		}
		before := x.mcp.took(k, now[k])
		if before == now[k] || before == "" && s.cfg.Now().Sub(x.mcp.issued) < reopened {
			continue
		}
		st.missed(k)
	}
}

// listen serves subscriptions/listen of the stateless era: an event stream of
// what the client names, which is acknowledged first.
func (s *Server) listen(x *exchange, p *params) (rest func()) {
	want := member(x.params, "notifications")
	uris, ok := subscribedURIs(want)
	if !isObject(want) || !ok {
		x.fail(invalidParams("notifications must be an object that says what to listen to, with resourceSubscriptions as a list of at most %d URIs.", maxSubscribed))
		return nil
	}
	if s.calls.draining() {
		s.unavailable(x.w)
		return nil
	}
	v := s.views.hold(&x.who, s.cfg.Now())
	o := s.offersOf(x.r.Context(), v, &x.who)
	wants := o.can.announced()
	for k := range kinds {
		wants[k] = wants[k] && string(member(want, k.filter())) == "true"
	}
	st := newStream(wants, bytes.Clone(x.id))
	x.envelope = envelope{id: st.subscription, method: x.method}
	return func() {
		defer func() { s.views.release(v, s.cfg.Now()) }()
		s.serveSubscription(x, v, st, o, uris)
	}
}

// subscribedURIs reads the list of resources, which may be absent.
func subscribedURIs(want []byte) (uris []string, ok bool) {
	raw := member(want, "resourceSubscriptions")
	if raw == nil || isNull(raw) {
		return nil, true
	}
	if json.Unmarshal(raw, &uris) != nil || len(uris) > maxSubscribed {
		return nil, false
	}
	return uris, true
}

// serveSubscription keeps a subscription until its client leaves. It ends by
// itself only when there is nothing to listen to, or with the gateway.
func (s *Server) serveSubscription(x *exchange, v *view, st *stream, o *offers, uris []string) {
	a := newReply(x.w)
	defer a.close()
	ctx := x.r.Context()
	honoured, release := s.watchFor(ctx, x, st, uris)
	defer release()
	if a.event(st.acknowledgement(honoured)) != nil {
		return
	}
	if len(honoured) > 0 || st.wants != [kinds]bool{} {
		v.join(st, s.versionsNow(ctx, v, &x.who, o))
		defer v.leave(st)
		s.stream(ctx, st, a)
	}
	result := append([]byte(`{"resultType":"complete","_meta":`), st.meta()...)
	_ = x.answer(a, message{result: append(result, '}')}) // a client that left needs no answer
}

// acknowledgement says what of a subscription is honoured.
func (st *stream) acknowledgement(uris []string) []byte {
	honoured := map[string]any{}
	for k := range kinds {
		if st.wants[k] {
			honoured[k.filter()] = true
		}
	}
	if len(uris) > 0 {
		honoured["resourceSubscriptions"] = uris
	}
	raw, _ := json.Marshal(honoured) // strings and booleans always encode
	return st.notification("notifications/subscriptions/acknowledged", append([]byte(`"notifications":`), raw...))
}
