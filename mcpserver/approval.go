package mcpserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// A client with URL elicitation is asked to open the approval page of a pending call:
// by a request on the event stream of the call, or by an input_required result in the
// stateless protocol; once per call. Its reply decides nothing: people decide on the
// page, where they are authenticated.

// approvalKey is the key of the question, and the prefix of its id in sessions. It
// cannot clash with questions of sources, whose ids contain the id of a round.
const approvalKey = questionPrefix + "approval"

// approvalPage returns the URL of the approval page if it is a page of this gateway.
func (s *Server) approvalPage(inv *action.Invocation) string {
	page, err := url.Parse(approvalURL(inv))
	if err != nil || page.Host == "" || page.Scheme != "https" && page.Scheme != "http" {
		return ""
	}
	if home, err := url.Parse(s.cfg.PublicURL); s.cfg.PublicURL != "" && (err != nil || home.Scheme != page.Scheme || home.Host != page.Host) {
		return ""
	}
	return page.String()
}

// appendPageElicitation appends the method and params that ask to open a page. Names
// that others chose are quoted. The id is for sessions only.
func appendPageElicitation(b []byte, inv *action.Invocation, page, id string) []byte {
	b = append(b, `"method":"elicitation/create","params":{"mode":"url"`...)
	if id != "" {
		b = jsonlex.Quote(append(b, `,"elicitationId":`...), id)
	}
	b = jsonlex.Quote(append(b, `,"url":`...), page)
	b = jsonlex.Quote(append(b, `,"message":`...),
		"An agent wants to run "+quoted(inv.Action)+" of "+quoted(sourceName(inv))+", which needs a person's approval. "+
			"Open the Sallyport page to review it and to approve or deny it there. Your answer here does not decide anything.")
	return append(b, '}')
}

// quoted quotes a name from outside, so that it cannot be read as part of the
// sentence.
func quoted(name string) string { return strconv.Quote(wire.Truncate(name, 80)) }

// askToOpenPage asks a client with a session to open the approval page of its call.
func (s *Server) askToOpenPage(c *caller, inv *action.Invocation) {
	page := s.approvalPage(inv)
	if page == "" {
		return
	}
	c.openedPage = inv.ID
	b := jsonlex.Quote([]byte(`{"jsonrpc":"2.0","id":`), approvalKey+"/"+inv.ID)
	b = appendPageElicitation(append(b, ','), inv, page, inv.ID)
	c.onWriteError(c.reply.Event(append(b, '}')))
}

// completeElicitation tells a client with a session that the page is no longer
// needed, once the call was decided or expired.
func (c *caller) completeElicitation(inv *action.Invocation) {
	if c.openedPage == "" || inv.Status == action.StatusPending {
		return
	}
	b := jsonlex.Quote([]byte(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`), c.openedPage)
	c.openedPage = ""
	c.onWriteError(c.reply.Event(append(b, `}}`...)))
}

// askToOpenPageStateless asks a stateless client, as the result of its call. A
// client that did not get it repeats the call and waits.
func (s *Server) askToOpenPageStateless(c *caller, inv *action.Invocation) (answered, told bool) {
	page := s.approvalPage(inv)
	if page == "" {
		return false, false
	}
	a := &token.RequestState{
		Principal: principalBytes(c), Call: token.CallDigest(c.Method, c.name, c.arguments),
		Invocation: inv.ID, Keys: []string{approvalKey}, Until: s.cfg.Now().Add(token.RequestStateGrace).Unix(),
	}
	if inv.ExpiresAt != nil {
		a.Until = inv.ExpiresAt.Add(token.RequestStateGrace).Unix()
	}
	state, ok := s.requestStates.Seal(a)
	if !ok {
		return false, false
	}
	b := jsonlex.Quote([]byte(`{"resultType":"input_required","inputRequests":{`), approvalKey)
	b = appendPageElicitation(append(b, `:{`...), inv, page, "")
	b = jsonlex.Quote(append(b, `}},"requestState":`...), state)
	err := c.sendTo(c.reply, wire.Response{Result: append(b, '}')})
	c.onWriteError(err)
	return true, err == nil
}

// pendingNotice is the result of a call that is still pending: where to approve it
// and how to get the result. For a tool with an output schema it is an error without
// structured content, because strict clients drop results that do not match the
// schema.
func pendingNotice(inv *action.Invocation, lead string, strict bool, now time.Time) wire.Response {
	said := lead + pendingText(inv, now)
	if strict {
		return wire.ToolError("%s", said)
	}
	m := wire.TextResult(said, pendingContent(inv))
	m.Text = said
	return m
}

func pendingText(inv *action.Invocation, now time.Time) string {
	lead := pendingLead(inv, now)
	if !isTool(inv) {
		return fmt.Sprintf("%s Repeat the same request later: it is joined, and not asked for again. Or call the tool %s with invocation_id %q.", lead, toolWait, inv.ID)
	}
	return fmt.Sprintf("%s Do not repeat the call. Call %s with invocation_id %q to get its result.", lead, toolWait, inv.ID)
}

// pendingLead describes the state of a pending call and where to approve it.
func pendingLead(inv *action.Invocation, now time.Time) string {
	what := "PENDING: " + callName(inv) + " needs a person's approval; nothing has run."
	switch inv.Status {
	case action.StatusApproved:
		what = "APPROVED: " + callName(inv) + " is about to run."
	case action.StatusExecuting:
		what = "RUNNING: " + callName(inv) + " is being executed."
	}
	link := ""
	if url := approvalURL(inv); url != "" {
		link = " A person approves it at " + url + " (tell the user)."
	}
	if inv.Status == action.StatusPending && inv.ExpiresAt != nil {
		link += " It expires in " + remaining(*inv.ExpiresAt, now) + "."
	}
	return what + link
}

func pendingContent(inv *action.Invocation) []byte {
	expires := inv.ExpiresAt
	if inv.Status != action.StatusPending {
		expires = nil
	}
	b, _ := json.Marshal(struct { // strings and a time always encode
		Status      action.Status `json:"status"`
		Invocation  string        `json:"invocation_id"`
		ApprovalURL string        `json:"approval_url,omitempty"`
		ExpiresAt   *time.Time    `json:"expires_at,omitempty"`
	}{inv.Status, inv.ID, approvalURL(inv), expires})
	return b
}

// approvalURL is where a person decides, while the call is pending.
func approvalURL(inv *action.Invocation) string {
	if inv.Status == action.StatusPending {
		return inv.ApprovalURL
	}
	return ""
}

// remaining returns the time until t in a short form.
func remaining(t, now time.Time) string {
	d := t.Sub(now).Round(time.Second)
	switch {
	case d <= 0:
		return "0s"
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
