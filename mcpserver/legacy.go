package mcpserver

import (
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// This file is the front of the older era: what the SDK answers.

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
	x.mcp = s.remember(x, nameOfSession(id), &who)
	return id
}
