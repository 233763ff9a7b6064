package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// listen serves subscriptions/listen of the stateless era: an event stream of
// what the client names, which is acknowledged first. Tasks are not among it:
// their clients ask for them.
func (s *Server) listen(x *exchange, p *params) (rest func()) {
	want := member(x.params, "notifications")
	uris, ok := subscribedURIs(want)
	if !isObject(want) || !ok {
		x.fail(invalidParams("notifications must be an object that says what to listen to, with resourceSubscriptions as a list of at most %d URIs.", maxSubscribed))
		return nil
	}
	if member(want, "taskIds") != nil && !declaresTasks(p.meta) {
		x.fail(needsTasks())
		return nil
	}
	if s.calls.draining() {
		s.unavailable(x.w)
		return nil
	}
	if len(uris) > 0 { // however many they are, they count as one call
		if err := s.cfg.Gate.Admit(x.r.Context(), &x.who); err != nil {
			x.refuse(s.besideMessage(err))
			return nil
		}
	}
	v := s.views.hold(&x.who, s.cfg.Now())
	o := s.offersOf(x.r.Context(), v, &x.who)
	wants := o.can.announced()
	for k := range kinds {
		wants[k] = wants[k] && string(member(want, k.filter())) == "true"
	}
	st := newStream(v, wants, bytes.Clone(x.id))
	x.envelope = envelope{id: st.subscription, method: x.method}
	return func() {
		defer func() { s.views.release(v, s.cfg.Now()) }()
		ctx, done, ok := s.stand(x.r.Context(), x, st)
		if !ok {
			x.fail(&problem{code: codeInternal, text: fmt.Sprintf("This session has %d subscriptions/listen already; close one before you open another.", s.cfg.MaxSessions)})
			return
		}
		defer done()
		s.serveSubscription(ctx, x, st, o, uris)
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
// itself only when there is nothing to listen to, when nobody may listen any
// more, or with the gateway.
func (s *Server) serveSubscription(ctx context.Context, x *exchange, st *stream, o *offers, uris []string) {
	a := newReply(x.w)
	defer a.close()
	defer s.unwatchStream(st)
	honoured := s.watchFor(ctx, x, st, a, uris)
	if a.event(st.acknowledgement(honoured)) != nil {
		return
	}
	if len(honoured) > 0 || st.wants != [kinds]bool{} {
		st.view.join(st, s.versionsNow(ctx, st.view, &x.who, o))
		defer st.view.leave(st)
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

// subscribingAtOnce is how many of its resources a stream subscribes to at the
// same time.
const subscribingAtOnce = 8

// watchFor subscribes a stream of the stateless era to resources, as far as
// that is possible in time, and returns those for which it was.
func (s *Server) watchFor(ctx context.Context, x *exchange, st *stream, a *reply, uris []string) (honoured []string) {
	uris = unique(uris)
	ctx, cancel := context.WithTimeout(ctx, subscribeWithin)
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
				st.watch(&s.watches, sub)
			}
		case <-ctx.Done():
			s.cfg.Log.Info("subscriptions are not honoured: there is no time left for them", "session", x.who.ID, "count", left)
			go s.releaseLate(made, left)
			left = 1
		}
	}
	for _, uri := range uris {
		if st.watches(uri) {
			honoured = append(honoured, uri)
		}
	}
	return honoured
}

func unique(list []string) (out []string) {
	seen := map[string]bool{}
	for _, one := range list {
		if !seen[one] {
			seen[one] = true
			out = append(out, one)
		}
	}
	return out
}

// subscribeAll subscribes to resources, several at once. Of each comes the
// subscription, or nil.
func (s *Server) subscribeAll(ctx context.Context, x *exchange, uris []string) <-chan *subscription {
	made := make(chan *subscription, len(uris)) // so that nobody waits who is late
	todo := make(chan string, len(uris))
	for _, uri := range uris {
		todo <- uri
	}
	close(todo)
	who := &exchange{who: x.who, bearer: x.bearer} // all of x that may outlive it
	for range min(len(uris), subscribingAtOnce) {
		go func() {
			for uri := range todo {
				if ctx.Err() != nil {
					made <- nil
					continue
				}
				sub, err := s.subscribeTo(ctx, who, uri)
				if err != nil {
					s.cfg.Log.Info("a subscription is not honoured", "session", who.who.ID, "error", err)
				}
				made <- sub
			}
		}()
	}
	return made
}

// releaseLate ends those that were made after all.
func (s *Server) releaseLate(made <-chan *subscription, left int) {
	for range left {
		s.release(<-made)
	}
}
