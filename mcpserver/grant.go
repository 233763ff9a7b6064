package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

const grantDefinition = `{"name":"grant_request","title":"Request a standing approval",` +
	`"description":"Asks a person to let several similar calls run without an approval for each (a grant). ` +
	`Use it when you are about to make many calls of one tool that waits for approval, for example to update twenty tickets. ` +
	`Ask for little: pin the arguments that stay the same, say how many calls and for how long; a narrow request is approved sooner. ` +
	`Do not use it for one or two calls, for a tool that runs at once, or for one that is denied: a grant lifts no denial. ` +
	`It grants nothing by itself. A person decides in the dashboard, when it suits them. Do not wait for that and do not ask again: ` +
	`go on calling the tool as usual; each call waits for its own approval until the grant is there.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"tool":{"type":"string","description":"The name of the tool, as it is listed. Give this or any."},` +
	`"any":{"type":"boolean","description":"true: every tool, but for dangerous ones. A person will rarely agree; name a tool where you can."},` +
	`"source":{"type":"string","description":"With any: only the tools of this service, by its name or id."},` +
	`"scope":{"type":"string","enum":["session","organization"],"default":"session","description":"Whose calls: only those of this session, or those of every session of the organization."},` +
	`"max_calls":{"type":"integer","minimum":1,"maximum":1000000,"description":"How many calls. Default: as many as you like, which is rarely approved."},` +
	`"expires_in_seconds":{"type":"integer","minimum":60,"maximum":2592000,"description":"For how long. Default: for good."},` +
	`"pins":{"type":"object","description":"Arguments that every call must have, exactly: JSON Pointer to value, such as {\"/channel\": \"C042\"}."},` +
	`"reason":{"type":"string","maxLength":2000,"description":"What you are about to do and why, in a sentence or two. The person reads it."}},` +
	`"additionalProperties":false},` +
	`"annotations":{"title":"Request a standing approval","readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

// grantTool writes down that the agent wants a grant.
func (s *Server) grantTool(ctx context.Context, c *caller) {
	request, err := s.requestGrant(ctx, c)
	var m message
	switch {
	case err == nil:
		m = requestedMessage(&request, s.cfg.Now())
	case errors.Is(err, action.ErrNotFound):
		m = failText("The tool is gone; list the tools again to see what there is.")
	default:
		m = s.errorMessage(err, asItStands)
	}
	_ = c.answer(c.reply, m) // a client that left needs no answer
}

func (s *Server) requestGrant(ctx context.Context, c *caller) (action.GrantRequest, error) {
	w, err := parseWish(c.arguments)
	if err != nil {
		return action.GrantRequest{}, err
	}
	now := s.cfg.Now()
	if err := c.who.Working(now); err != nil { // whose list lacks what it may ask for
		return action.GrantRequest{}, err
	}
	list, err := s.views.of(&c.who, now).current(ctx, s.cfg.Gate, &c.who, now)
	if err != nil {
		return action.GrantRequest{}, err
	}
	terms, err := s.terms(ctx, c, w, list)
	if err != nil {
		return action.GrantRequest{}, err
	}
	request, err := s.cfg.RequestGrant(ctx, &c.who, terms, w.reason)
	return request, byArgument(err)
}

// terms returns the wish in the words of policy. What a person need not be
// asked is refused here: his attention is short.
func (s *Server) terms(ctx context.Context, c *caller, w *wish, list *toolset) (t action.Terms, err error) {
	t = action.Terms{Scope: w.scope, Any: w.any, Pins: w.pins, MaxCalls: w.maxCalls}
	if w.lasts > 0 {
		expires := s.cfg.Now().Add(w.lasts)
		t.ExpiresAt = &expires
	}
	if w.any {
		t.Source, err = list.source(w.source)
		return t, err
	}
	wanted, ok := list.tools[w.tool]
	switch {
	case !ok:
		return t, s.unlisted(ctx, c, w.tool, list)
	case wanted.own != nil, wanted.mode == action.ModeAllow:
		return t, badArgument("tool", "%s runs without a person's approval as it is, so there is nothing to grant. Just call it.", w.tool)
	}
	t.Source, t.Action = wanted.source, wanted.action
	return t, nil
}

// unlisted says why no grant can be asked for a tool that the session's list
// does not show.
func (s *Server) unlisted(ctx context.Context, c *caller, name string, list *toolset) error {
	_, _, err := s.cfg.Resolver.Resolve(ctx, &c.who, name)
	switch {
	case err == nil:
		return badArgument("tool", "Calls of %s are denied, and a grant lifts no denial: it only saves the wait for a person. Do without it, or tell the user that an admin can change the policy.", cut(name, 64))
	case errors.Is(err, action.ErrNotFound):
		return badArgument("tool", "There is no tool %q.%s", cut(name, 64), list.nearest(name))
	}
	return err
}

// source returns the id of a source that has tools in the list, by its id or
// by what people call it; an empty one is every source.
func (t *toolset) source(name string) (id string, err error) {
	if _, ok := t.sources[name]; ok || name == "" {
		return name, nil
	}
	for candidate, called := range t.sources {
		if called != name {
			continue
		}
		if id != "" {
			return "", badArgument("source", "Several services are called %q; name the tool instead.", cut(name, 64))
		}
		id = candidate
	}
	if id == "" {
		return "", badArgument("source", "None of your tools is of a service %q. Name the tool instead, or leave source out.", cut(name, 64))
	}
	return id, nil
}

// byArgument has an error point at the tool's argument instead of the member
// of the terms that was made of it.
func byArgument(err error) error {
	var e *action.Error
	if !errors.As(err, &e) {
		return err
	}
	argument, ok := map[string]string{"/action": "/tool", "/source_id": "/source", "/expires_at": "/expires_in_seconds"}[e.Field]
	if !ok {
		return err
	}
	own := *e
	own.Field = argument
	return &own
}

// requestedMessage says what was written down, and above all that nothing came
// of it yet.
func requestedMessage(r *action.GrantRequest, now time.Time) message {
	t := &r.Terms
	text := fmt.Sprintf("Request %s is written down. Nothing is granted yet: a person decides on it in the dashboard, or it expires in %s. "+
		"Do not wait for that and do not ask again. Go on calling the tool as usual: each call waits for its own approval until the grant is there, and after that they run at once.",
		r.ID, remaining(r.ExpiresAt, now))
	content, _ := json.Marshal(struct { // what was stored always encodes
		Request        string                     `json:"request_id"`
		Status         action.RequestStatus       `json:"status"`
		ExpiresAt      time.Time                  `json:"expires_at"`
		Scope          action.GrantScope          `json:"scope"`
		Source         string                     `json:"source_id,omitempty"`
		Action         string                     `json:"action,omitempty"`
		Any            bool                       `json:"any,omitempty"`
		Pins           map[string]json.RawMessage `json:"pins,omitempty"`
		MaxCalls       *int64                     `json:"max_calls,omitempty"`
		GrantExpiresAt *time.Time                 `json:"grant_expires_at,omitempty"`
		Message        string                     `json:"message"`
	}{r.ID, r.Status, r.ExpiresAt, t.Scope, t.Source, t.Action, t.Any, t.Pins, t.MaxCalls, t.ExpiresAt, text})
	b := jsonlex.Quote([]byte(`{"content":[{"type":"text","text":`), text)
	b = append(append(b, `}],"structuredContent":`...), content...)
	return message{result: append(b, '}')}
}

func badArgument(name, format string, args ...any) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid_grant", Field: "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), Message: fmt.Sprintf(format, args...)}
}
