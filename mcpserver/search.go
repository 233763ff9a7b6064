package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/internal/guide"
	"sallyport/internal/jsonlex"
	"sallyport/internal/rank"
	"sallyport/mcpserver/wire"
)

// In search mode a session lists the built-in tools only; all others are found,
// described and called through these three. They also work outside search mode, where
// they are not listed, so that a client can keep using them when the mode changes.
const (
	toolSearch   = "actions_search"
	toolDescribe = "actions_describe"
	toolCall     = "actions_call"
)

const (
	defaultHits = 8
	maxHits     = 50
	lineLimit   = 160 // characters of a description in a hit
)

const searchDefinition = `{"name":"actions_search","title":"Search the tools",` +
	`"description":"Finds tools by words. This session has more tools than its list shows: find them here, and call them with actions_call. ` +
	`Describe the task in a few words, such as \"create issue\" or \"post message channel\". An empty query lists all tools by name.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"query":{"type":"string","maxLength":1000,"description":"Words from the tool's purpose, service, name or arguments."},` +
	`"limit":{"type":"integer","minimum":1,"maximum":50,"default":8,"description":"Maximum number of tools."},` +
	`"cursor":{"type":"string","description":"The next_cursor of the previous result, for more tools with the same query."}},` +
	`"required":["query"],"additionalProperties":false},` +
	`"annotations":{"title":"Search the tools","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

const describeDefinition = `{"name":"actions_describe","title":"Describe a tool",` +
	`"description":"Returns the full definition of a tool that actions_search found, with the JSON Schema of its arguments. Read it before the first actions_call of a tool.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"tool":{"type":"string","description":"Name of the tool, from actions_search."}},` +
	`"required":["tool"],"additionalProperties":false},` +
	`"annotations":{"title":"Describe a tool","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`

const callDefinition = `{"name":"actions_call","title":"Call a tool",` +
	`"description":"Calls a tool that actions_search found, as if it were in the list: with the same checks, approvals and results. ` +
	`actions_describe returns its arguments.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"tool":{"type":"string","description":"Name of the tool, from actions_search."},` +
	`"arguments":{"type":"object","description":"The arguments of that tool.","additionalProperties":true},` +
	`"idempotency_key":{"type":"string","maxLength":255,"description":"A repeat with the same key is the same call: it returns the first result and runs nothing."},` +
	`"task":{"type":"string","description":"The task that you believe this session works on. The call is refused if the session has another one."}},` +
	`"required":["tool"],"additionalProperties":false},` +
	`"annotations":{"title":"Call a tool","readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}}`

// hit is a search result.
type hit struct {
	Tool     string      `json:"tool"`
	Source   string      `json:"source"`
	About    string      `json:"about"`
	Mode     action.Mode `json:"mode"`
	Required []string    `json:"required"`
}

// searchTool finds tools by words.
func (s *Server) searchTool(ctx context.Context, c *caller) {
	query, from, limit, bad := searchArguments(c.arguments)
	if bad != "" {
		_ = c.sendTo(c.reply, wire.ToolError("Invalid params at %s", bad)) // a client that left needs no answer
		return
	}
	now := s.cfg.Now()
	list, err := s.views.of(&c.who, now).current(ctx, s.cfg.Gate, &c.who, now)
	if err != nil {
		_ = c.sendTo(c.reply, s.gateError(err, existingCallText)) // as above
		return
	}
	denied, err := s.cfg.Gate.Denied(ctx, &c.who)
	if err != nil {
		_ = c.sendTo(c.reply, s.gateError(err, existingCallText)) // as above
		return
	}
	_ = c.sendTo(c.reply, list.searchResult(query, from, limit, denied, s.outages(&c.who))) // as above
}

// outages returns the sources of the session that cannot be reached.
func (s *Server) outages(who *action.Session) []action.Outage {
	if s.cfg.Outages == nil {
		return nil
	}
	return s.cfg.Outages(who.Organization)
}

// searchArguments parses the arguments; from is the number of hits on earlier pages.
func searchArguments(raw []byte) (query string, from, limit int, bad string) {
	q := wire.Member(raw, "query")
	if q != nil && !wire.IsNull(q) {
		if !wire.IsString(q) || len(q) > 4000 {
			return "", 0, 0, "/query: it must be a string of at most 1000 characters."
		}
		query = wire.DecodeString(q)
	}
	limit = defaultHits
	if n := wire.Member(raw, "limit"); n != nil && !wire.IsNull(n) {
		var err error
		if limit, err = strconv.Atoi(string(n)); err != nil || limit < 1 {
			return "", 0, 0, "/limit: it must be a whole number from 1 to 50."
		}
	}
	if cursor := wire.Member(raw, "cursor"); cursor != nil && !wire.IsNull(cursor) {
		seen, ok := "", wire.IsString(cursor)
		if ok {
			seen, ok = action.ParseCursor(wire.DecodeString(cursor))
		}
		var err error
		if from, err = strconv.Atoi(seen); !ok || err != nil || from < 0 {
			return "", 0, 0, "/cursor: it must be the next_cursor of a search, or be left out."
		}
	}
	return query, from, min(limit, maxHits), ""
}

// searchResult is the response to a search: the hits after the first from.
func (t *toolset) searchResult(query string, from, limit int, denied []action.DeniedTools, outages []action.Outage) wire.Response {
	from = min(from, len(t.searched))
	best, total := t.index().Search(query, from+limit)
	best = best[min(from, len(best)):]
	next := ""
	if seen := from + len(best); seen < total {
		next = action.CursorAfter(strconv.Itoa(seen))
	}
	hits := make([]hit, 0, len(best))
	message := fmt.Sprintf("%d of %d matching tools, best first. actions_describe returns the arguments of a tool; actions_call calls it.", len(best), total)
	switch {
	case total == 0 && len(t.searched) == 0:
		message = "This session has only the gateway's own tools."
	case total == 0:
		message = "No tool matches these words. Try other words, or an empty query to list all tools."
	case next != "":
		message += fmt.Sprintf(" For more, repeat the search with cursor %q.", next)
	}
	var text strings.Builder
	text.WriteString(message + "\n")
	for _, i := range best {
		h := t.hits[i]
		hits = append(hits, h)
		fmt.Fprintf(&text, "- %s (%s; %s): %s", h.Tool, h.Source, guide.Mode(h.Mode), guide.Sentence(cmp.Or(h.About, "no description")))
		if len(h.Required) > 0 {
			text.WriteString(" Needs " + strings.Join(h.Required, ", ") + ".")
		}
		text.WriteByte('\n')
	}
	if t.truncated {
		const note = "Some descriptions are too long to be searched in full; every tool can be found by its name."
		text.WriteString(note)
		message += " " + note
	}
	if note := guide.Denied(denied); note != "" {
		text.WriteString("\n" + note)
		message += " " + note
	}
	if len(outages) > 0 {
		note := "Unreachable, so their tools may be missing; tell the user if the task needs one of them:\n" + strings.TrimSpace(guide.OutageText(outages))
		text.WriteString("\n" + note)
		message += "\n" + note
	}
	content, _ := json.Marshal(struct { // strings, numbers and times always encode
		Message     string               `json:"message"` // the text, except for the tools
		Tools       []hit                `json:"tools"`
		Total       int                  `json:"total"`
		Next        string               `json:"next_cursor,omitempty"`
		Denied      []action.DeniedTools `json:"denied,omitempty"`
		Unreachable []action.Outage      `json:"unreachable,omitempty"`
	}{message, hits, total, next, denied, outages})
	return wire.TextResult(strings.TrimSpace(text.String()), content)
}

func newHit(a *action.Available, params []guide.Param) hit {
	h := hit{Tool: a.Tool, Source: guide.Line(a.SourceName, 60), Mode: a.Decision.Mode, Required: []string{}}
	h.About = guide.Line(cmp.Or(a.Description, a.Title), lineLimit)
	for _, p := range params {
		if p.Required && len(h.Required) < 20 && !strings.Contains(p.Name, ".") {
			h.Required = append(h.Required, guide.Line(p.Name, 60))
		}
	}
	return h
}

// Limits of the schema bytes that are indexed, of one tool and of all. Schemas come from
// servers and can be of any size.
const (
	searchedSchema  = 128 << 10
	searchedSchemas = 64 << 20
)

// index returns the search index, which is built on first use: most lists are never
// searched.
func (t *toolset) index() *rank.Index {
	t.indexed.Do(func() {
		names := make([]string, len(t.searched))
		texts := make([][]rank.Field, len(t.searched))
		t.hits = make([]hit, len(t.searched))
		for i := range t.searched {
			a := &t.searched[i]
			names[i] = a.Tool
			fields := []rank.Field{{Text: a.Tool, Weight: 4}, {Text: a.Name, Weight: 2}, {Text: a.SourceName, Weight: 3}, {Text: a.Title, Weight: 3}, {Text: a.Description, Weight: 2}}
			params, cut := guide.Params(a.InputSchema, max(searchedSchema, searchedSchemas/len(t.searched)))
			for _, p := range params {
				fields = append(fields, rank.Field{Text: p.Name, Weight: 1}, rank.Field{Text: p.About, Weight: 0.5})
			}
			texts[i], t.hits[i] = fields, newHit(a, params)
			t.truncated = t.truncated || cut
		}
		t.ranks = rank.New(names, texts)
		t.truncated = t.truncated || t.ranks.Truncated() > 0
	})
	return t.ranks
}

// describeTool returns the definition of a tool.
func (s *Server) describeTool(ctx context.Context, c *caller) {
	m, err := s.described(ctx, c)
	if err != nil {
		m = s.gateError(err, existingCallText)
	}
	_ = c.sendTo(c.reply, m) // a client that left needs no answer
}

func (s *Server) described(ctx context.Context, c *caller) (wire.Response, error) {
	name := textMember(c.arguments, "tool")
	if name == "" {
		return wire.ToolError("Invalid params at /tool: it must be the name of a tool; actions_search finds them."), nil
	}
	now := s.cfg.Now()
	list, err := s.views.of(&c.who, now).current(ctx, s.cfg.Gate, &c.who, now)
	if err != nil {
		return wire.Response{}, err
	}
	if d := list.definitions[name]; d != nil {
		return describedMessage(list, name, d), nil
	}
	_, _, err = s.cfg.Resolver.Resolve(ctx, &c.who, name)
	switch {
	case err == nil:
		return wire.ToolError("Policy denies calls of %s in this session, so its definition is not shown. Do without it, or tell the user that an admin can change the policy.", wire.Truncate(name, 64)), nil
	case errors.Is(err, action.ErrNotFound):
		return wire.ToolError("%s", toolNotFound(name, list.suggestions(name)).Message), nil
	}
	return wire.Response{}, err
}

// describedMessage returns a definition as its source wrote it.
func describedMessage(list *toolset, name string, definition []byte) wire.Response {
	text := name + " is a tool of the gateway itself. Call it by its name."
	about := []byte(`{"tool":`)
	about = jsonlex.Quote(about, name)
	if one, ok := list.tools[name]; ok && one.builtin == nil {
		a := &list.all[one.index]
		text = fmt.Sprintf("%s is a tool of %s. A call %s. Its definition, as written by %s, follows; call it with actions_call.",
			name, guide.Line(a.SourceName, 60), guide.Mode(a.Decision.Mode), guide.Line(a.SourceName, 60))
		about = jsonlex.Quote(append(about, `,"source":`...), a.SourceName)
		about = jsonlex.Quote(append(about, `,"mode":`...), string(a.Decision.Mode))
		about = jsonlex.Quote(append(about, `,"risk":`...), string(a.Risk))
	}
	return wire.DefinitionResult(text, append(about, '}'), definition)
}

// unwrap replaces the params of actions_call by those of the call that it contains.
// From there on it is that call: the same row, pending state, digest and result
// bytes. It returns the response that rejects invalid arguments.
func unwrap(who *action.Session, p *params) (bad *wire.Response) {
	if p.name != toolCall {
		return nil
	}
	outer, ok := p.object()
	if !ok {
		return argumentsNotObject(p.arguments)
	}
	p.name, p.hasName, p.arguments, p.wrapped = "", false, nil, true
	seen := map[string]bool{}
	for m := (wire.Members{Text: outer}); m.Next(); {
		name := string(m.Key)
		if seen[name] {
			return toolErrorResponse("Invalid params at /" + wire.Truncate(name, 64) + ": it is given twice.")
		}
		seen[name] = true
		if wire.IsNull(m.Value) {
			continue // some models send null for absent arguments
		}
		if bad := p.setWrapped(who, name, m.Value); bad != nil {
			return bad
		}
	}
	switch p.name {
	case "":
		return toolErrorResponse("Invalid params at /tool: it must be the name of a tool; actions_search finds them.")
	case toolCall:
		return toolErrorResponse("Invalid params at /tool: actions_call does not call itself; name the tool that you want.")
	}
	return nil
}

// setWrapped sets one argument of actions_call.
func (p *params) setWrapped(who *action.Session, name string, value []byte) (bad *wire.Response) {
	if name == "arguments" {
		p.arguments = value
		return nil
	}
	switch name {
	case "tool", "idempotency_key", "task":
		if !wire.IsString(value) {
			return toolErrorResponse("Invalid params at /" + name + ": it must be a string, but it is " + jsonlex.Kind(value) + ".")
		}
	}
	switch text := value; name {
	case "tool":
		p.name = wire.DecodeString(text)
		p.hasName = p.name != ""
	case "idempotency_key":
		p.idempotencyKey = text
	case "task":
		if task := wire.DecodeString(text); task != who.Task {
			own := "no task"
			if who.Task != "" {
				own = "the task " + who.Task
			}
			return toolErrorResponse("Invalid params at /task: this session works on " + own +
				", which was fixed when it was minted. Nothing was executed. Leave task out, or use a session of that task.")
		}
	default:
		return toolErrorResponse("Invalid params at /" + wire.Truncate(name, 64) + ": actions_call has no such argument. It takes tool, arguments, idempotency_key and task; what the tool needs goes into arguments.")
	}
	return nil
}

// argumentsNotObject rejects arguments that are not an object.
func argumentsNotObject(raw []byte) *wire.Response {
	return toolErrorResponse("Invalid params: arguments must be a JSON object, but " + jsonlex.NoObject(raw) + ".")
}
