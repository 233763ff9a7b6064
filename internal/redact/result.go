package redact

import (
	"bytes"

	"sallyport/internal/jsonlex"
)

// toolResult is the part of a CallToolResult that a summary shows.
type toolResult struct {
	text       []byte // the first text, with its quotes; nil if there is none
	structured []byte // nil if there is none
	items      []byte // the content
	failed     bool
}

// readResult parses a CallToolResult. An object with unknown members is not
// one, so that none of them is omitted.
func readResult(value []byte) (r toolResult, ok bool) {
	if value[0] != '{' {
		return r, false
	}
	r.items = []byte("[]")
	for name, member := range eachChild(value) {
		switch string(name) {
		case `"content"`:
			if ok = member[0] == '['; !ok {
				return r, false
			}
			r.items = member
			r.text = firstText(member)
		case `"structuredContent"`:
			ok, r.structured = true, member
		case `"isError"`:
			r.failed = string(member) == "true"
		case `"_meta"`, `"resultType"`:
		default:
			return r, false
		}
	}
	return r, ok
}

// firstText returns the text of the first item that has one.
func firstText(content []byte) []byte {
	for _, item := range eachChild(content) {
		if item[0] != '{' {
			continue
		}
		for name, member := range eachChild(item) {
			if string(name) == `"text"` && member[0] == '"' && len(member) > 2 {
				return member
			}
		}
	}
	return nil
}

// resultLine returns the summary of a CallToolResult.
func (s *lineWriter) resultLine(r toolResult) string {
	head, tail := "", ""
	if r.failed {
		head = "error: "
	}
	several := countItems(r.items, "content item")
	shown := r.structured
	if r.text != nil {
		if shown = unquoted(r.text); !looksNested(shown) || jsonlex.Document(shown) != nil {
			shown = r.text
		}
		if several != "1 content item" {
			tail = ", " + several
		}
	}
	if shown == nil {
		return string(clip([]byte(head+several), s.limit))
	}
	room := max(s.limit-len(head)-len(tail), len(ellipsis))
	line := clip(s.line(bytes.TrimSpace(shown), room), room)
	return string(clip([]byte(head+string(line)+tail), s.limit))
}
