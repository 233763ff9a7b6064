package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// The members that tell of a cut, and around a value that is no object.
const (
	truncated = `{"_truncated":true`
	wrapped   = truncated + `,"value":`
)

// maxPruned is how deep what is kept of a cut value may be nested.
const maxPruned = 64

// Prune returns raw as valid JSON of at most limit bytes. What fits is
// returned as it is, what fits without its white space is returned without.
// Otherwise the object gets a member "_truncated": true, a value that is no
// object is put into one as "value", and as much of it is kept as there is
// room for: small values whole, long strings shortened, arrays from their
// beginning. Redact first: half a secret is not recognized any more.
//
// Under 19 bytes not even the member has room; what comes back then is the
// shortest value that fits.
func (JSON) Prune(raw json.RawMessage, limit int) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if err := jsonlex.Document(raw); err != nil {
		raw = unreadable(len(raw))
	}
	if len(raw) <= limit {
		return raw
	}
	p := pruner{doc: compact(raw)}
	if len(p.doc) <= limit {
		return p.doc
	}
	p.note(0, 0)
	return p.top(limit)
}

// compact returns valid JSON without white space between its pieces.
func compact(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := jsonlex.Space(raw, 0); i < len(raw); i = jsonlex.Space(raw, i) {
		end := i + 1
		switch raw[i] {
		case '{', '}', '[', ']', ',', ':':
		default:
			end = jsonlex.Skip(raw, i)
		}
		out = append(out, raw[i:end]...)
		i = end
	}
	return out
}

// pruner cuts one compact document.
type pruner struct {
	doc []byte
	// long holds where long values begin and end, by their beginning, so
	// that a long value deep inside is not walked once for every level.
	long []span
	out  []byte
}

// longValue is the length from which a value is noted.
const longValue = 1024

// note walks the value at doc[i] and notes the long ones. Nothing deeper than
// maxPruned is asked for later.
func (p *pruner) note(i, depth int) int {
	at := len(p.long)
	p.long = append(p.long, span{start: i})
	var end int
	if c := p.doc[i]; c != '{' && c != '[' || depth == maxPruned {
		end = jsonlex.Skip(p.doc, i)
	} else {
		for end = i + 1; p.doc[end] != '}' && p.doc[end] != ']'; {
			switch p.doc[end] {
			case ',', ':':
				end++
			default:
				end = p.note(end, depth+1)
			}
		}
		end++
	}
	if end-i < longValue {
		p.long = p.long[:at] // and nothing in it is long
	} else {
		p.long[at].end = end
	}
	return end
}

// end returns the end of the value at doc[i].
func (p *pruner) end(i int) int {
	if at, ok := slices.BinarySearchFunc(p.long, i, func(s span, i int) int { return s.start - i }); ok {
		return p.long[at].end
	}
	return jsonlex.Skip(p.doc, i)
}

// top writes the document into limit bytes.
func (p *pruner) top(limit int) []byte {
	switch {
	case limit < 1:
		return nil
	case limit == 1:
		return []byte("0")
	case limit < len(truncated)+1:
		return []byte("{}")
	}
	p.out = append(make([]byte, 0, limit), truncated...)
	whole := span{0, len(p.doc)}
	if p.doc[0] == '{' {
		p.out = p.out[:0]
		p.list(whole, limit, 0, truncated)
		return p.out
	}
	if room := limit - len(wrapped) - 1; room >= 2 {
		p.out = append(p.out[:0], wrapped...)
		if p.value(whole, room, 1) {
			return append(p.out, '}')
		}
	}
	return append(p.out[:0], truncated+"}"...)
}

// value writes the value into room bytes, cut if it must be, or reports that
// nothing of it has room.
func (p *pruner) value(s span, room, depth int) bool {
	switch c := p.doc[s.start]; {
	case s.end-s.start <= room:
		p.out = append(p.out, p.doc[s.start:s.end]...)
		return true
	case c == '"':
		return p.text(s, room)
	case (c == '{' || c == '[') && room >= 2:
		p.list(s, room, depth, "")
		return true
	}
	return false
}

// ellipsis ends a string that was cut.
const ellipsis = "…"

// text writes the beginning of a string.
func (p *pruner) text(s span, room int) bool {
	room -= 2 + len(ellipsis)
	if room < 1 {
		return false
	}
	content := p.doc[s.start+1 : s.end-1]
	p.out = append(p.out, '"')
	p.out = append(p.out, content[:cut(content, room)]...)
	p.out = append(p.out, ellipsis...)
	p.out = append(p.out, '"')
	return true
}

// cut returns the length of the longest beginning of a string's content that
// has at most n bytes and splits neither a character nor an escape.
func cut(content []byte, n int) int {
	for i := 0; i < len(content); {
		next := i + step(content[i:])
		if next > n {
			return i
		}
		i = next
	}
	return len(content)
}

// step returns the length of the character or escape at the beginning.
func step(content []byte) int {
	switch {
	case content[0] != '\\':
		_, n := utf8.DecodeRune(content)
		return n
	case content[1] != 'u':
		return 2
	case len(content) >= 12 && bytes.EqualFold(content[2:3], []byte("d")) && content[6] == '\\' && content[7] == 'u':
		return 12 // as a rule a surrogate pair; to keep two together harms nothing
	}
	return 6
}
