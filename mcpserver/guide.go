package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/internal/guide"
)

const toolGuide = "actions_guide"

const guideDefinition = `{"name":"actions_guide","title":"Guide to the tools",` +
	`"description":"Explains the tools of this session: what each does, whether a call of it runs at once or waits for a person's approval, its arguments as a table, an example, and how approvals behave. ` +
	`Without source it covers all services in short; with source one of them in full. Read it before work with a service that you do not know yet.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"source":{"type":"string","description":"Id or name of a service, as the guide without source has it."},` +
	`"action":{"type":"string","description":"Only this action: its name or that of its tool."}},` +
	`"additionalProperties":false},` +
	`"annotations":{"title":"Guide to the tools","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

// guideTool explains the session's tools.
func (s *Server) guideTool(_ context.Context, c *caller) {
	g, err := s.guide(c.exchange, argument(c.arguments, "source"), argument(c.arguments, "action"))
	var m message
	var e *action.Error
	switch {
	case err == nil:
		m = guideResult(&g)
	case errors.Is(err, action.ErrNotFound) && errors.As(err, &e):
		m = failText("%s", e.Message)
	default:
		m = s.errorMessage(err, asItStands)
	}
	_ = c.answer(c.reply, m) // a client that left needs no answer
}

func guideResult(g *guide.Guide) message {
	content, _ := json.Marshal(struct { // strings always encode
		Source string `json:"source_id,omitempty"`
		Title  string `json:"title"`
	}{g.Source, g.Title})
	return saying(g.Markdown, content)
}

// argument returns a string of the arguments; empty when it is none.
func argument(raw []byte, name string) string {
	if v := member(raw, name); isString(v) {
		return decodeString(v)
	}
	return ""
}
