package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"sallyport/action"
	"sallyport/internal/guide"
	"sallyport/mcpserver/wire"
)

// The built-in tools report on calls and on available tools, or request a grant. They
// make no calls, so they create no rows, do not count as calls and decide nothing.
// (actions_call is unwrapped before the tool is resolved.)
const (
	toolWait   = "invocation_wait"
	toolStatus = "invocation_status"
	toolGrant  = "grant_request"
)

// maxWait is the maximum of timeout_seconds.
const maxWait = 5 * time.Minute

// builtinFunc answers a call of a built-in tool.
type builtinFunc func(s *Server, ctx context.Context, c *caller)

// builtinTool is the definition of a built-in tool.
type builtinTool struct {
	name       string
	definition string
	run        builtinFunc
	// searchOnly tools are listed in search mode only.
	searchOnly bool
	// startsWork tools are not listed in completed sessions, and fail there.
	startsWork bool
}

// listed reports whether sessions in search mode, or completed ones, list the tool.
func (o *builtinTool) listed(search, done bool) bool {
	return (search || !o.searchOnly) && (!done || !o.startsWork)
}

// BuiltinTools returns the names of the built-in tools, which no action may have,
// whether or not they are offered.
func BuiltinTools() []string {
	var names []string
	for _, o := range builtinTools(true) {
		names = append(names, o.name)
	}
	return names
}

// Listed returns the names of the built-in tools that the session lists.
func (s *Server) Listed(who *action.Session) (names []string) {
	for _, o := range s.views.builtins {
		if o.listed(s.views.usesSearch(who), who.CompletedAt != nil) {
			names = append(names, o.name)
		}
	}
	return names
}

// builtinTools returns the built-in tools; without grants, those that do not request
// grants.
func builtinTools(grants bool) []builtinTool {
	tools := []builtinTool{
		{name: toolStatus, definition: statusDefinition, run: (*Server).statusTool},
		{name: toolWait, definition: waitDefinition, run: (*Server).waitTool},
		{name: toolGuide, definition: guideDefinition, run: (*Server).guideTool},
		{name: toolSearch, definition: searchDefinition, run: (*Server).searchTool, searchOnly: true},
		{name: toolDescribe, definition: describeDefinition, run: (*Server).describeTool, searchOnly: true},
		{name: toolCall, definition: callDefinition, run: (*Server).wrapperTool, searchOnly: true},
	}
	if grants {
		tools = append(tools, builtinTool{name: toolGrant, definition: grantDefinition, run: (*Server).grantTool, startsWork: true})
	}
	return tools
}

const waitDefinition = `{"name":"invocation_wait","title":"Wait for an invocation",` +
	`"description":"Waits for a call that returned PENDING, or whose result was lost, and returns its result unchanged once a person has decided and the call has ended. Use it instead of repeating the call. If the call is still pending, it returns PENDING again; call it again.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"invocation_id":{"type":"string","description":"The invocation_id of the PENDING result."},` +
	`"timeout_seconds":{"type":"integer","minimum":0,"maximum":300,"description":"Maximum time to wait. Default: 45, or 300 if the client accepts progress."}},` +
	`"required":["invocation_id"],"additionalProperties":false},` +
	`"annotations":{"title":"Wait for an invocation","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

const statusDefinition = `{"name":"invocation_status","title":"Status of an invocation",` +
	`"description":"Returns the current status of a call of this session: pending, approved, executing, completed, failed, denied or expired, and why. It does not return the call's result; invocation_wait does.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"invocation_id":{"type":"string","description":"The invocation_id of the call."}},` +
	`"required":["invocation_id"],"additionalProperties":false},` +
	`"annotations":{"title":"Status of an invocation","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

// wrapperTool answers a call of actions_call that was not unwrapped, which does not
// happen.
func (s *Server) wrapperTool(_ context.Context, c *caller) {
	_ = c.sendTo(c.reply, wire.InternalError().Response()) // a client that left needs no answer
}

// invocationNotFound is the result for an unknown id and for one of another session.
func invocationNotFound() wire.Response {
	return wire.ToolError("Invocation not found in this session. Check invocation_id.")
}

// waitTool waits like the original caller and returns the same result.
func (s *Server) waitTool(ctx context.Context, c *caller) {
	id, timeout, bad := waitArguments(c.arguments)
	if bad != "" {
		_ = c.sendTo(c.reply, wire.ToolError("Invalid params at %s", bad)) // a client that left needs no answer
		return
	}
	if timeout < 0 {
		timeout = s.cfg.PendingAfter
		if c.progress != nil {
			timeout = maxWait
		}
	}
	o, err := s.cfg.Gate.Wait(ctx, &c.who, id, s.waiting(c, min(timeout, maxWait)))
	s.finishCall(ctx, c, o, err, invocationNotFound)
}

// waitArguments parses the arguments; the timeout is negative if it is absent.
func waitArguments(raw []byte) (id string, timeout time.Duration, bad string) {
	id, bad = invocationArgument(raw)
	if bad != "" {
		return "", 0, bad
	}
	t := wire.Member(raw, "timeout_seconds")
	if t == nil || wire.IsNull(t) {
		return id, -1, ""
	}
	seconds, err := strconv.ParseFloat(string(t), 64)
	if err != nil || seconds < 0 || seconds > maxWait.Seconds() {
		return "", 0, "/timeout_seconds: it must be a number from 0 to 300."
	}
	return id, time.Duration(seconds * float64(time.Second)), ""
}

func invocationArgument(raw []byte) (id, bad string) {
	if id = textMember(raw, "invocation_id"); id == "" {
		return "", "/invocation_id: it must be the id of an invocation."
	}
	return id, ""
}

// statusTool returns the status of an invocation.
func (s *Server) statusTool(ctx context.Context, c *caller) {
	id, bad := invocationArgument(c.arguments)
	if bad != "" {
		_ = c.sendTo(c.reply, wire.ToolError("Invalid params at %s", bad)) // a client that left needs no answer
		return
	}
	inv, err := s.cfg.Gate.Status(ctx, &c.who, id)
	var m wire.Response
	switch {
	case err == nil:
		m = statusResult(&inv)
	case errors.Is(err, action.ErrNotFound):
		m = invocationNotFound()
	default:
		m = s.gateError(err, existingCallText)
	}
	_ = c.sendTo(c.reply, m) // a client that left needs no answer
}

// statusResult is what an agent may see of a call before its result.
func statusResult(inv *action.Invocation) wire.Response {
	status, _ := json.Marshal(struct { // strings and times always encode
		Status       action.Status   `json:"status"`
		Invocation   string          `json:"invocation_id"`
		Source       string          `json:"source"`
		Action       string          `json:"action"`
		CreatedAt    time.Time       `json:"created_at"`
		ExpiresAt    *time.Time      `json:"expires_at,omitempty"`
		CompletedAt  *time.Time      `json:"completed_at,omitempty"`
		ApprovalURL  string          `json:"approval_url,omitempty"`
		DeniedReason string          `json:"denied_reason,omitempty"`
		DeniedNote   string          `json:"denied_note,omitempty"`
		Error        *action.Failure `json:"error,omitempty"`
	}{
		inv.Status, inv.ID, sourceName(inv), inv.Action, inv.CreatedAt, inv.ExpiresAt, inv.CompletedAt,
		approvalURL(inv), inv.DeniedReason, inv.DeniedNote, inv.Error,
	})
	return wire.JSONResult(status)
}

const toolGuide = "actions_guide"

const guideDefinition = `{"name":"actions_guide","title":"Guide to the tools",` +
	`"description":"Explains the tools of this session: what each does, whether it needs a person's approval, its arguments as a table, an example, and how approvals behave. ` +
	`Without source it summarizes all services; with source it describes one in full. Read it before you use a service for the first time.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"source":{"type":"string","description":"ID or name of a service, from the guide without source."},` +
	`"action":{"type":"string","description":"Only this action, by its name or its tool name."},` +
	`"denied":{"type":"boolean","default":false,"description":"true: list what is denied instead, and why."},` +
	`"cursor":{"type":"string","description":"The next_cursor of the previous result, for the next page."}},` +
	`"additionalProperties":false},` +
	`"annotations":{"title":"Guide to the tools","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

// guideTool explains the session's tools.
func (s *Server) guideTool(_ context.Context, c *caller) {
	r := guide.Request{Source: textMember(c.arguments, "source"), Action: textMember(c.arguments, "action"), Cursor: textMember(c.arguments, "cursor")}
	build := s.buildGuide
	if string(wire.Member(c.arguments, "denied")) == "true" && s.cfg.Snapshot != nil {
		build = s.buildDenied
	}
	g, err := build(c.exchange, r)
	var m wire.Response
	var e *action.Error
	switch {
	case err == nil:
		content, _ := json.Marshal(struct { // strings always encode
			Source string `json:"source_id,omitempty"`
			Title  string `json:"title"`
			Next   string `json:"next_cursor,omitempty"`
		}{g.Source, g.Title, g.Next})
		m = wire.TextResult(g.Markdown, content)
	case errors.Is(err, action.ErrNotFound) && errors.As(err, &e):
		m = wire.ToolError("%s", e.Message)
	default:
		m = s.gateError(err, existingCallText)
	}
	_ = c.sendTo(c.reply, m) // a client that left needs no answer
}

// textMember returns a string member of an object; empty if it is absent or not a string.
func textMember(raw []byte, name string) string {
	if v := wire.Member(raw, name); wire.IsString(v) {
		return wire.DecodeString(v)
	}
	return ""
}
