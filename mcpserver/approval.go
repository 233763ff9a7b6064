package mcpserver

import (
	"net/url"
	"strconv"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// A client that opens pages for its user is asked to open the one where a held
// call is decided: by a request on the event stream of the call in the older era,
// by an input_required result in the stateless one, and once for a call, however
// many join it. Whatever it replies decides nothing and withdraws nothing. It is
// the page that knows people, and the row that has their decision.

// approvalKey names the question in the stateless era, and begins its id in the
// older one. No source's question has such a name: theirs have the id of a round.
const approvalKey = questionPrefix + "approval"

// shows reports whether the caller's client is asked to open pages. Nobody sits
// with an unattended one, and a task says where its page is.
func (c *caller) shows() bool {
	return c.can.Has(action.ClientElicitsURL) && !c.tasks && c.who.Kind != action.Unattended
}

// pageOf is where a person decides, if that is a page of ours.
func (s *Server) pageOf(inv *action.Invocation) string {
	page, err := url.Parse(linkOf(inv))
	if err != nil || page.Host == "" || page.Scheme != "https" && page.Scheme != "http" {
		return ""
	}
	if home, err := url.Parse(s.cfg.PublicURL); s.cfg.PublicURL != "" && (err != nil || home.Scheme != page.Scheme || home.Host != page.Host) {
		return ""
	}
	return page.String()
}

// appendOpening appends the method and params that ask to open a page. The words
// are ours; names that others chose are quoted. The id is of the older era.
func appendOpening(b []byte, inv *action.Invocation, page, id string) []byte {
	b = append(b, `"method":"elicitation/create","params":{"mode":"url"`...)
	if id != "" {
		b = jsonlex.Quote(append(b, `,"elicitationId":`...), id)
	}
	b = jsonlex.Quote(append(b, `,"url":`...), page)
	b = jsonlex.Quote(append(b, `,"message":`...),
		"An agent wants to run "+quoted(inv.Action)+" of "+quoted(source(inv))+", which a person has to approve. "+
			"Open Sallyport's page to see what it would do, and approve or deny it there. Your answer here decides nothing.")
	return append(b, '}')
}

// quoted shows a name that somebody else chose, without what could pass for more
// than a name.
func quoted(name string) string { return strconv.Quote(cut(name, 80)) }

// opens asks a client of the older era to open the page of its call.
func (s *Server) opens(c *caller, inv *action.Invocation) {
	page := s.pageOf(inv)
	if page == "" {
		return
	}
	c.shown = inv.ID
	b := jsonlex.Quote([]byte(`{"jsonrpc":"2.0","id":`), approvalKey+"/"+inv.ID)
	b = appendOpening(append(b, ','), inv, page, inv.ID)
	c.heard(c.reply.event(append(b, '}')))
}

// decided tells a client of the older era that its user need not have the page
// open any more, once somebody decided or nobody can.
func (c *caller) decided(inv *action.Invocation) {
	if c.shown == "" || inv.Status == action.StatusPending {
		return
	}
	b := jsonlex.Quote([]byte(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`), c.shown)
	c.shown = ""
	c.heard(c.reply.event(append(b, `}}`...)))
}

// askToOpen asks a client of the stateless era, as the result of its call, when
// there is a page of ours to open. One that could not be told is gone: whoever
// lost it repeats the call, and waits.
func (s *Server) askToOpen(c *caller, inv *action.Invocation) (answered, told bool) {
	page := s.pageOf(inv)
	if page == "" {
		return false, false
	}
	a := &asked{
		Principal: principalBytes(c), Call: callDigest(c.method, c.name, c.arguments),
		Invocation: inv.ID, Keys: []string{approvalKey}, Until: s.cfg.Now().Add(stateLife).Unix(),
	}
	if inv.ExpiresAt != nil {
		a.Until = inv.ExpiresAt.Add(stateLife).Unix()
	}
	state, ok := s.states.seal(a)
	if !ok {
		return false, false
	}
	b := jsonlex.Quote([]byte(`{"resultType":"input_required","inputRequests":{`), approvalKey)
	b = appendOpening(append(b, `:{`...), inv, page, "")
	b = jsonlex.Quote(append(b, `}},"requestState":`...), state)
	err := c.answer(c.reply, message{result: append(b, '}')})
	c.heard(err)
	return true, err == nil
}
