package mcpserver

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverKey carries the view's server to the SDK's handler, which asks for it
// with nothing but the request in hand.
type serverKey struct{}

func serverOf(r *http.Request) *mcp.Server {
	s, _ := r.Context().Value(serverKey{}).(*mcp.Server)
	return s
}

// newModern returns the SDK's handler of the stateless era. JSONResponse costs
// nothing here, because no tool runs inside it, and lets clients in that take
// no event streams.
func newModern(maxBody int64) http.Handler {
	return mcp.NewStreamableHTTPHandler(serverOf, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		JSONResponse:                 true,
		DisableLocalhostProtection:   true, // edge checks the Host header
		MaxRequestBodyBytes:          maxBody,
		PropagateRequestCancellation: true,
	})
}

// link is the SDK's side of a session of the older era. Nothing of it has to
// last: one is made for each request that needs the SDK, from what the
// session's id says, and an idle session has none.
type link struct {
	transport *mcp.StreamableServerTransport
	session   *mcp.ServerSession
}

// connect makes a link for an exchange; state is nil for a client that has not
// said anything yet. The caller must close it.
func (s *Server) connect(x *exchange, v *view, state *mcp.ServerSessionState) (*link, error) {
	t := &mcp.StreamableServerTransport{} // the id is not for the SDK, which would log it
	session, err := s.sdkServer(x, v).Connect(context.Background(), t, &mcp.ServerSessionOptions{State: state})
	if err != nil {
		return nil, err
	}
	return &link{transport: t, session: session}, nil
}

func (l *link) close() { _ = l.session.Close() } // nothing was left in it

// ask gives the SDK one message, and returns its answer.
func (l *link) ask(r *http.Request, body []byte) *heard {
	h := &heard{header: http.Header{}}
	l.transport.ServeHTTP(h, withBody(r, body))
	return h
}

// sdkServer returns the view's server, which says what there is now to those who
// ask for that. It has none of it itself: lists, calls and event streams are
// ours.
func (s *Server) sdkServer(x *exchange, w *view) *mcp.Server {
	asked := x.method == "initialize" || x.method == "server/discover"
	var now offered
	var says string
	if asked {
		now = s.offersOf(x.r.Context(), w, &x.who).can
		now.tasks = x.modern
		says = s.instructionsOf(x, w)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server == nil || asked && (w.serves != now || w.says != says) {
		w.serves, w.says = now, says
		w.server = mcp.NewServer(
			&mcp.Implementation{Name: serverName, Title: "Sallyport", Version: s.cfg.Version},
			&mcp.ServerOptions{
				Instructions: says,
				Capabilities: now.forSDK(),
				SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
			})
	}
	return w.server
}

// instructionsOf are those of the sessions of a view, by its list as it is now.
func (s *Server) instructionsOf(x *exchange, w *view) string {
	ctx, cancel := context.WithTimeout(x.r.Context(), listWithin)
	defer cancel()
	list, err := w.current(ctx, s.cfg.Gate, &x.who, s.cfg.Now())
	if err != nil {
		s.cfg.Log.Warn("looking at the tools for the instructions", "session", x.who.ID, "error", err)
	}
	return s.instructions(w.key.search, list)
}

const serverName = "sallyport"

// forModern returns the exchange's request as the SDK's handler shall see it:
// with the body that was read already, the server of its view, and an Accept
// header that it takes.
func forModern(x *exchange, server *mcp.Server, body []byte) *http.Request {
	ctx := context.WithValue(x.r.Context(), serverKey{}, server)
	out := withBody(x.r.Clone(ctx), body)
	out.Header.Set("Accept", "application/json, text/event-stream")
	return out
}

// withBody returns the request with the body that was read from it.
func withBody(r *http.Request, body []byte) *http.Request {
	out := r.WithContext(r.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.ContentLength = int64(len(body))
	return out
}
