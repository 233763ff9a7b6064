package mcpserver

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// This file is the front of the older era: what a session is asked beside
// tools/list and tools/call.

// converse has the SDK answer a message of a session.
func (s *Server) converse(x *exchange, body []byte) {
	l, ok := s.connectAgain(x)
	if !ok {
		return
	}
	defer l.close()
	l.ask(x.r, body).send(x.w)
}

// connectAgain makes a link for a session from its id, which was checked
// already. It returns false when it answered the request.
func (s *Server) connectAgain(x *exchange) (*link, bool) {
	who, ok := s.ids.read(x.r.Header.Get(sessionHeader), s.cfg.Now())
	if !ok { // it expired this moment
		plain(x.w, http.StatusNotFound, sessionGone)
		return nil, false
	}
	l, err := s.connect(x, x.mcp.view, who.state())
	if err != nil {
		s.cfg.Log.Error("connecting the MCP SDK", "error", err)
		x.fail(internalProblem())
		return nil, false
	}
	return l, true
}

// initialize lets the SDK agree on a session, and gives it its id.
func (s *Server) initialize(x *exchange, body []byte) {
	v := s.views.hold(&x.who, s.cfg.Now())
	defer func() { s.views.release(v, s.cfg.Now()) }()
	l, err := s.connect(x, v, nil)
	if err != nil {
		s.cfg.Log.Error("connecting the MCP SDK", "error", err)
		x.fail(internalProblem())
		return
	}
	defer l.close()
	h := l.ask(x.r, body)
	if version := agreed(h.message()); version != "" {
		h.header.Set(sessionHeader, s.openSession(x, l.session.InitializeParams(), version))
	}
	h.send(x.w)
}

// agreed is the protocol version of an answer to initialize; empty for any
// other answer.
func agreed(message []byte) string {
	if version := member(member(message, "result"), "protocolVersion"); isString(version) {
		return decodeString(version)
	}
	return ""
}

// openSession enters a new session and returns its id.
func (s *Server) openSession(x *exchange, p *mcp.InitializeParams, version string) (id string) {
	who := identity{issued: s.cfg.Now().Truncate(time.Second), principal: principalOf(&x.who), version: version}
	if p != nil {
		who.can = capabilitiesOf(p.Capabilities)
		if c := p.ClientInfo; c != nil {
			who.client, who.release = c.Name, c.Version
		}
	}
	id = s.ids.mint(&who)
	x.mcp = s.remember(x, nameOfSession(id), who.issued)
	return id
}

// openEvents opens the session's event stream. On it comes word of changed
// lists, from this instance: every instance looks for itself when it hears
// that something changed.
func (s *Server) openEvents(x *exchange) {
	if p := s.checkVersion(x.r.Header.Get(versionHeader)); p != nil {
		x.fail(p)
		return
	}
	if _, stream := accepts(x.r); !stream {
		plain(x.w, http.StatusNotAcceptable, "GET opens an event stream; Accept must list text/event-stream.")
		return
	}
	ctx, ok := x.mcp.openStream(x.r.Context())
	if !ok {
		plain(x.w, http.StatusConflict, "This MCP session has an event stream already.")
		return
	}
	defer x.mcp.closeStream()
	l, ok := s.connectAgain(x)
	if !ok {
		return
	}
	defer l.close()
	s.streamThrough(ctx, l.transport, x.w, x.r, s.greeting(ctx, x))
}

// reopened is how old a session is when an event stream of it, the first that
// is seen here, cannot be its first one any more.
const reopened = time.Minute

// greeting looks at the list, so that what changes from now on is news to the
// client, and returns what its event stream begins with: a client that was
// without a stream for some time may have missed a change, and is told of one.
func (s *Server) greeting(ctx context.Context, x *exchange) []byte {
	now := s.cfg.Now()
	list, err := x.mcp.view.current(ctx, s.cfg.Gate, &x.who, now)
	if err != nil {
		s.cfg.Log.Warn("listing tools for an event stream", "error", err)
		return nil
	}
	switch before := x.mcp.took(list.version); {
	case before == list.version, before == "" && now.Sub(x.mcp.issued) < reopened:
		return nil
	}
	return []byte("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{}}\n\n")
}
