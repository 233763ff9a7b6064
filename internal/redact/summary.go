package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"sallyport/internal/canonical"
	"sallyport/internal/jsonlex"
)

// At returns the value at a JSON Pointer of canonical JSON, or nil. See
// [canonical.At].
func (JSON) At(doc []byte, pointer string) json.RawMessage { return canonical.At(doc, pointer) }

// Summary returns redacted JSON as one line for people, of at most limit
// bytes. An object is its members in their order,
//
//	title="Fix login", team="ENG", labels=[3 items], options={2 fields}
//
// and a CallToolResult is its first text, or else its structured content,
// marked when it is an error. Texts are in quotes, shortened so that every
// member has a share of the line; what does not print, line breaks and
// characters that turn the direction of a text among it, is escaped. "…"
// stands for what has no room.
func (j JSON) Summary(redacted json.RawMessage, limit int) string {
	if len(redacted) == 0 || limit < len(ellipsis) {
		return ""
	}
	if jsonlex.Document(redacted) != nil {
		redacted = unreadable(len(redacted))
	}
	s := lineWriter{mark: j.mark, limit: limit}
	value := bytes.TrimSpace(redacted)
	if r, ok := readResult(value); ok {
		return s.resultLine(r)
	}
	return string(clip(s.line(value, limit), limit))
}

// lineWriter writes one line.
type lineWriter struct {
	mark  func(dst, secret []byte) []byte
	limit int
}

// line returns the summary of a value, in about room bytes.
func (s *lineWriter) line(value []byte, room int) []byte {
	if value[0] != '{' || isEmpty(value) {
		return s.short(nil, value, room)
	}
	out := make([]byte, 0, min(room, len(value))+len(ellipsis))
	share := waterLevel(lineEntries(value, room), room)
	for name, member := range jsonlex.Children(value) {
		if len(out) > s.limit {
			break
		}
		if len(out) > 0 {
			out = append(out, ", "...)
		}
		out = s.member(out, name, member, max(share, fairShare))
	}
	return out
}

// lineEntries returns the members of an object that may fit, with their size in
// the line.
func lineEntries(object []byte, room int) (all []entry) {
	for name, value := range jsonlex.Children(object) {
		size := len(value)
		if value[0] == '{' || value[0] == '[' {
			size = len("[10 items]")
		}
		all = append(all, entry{value: span{0, size}, overhead: len(name) + len("=, ") - len(`""`)})
		if len(all) > room {
			break
		}
	}
	return all
}

// maxShownName limits how much of a name is shown.
const maxShownName = 40

// member appends name=value. A name and a text that are a secret only together,
// such as sig=0123, are redacted together.
func (s *lineWriter) member(out, quotedName, value []byte, room int) []byte {
	name := clip(unquoted(quotedName), maxShownName)
	head := len(name) + 1
	if value[0] == '"' {
		pair := append(append(bytes.Clone(name), '='), clip(unquoted(value), room-len(`""`))...)
		if spans := secretsIn(pair, nil, true, new(*scratchBuffers)); len(spans) > 0 {
			return strconv.AppendQuote(out, string(replace(pair, spans, s.mark)))
		}
		return appendText(append(appendName(out, name), '='), pair[head:])
	}
	return s.short(append(appendName(out, name), '='), value, room)
}

// short appends a value; containers as a count.
func (s *lineWriter) short(out, value []byte, room int) []byte {
	switch {
	case value[0] == '"':
		return appendText(out, clip(unquoted(value), room-len(`""`)))
	case value[0] != '{' && value[0] != '[':
		return append(out, clip(value, room)...)
	case isEmpty(value):
		return append(out, value[0], value[0]+2)
	case value[0] == '[':
		return fmt.Appendf(out, "[%s]", countItems(value, "item"))
	}
	return fmt.Appendf(out, "{%s}", countItems(value, "field"))
}

func appendName(out, name []byte) []byte {
	if len(name) > 0 && run(name, 0, nameSet) == len(name) {
		return append(out, name...)
	}
	return strconv.AppendQuote(out, string(name))
}

func appendText(out, text []byte) []byte {
	if isMark(text) {
		return append(out, text...)
	}
	return strconv.AppendQuote(out, string(text))
}

func countItems(list []byte, what string) string {
	n := 0
	for range jsonlex.Children(list) {
		n++
	}
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// clip cuts text to at most limit bytes, at a character boundary.
func clip(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return append(bytes.Clone(text[:end]), ellipsis...)
}

// unquoted returns the decoded content of a string, which may be part of it: do not
// change it.
func unquoted(quoted []byte) []byte {
	content := quoted[1 : len(quoted)-1 : len(quoted)-1]
	if bytes.IndexByte(content, '\\') < 0 && utf8.Valid(content) {
		return content
	}
	text, _ := jsonlex.Unquote(make([]byte, 0, len(content)), content)
	return text
}

func isEmpty(list []byte) bool { return jsonlex.Space(list, 1) == len(list)-1 }

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
	for name, member := range jsonlex.Children(value) {
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
	for _, item := range jsonlex.Children(content) {
		if item[0] != '{' {
			continue
		}
		for name, member := range jsonlex.Children(item) {
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
	if len(head)+len(tail) == 0 {
		return string(line)
	}
	return string(clip([]byte(head+string(line)+tail), s.limit))
}
