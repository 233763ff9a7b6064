package mcpserver

import (
	"context"
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
	st := newStream(v, o.can.announced(), nil)
	ctx, ok := x.mcp.openStream(x.r.Context(), st)
	if !ok {
		plain(x.w, http.StatusConflict, "This MCP session has an event stream already.")
		return
	}
	defer v.leave(st)
	defer x.mcp.closeStream()
	ctx, done, _ := s.stand(ctx, x, st) // of these there is one a session
	defer done()
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
