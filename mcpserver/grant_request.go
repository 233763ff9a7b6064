package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
	"sallyport/mcpserver/wire"
)

const grantDefinition = `{"name":"grant_request","title":"Request a standing approval",` +
	`"description":"Requests a grant, with which several similar calls run without an approval for each. ` +
	`Use it before you make many calls of one tool that needs approval, for example to update twenty tickets. ` +
	`Keep it narrow: pin the arguments that stay the same, and limit calls and time; a narrow request is approved sooner. ` +
	`Do not use it for one or two calls, for a tool that needs no approval, or for a denied one: a grant does not lift a denial. ` +
	`It grants nothing by itself: a person decides later, in the dashboard. Do not wait for that and do not request it again: ` +
	`continue to call the tool as usual; until there is a grant, each call needs its own approval.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"tool":{"type":"string","description":"Name of the tool, as listed. Pass this or any."},` +
	`"any":{"type":"boolean","description":"true: every tool that is not dangerous. This is rarely approved; name a tool if you can."},` +
	`"source":{"type":"string","description":"With any: only the tools of this service, by its name or ID."},` +
	`"scope":{"type":"string","enum":["session","organization"],"default":"session","description":"Calls that the grant covers: those of this session, or of every session of the organization."},` +
	`"max_calls":{"type":"integer","minimum":1,"maximum":1000000,"description":"Maximum number of calls. Default: unlimited, which is rarely approved."},` +
	`"expires_in_seconds":{"type":"integer","minimum":60,"maximum":2592000,"description":"Lifetime of the grant. Default: no expiry."},` +
	`"pins":{"type":"object","description":"Values that arguments must have in every call, by JSON Pointer, such as {\"/channel\": \"C042\"}."},` +
	`"reason":{"type":"string","maxLength":2000,"description":"What you are about to do and why, in a sentence or two, for the person who decides."}},` +
	`"additionalProperties":false},` +
	`"annotations":{"title":"Request a standing approval","readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

// grantTool stores a request for a grant.
func (s *Server) grantTool(ctx context.Context, c *caller) {
	request, err := s.requestGrant(ctx, c)
	var m wire.Response
	switch {
	case err == nil:
		m = grantRequestResult(&request, s.cfg.Now())
	case errors.Is(err, action.ErrNotFound):
		m = wire.ToolError("The tool no longer exists; list the tools again.")
	default:
		m = s.gateError(err, existingCallText)
	}
	_ = c.sendTo(c.reply, m) // a client that left needs no answer
}

func (s *Server) requestGrant(ctx context.Context, c *caller) (action.GrantRequest, error) {
	w, err := parseGrantArguments(c.arguments)
	if err != nil {
		return action.GrantRequest{}, err
	}
	now := s.cfg.Now()
	if err := c.who.Working(now); err != nil { // a completed session does not list the tools
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
	return request, withArgumentField(err)
}

// terms converts the arguments to terms of a grant. It rejects requests that need no
// person's decision.
func (s *Server) terms(ctx context.Context, c *caller, w *grantArguments, list *toolset) (t action.Terms, err error) {
	t = action.Terms{Scope: w.scope, Any: w.any, Pins: w.pins, MaxCalls: w.maxCalls}
	if w.duration > 0 {
		expires := s.cfg.Now().Add(w.duration)
		t.ExpiresAt = &expires
	}
	if w.any {
		t.Source, err = list.source(w.source)
		return t, err
	}
	wanted, ok := list.tools[w.tool]
	switch {
	case !ok:
		return t, s.unlistedToolError(ctx, c, w.tool, list)
	case wanted.builtin != nil, wanted.mode == action.ModeAllow:
		return t, badArgument("tool", "%s already runs without approval, so there is nothing to grant. Call it.", w.tool)
	}
	t.Source, t.Action = wanted.source, wanted.action
	return t, nil
}

// unlistedToolError explains why no grant can be requested for a tool that the
// session does not list.
func (s *Server) unlistedToolError(ctx context.Context, c *caller, name string, list *toolset) error {
	_, _, err := s.cfg.Resolver.Resolve(ctx, &c.who, name)
	switch {
	case err == nil:
		return badArgument("tool", "Calls of %s are denied, and a grant lifts no denial: it only saves the wait for a person. Do without it, or tell the user that an admin can change the policy.", wire.Truncate(name, 64))
	case errors.Is(err, action.ErrNotFound):
		return badArgument("tool", "Unknown tool %q.%s", wire.Truncate(name, 64), list.suggestions(name))
	}
	return err
}

// source returns the id of a source with tools in the list, by id or display name;
// empty for every source.
func (t *toolset) source(name string) (id string, err error) {
	if _, ok := t.sources[name]; ok || name == "" {
		return name, nil
	}
	for candidate, called := range t.sources {
		if called != name {
			continue
		}
		if id != "" {
			return "", badArgument("source", "Several services are called %q; name the tool instead.", wire.Truncate(name, 64))
		}
		id = candidate
	}
	if id == "" {
		return "", badArgument("source", "You have no tools of a service %q. Name the tool instead, or leave source out.", wire.Truncate(name, 64))
	}
	return id, nil
}

// withArgumentField replaces the field of the terms in an error by the tool's
// argument.
func withArgumentField(err error) error {
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

// grantRequestResult reports that the request was stored and that nothing was
// granted yet.
func grantRequestResult(r *action.GrantRequest, now time.Time) wire.Response {
	t := &r.Terms
	text := fmt.Sprintf("Request %s was recorded. Nothing is granted yet: a person decides in the dashboard, or the request expires in %s. "+
		"Do not wait for the decision and do not ask again. Keep calling the tool as usual: each call waits for its own approval until the grant exists; then calls run at once.",
		r.ID, remaining(r.ExpiresAt, now))
	content, _ := json.Marshal(struct { // stored values always encode
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
	}{r.ID, r.Status, r.ExpiresAt, t.Scope, t.Source, t.Action, t.Any, t.Pins, t.MaxCalls, t.ExpiresAt})
	return wire.TextResult(text, content)
}

func badArgument(name, format string, args ...any) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid_grant", Field: "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), Message: fmt.Sprintf(format, args...)}
}

// Limits of a request, which a person has to read.
const (
	maxReason        = 2000 // characters
	maxPins          = 20
	maxPinBytes      = 8 << 10 // of all pins together
	maxGrantCalls    = 1_000_000
	minGrantDuration = time.Minute
	maxGrantDuration = 30 * 24 * time.Hour
)

// grantArguments are the arguments of grant_request.
type grantArguments struct {
	tool, source string
	any          bool
	scope        action.GrantScope
	maxCalls     *int64
	duration     time.Duration // zero: no expiry
	pins         map[string]json.RawMessage
	reason       string
}

// parseGrantArguments parses the arguments. Unlike other tools it rejects unknown
// ones: a misspelt limit would be no limit.
func parseGrantArguments(raw []byte) (*grantArguments, error) {
	w := &grantArguments{scope: action.ScopeSession}
	seen := map[string]bool{}
	m := wire.Members{Text: raw}
	for m.Next() {
		name := string(m.Key)
		if seen[name] {
			return nil, badArgument(name, "It is given twice.")
		}
		seen[name] = true
		if wire.IsNull(m.Value) {
			continue // some models send null for absent arguments
		}
		if err := w.set(name, m.Value); err != nil {
			return nil, err
		}
	}
	return w, w.validate()
}

// validate rejects arguments that name no tool, or both a tool and any.
func (w *grantArguments) validate() error {
	switch {
	case w.any && w.tool != "":
		return badArgument("any", "Give tool or any, not both.")
	case !w.any && w.tool == "":
		return badArgument("tool", "Name the tool, as it is listed; or say any: true for all that are not dangerous.")
	case !w.any && w.source != "":
		return badArgument("source", "source is valid only together with any.")
	}
	return nil
}

func (w *grantArguments) set(name string, value []byte) (err error) {
	switch name {
	case "tool":
		w.tool, err = grantText(name, value)
	case "source":
		w.source, err = grantText(name, value)
	case "any":
		if w.any = string(value) == "true"; !w.any && string(value) != "false" {
			return badArgument(name, "It must be true or false.")
		}
	case "scope":
		text, _ := grantText(name, value)
		if w.scope = action.GrantScope(text); !w.scope.Valid() {
			return badArgument(name, "It must be session or organization.")
		}
	case "max_calls":
		var n int64
		n, err = grantNumber(name, value, 1, maxGrantCalls)
		w.maxCalls = &n
	case "expires_in_seconds":
		var n int64
		n, err = grantNumber(name, value, int64(minGrantDuration.Seconds()), int64(maxGrantDuration.Seconds()))
		w.duration = time.Duration(n) * time.Second
	case "pins":
		w.pins, err = grantPins(value)
	case "reason":
		w.reason, err = grantReason(value)
	default:
		return badArgument(wire.Truncate(name, 64), "Unknown argument. Valid arguments: tool, any, source, scope, max_calls, expires_in_seconds, pins, reason.")
	}
	return err
}

func grantText(name string, value []byte) (string, error) {
	if !wire.IsString(value) {
		return "", badArgument(name, "It must be a string.")
	}
	return wire.DecodeString(value), nil
}

func grantNumber(name string, value []byte, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < least || n > most {
		return 0, badArgument(name, "It must be a whole number from %d to %d.", least, most)
	}
	return n, nil
}

func grantPins(value []byte) (map[string]json.RawMessage, error) {
	if !wire.IsObject(value) {
		return nil, badArgument("pins", `It must be an object of JSON Pointers and values, such as {"/channel": "C042"}.`)
	}
	if len(value) > maxPinBytes {
		return nil, badArgument("pins", "The pins have %d bytes, which is too much to review; at most %d are allowed.", len(value), maxPinBytes)
	}
	pins := map[string]json.RawMessage{}
	m := wire.Members{Text: value}
	for m.Next() {
		pointer := string(m.Key)
		if _, ok := pins[pointer]; ok {
			return nil, badArgument("pins", "The pointer %q is given twice.", wire.Truncate(pointer, 64))
		}
		pins[pointer] = m.Value
	}
	if len(pins) > maxPins {
		return nil, badArgument("pins", "There are %d pins; at most %d are allowed.", len(pins), maxPins)
	}
	return pins, nil
}

func grantReason(value []byte) (string, error) {
	text, err := grantText("reason", value)
	if err != nil {
		return "", err
	}
	if utf8.RuneCountInString(text) > maxReason {
		return "", badArgument("reason", "It must have at most %d characters.", maxReason)
	}
	odd := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, odd) {
		return "", badArgument("reason", "It must be plain text.")
	}
	return text, nil
}
