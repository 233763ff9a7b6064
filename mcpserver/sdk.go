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

// serverKey carries the view's server to the SDK's handlers, which ask for it
// with nothing but the request in hand.
type serverKey struct{}

func serverOf(r *http.Request) *mcp.Server {
	s, _ := r.Context().Value(serverKey{}).(*mcp.Server)
	return s
}

// newHandlers returns the SDK's two handlers: one cannot serve both eras with
// all that belongs to each. JSONResponse costs nothing here, because no tool
// runs inside them, and lets clients in that take no event streams.
func newHandlers(maxBody int64) (legacy, modern http.Handler) {
	options := mcp.StreamableHTTPOptions{
		JSONResponse:               true,
		DisableLocalhostProtection: true, // edge checks the Host header
		MaxRequestBodyBytes:        maxBody,
	}
	legacy = mcp.NewStreamableHTTPHandler(serverOf, &options)
	options.Stateless = true
	options.PropagateRequestCancellation = true
	return legacy, mcp.NewStreamableHTTPHandler(serverOf, &options)
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
				Instructions: instructions,
				Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
				SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
			})
	}
	return w.server
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

// forSDK returns the request as the SDK shall see it: with the body that was
// read already, the server of its view, and an Accept header that the SDK
// takes.
func forSDK(ctx context.Context, r *http.Request, server *mcp.Server, body []byte) *http.Request {
	out := r.Clone(context.WithValue(ctx, serverKey{}, server))
	if r.Method == http.MethodPost {
		out.Body = io.NopCloser(bytes.NewReader(body))
		out.ContentLength = int64(len(body))
	}
	out.Header.Set("Accept", "application/json, text/event-stream")
	return out
}
