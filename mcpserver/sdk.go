package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	session, err := s.sdkServer(v).Connect(asking(context.Background(), x), t, &mcp.ServerSessionOptions{State: state})
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

// sdkServer returns the view's server. It has no tools but the marker: we
// serve tools/list and tools/call, and the SDK is needed to say that there are
// tools and when they changed.
func (s *Server) sdkServer(w *view) *mcp.Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server == nil {
		w.server = mcp.NewServer(
			&mcp.Implementation{Name: serverName, Title: "Sallyport", Version: s.cfg.Version},
			&mcp.ServerOptions{
				Instructions: s.instructions,
				Capabilities: s.offered(),
				SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
			})
		s.offerResources(w.server)
	}
	return w.server
}

// offered is what clients are told that there is. The capabilities of a session
// change without a word: a client that wants to know them reads them again.
func (s *Server) offered() *mcp.ServerCapabilities {
	c := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}
	if s.cfg.Snapshot != nil {
		c.Resources = &mcp.ResourceCapabilities{}
	}
	return c
}

const serverName = "sallyport"

// bump makes the SDK emit tools/list_changed. It does so when a tool is added,
// also again; there is no other way to ask for it.
func bump(s *mcp.Server) {
	s.AddTool(
		&mcp.Tool{Name: "sallyport-marker", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("not a tool")
		})
}

// forModern returns the exchange's request as the SDK's handler shall see it:
// with the body that was read already, the server of its view, who asks, and an
// Accept header that it takes.
func forModern(x *exchange, server *mcp.Server, body []byte) *http.Request {
	ctx := context.WithValue(asking(x.r.Context(), x), serverKey{}, server)
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
