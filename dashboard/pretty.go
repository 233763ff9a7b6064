package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// pretty lays JSON out for a person: every digit as it was written, strings
// with what would hide in them spelled out, nothing cut.
func pretty(raw []byte) []Segment { return prettyMasked(raw, nil, nil) }

// prettyMasked is pretty with the values that differ in the redacted form left
// out: length and keyed hash stand for each.
func prettyMasked(raw, redacted []byte, hash func([]byte) string) []Segment {
	root, ok := parseJSON(raw)
	if !ok {
		return append([]Segment{{classEscape, "not JSON", "It is shown as it is."}, {Text: " "}}, visible(string(raw))...)
	}
	p := &printer{hash: hash}
	p.class = classString
	if mask, ok := parseJSON(redacted); ok {
		p.value(root, mask, 0)
	} else {
		p.value(root, nil, 0)
	}
	return p.segments()
}

// node is a JSON value: its bytes, and what it is made of.
type node struct {
	raw  []byte // of a scalar
	open byte   // { or [; zero for a scalar
	keys [][]byte
	kids []*node
}

func parseJSON(raw []byte) (*node, bool) {
	if !json.Valid(raw) { // which also bounds the depth
		return nil, false
	}
	n, _ := parseNode(raw, space(raw, 0))
	return n, true
}

// parseNode reads the value at i of valid JSON, and returns where it ends.
func parseNode(raw []byte, i int) (*node, int) {
	switch raw[i] {
	case '{', '[':
		return parseNest(raw, i)
	case '"':
		end := stringEnd(raw, i)
		return &node{raw: raw[i:end]}, end
	}
	end := i
	for end < len(raw) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(raw[end])) {
		end++
	}
	return &node{raw: raw[i:end]}, end
}

func parseNest(raw []byte, i int) (*node, int) {
	n := &node{open: raw[i]}
	for i = space(raw, i+1); raw[i] != '}' && raw[i] != ']'; i = space(raw, i) {
		if raw[i] == ',' {
			i = space(raw, i+1)
		}
		if n.open == '{' {
			end := stringEnd(raw, i)
			n.keys = append(n.keys, raw[i:end])
			i = space(raw, space(raw, end)+1) // over the colon
		}
		var kid *node
		kid, i = parseNode(raw, i)
		n.kids = append(n.kids, kid)
	}
	return n, i + 1
}

func stringEnd(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func space(raw []byte, i int) int {
	for i < len(raw) && strings.IndexByte(" \t\r\n", raw[i]) >= 0 {
		i++
	}
	return i
}

// child returns the part of a redacted value at the place of kid i of n; nil
// when it has none.
func (n *node) child(mask *node, i int) *node {
	if mask == nil || mask.open != n.open {
		return nil
	}
	if n.open == '[' {
		if len(mask.kids) != len(n.kids) {
			return nil
		}
		return mask.kids[i]
	}
	for j, key := range mask.keys {
		if bytes.Equal(key, n.keys[i]) {
			return mask.kids[j]
		}
	}
	return nil
}

// printer writes nodes.
type printer struct {
	writer
	hash func([]byte) string // nil: nothing is masked
}

func (p *printer) punct(text string) { p.add(classPunct, text, "") }

func (p *printer) indent(depth int) { p.add("", "\n"+strings.Repeat("  ", min(depth, 40)), "") }

func (p *printer) value(n, mask *node, depth int) {
	if p.hash != nil && (mask == nil || mask.open != n.open || (n.open == 0 && !bytes.Equal(n.raw, mask.raw))) {
		p.masked(n)
		return
	}
	switch {
	case n.open != 0 && len(n.kids) == 0:
		p.punct(string(n.open) + string(closing(n.open)))
	case n.open != 0:
		p.nest(n, mask, depth)
	case n.raw[0] == '"':
		p.str(n.raw, depth)
	case n.raw[0] == 't' || n.raw[0] == 'f' || n.raw[0] == 'n':
		p.add(classWord, string(n.raw), "")
	default:
		p.add(classNumber, string(n.raw), "")
	}
}

func closing(open byte) byte {
	if open == '{' {
		return '}'
	}
	return ']'
}

func (p *printer) nest(n, mask *node, depth int) {
	p.punct(string(n.open))
	for i, kid := range n.kids {
		p.indent(depth + 1)
		if n.open == '{' {
			p.class = classKey
			p.str(n.keys[i], depth+1)
			p.flush()
			p.class = classString
			p.punct(":")
			p.add("", " ", "")
		}
		p.value(kid, n.child(mask, i), depth+1)
		if i < len(n.kids)-1 {
			p.punct(",")
		}
	}
	p.indent(depth)
	p.punct(string(closing(n.open)))
}

// masked stands for a value that is not shown: how long it is, and a hash that
// tells whether it is the same as elsewhere.
func (p *printer) masked(n *node) {
	plain := n.bytes()
	var s string
	if n.open == 0 && json.Unmarshal(plain, &s) == nil && plain[0] == '"' {
		plain = []byte(s)
	}
	sum := p.hash(plain)
	p.add(classMasked, fmt.Sprintf("redacted · %d bytes · #%s", len(plain), sum[:min(12, len(sum))]), "The value is not shown here; the same hash is the same value.")
}

// bytes writes a value without spaces.
func (n *node) bytes() []byte {
	if n.open == 0 {
		return n.raw
	}
	out := []byte{n.open}
	for i, kid := range n.kids {
		if i > 0 {
			out = append(out, ',')
		}
		if n.open == '{' {
			out = append(append(out, n.keys[i]...), ':')
		}
		out = append(out, kid.bytes()...)
	}
	return append(out, closing(n.open))
}

// str writes a string from its JSON form. What needs no escape is shown
// decoded; a line break is spelled out and then made, so that long texts read
// well and no line of them can pass for JSON of its own.
func (p *printer) str(raw []byte, depth int) {
	p.plain.WriteByte('"')
	body := raw[1 : len(raw)-1]
	for i := 0; i < len(body); {
		if body[i] == '\\' {
			i += p.escaped(body[i:], depth, i+2 < len(body))
			continue
		}
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size == 1 {
			p.escape(fmt.Sprintf(`\x%02x`, body[i]))
		} else {
			p.rune(r)
		}
		i += size
	}
	p.plain.WriteByte('"')
	p.flush()
}

// escaped writes the escape at the start of body and returns its length.
func (p *printer) escaped(body []byte, depth int, more bool) int {
	switch body[1] {
	case '"', '\\':
		p.plain.Write(body[:2])
	case '/':
		p.plain.WriteByte('/')
	case 'n':
		p.escape(`\n`)
		if more {
			p.add(classWrap, "\n"+strings.Repeat("  ", min(depth, 40))+"┊ ", "The string goes on.")
		}
	case 'u':
		return p.unicode(body)
	default:
		p.escape(string(body[:2]))
	}
	return 2
}

// unicode writes a \uXXXX, or a pair of them.
func (p *printer) unicode(body []byte) int {
	r, size := rune(hex4(body[2:6])), 6
	if utf16.IsSurrogate(r) {
		if len(body) >= 12 && body[6] == '\\' && body[7] == 'u' {
			if pair := utf16.DecodeRune(r, rune(hex4(body[8:12]))); pair != utf8.RuneError {
				r, size = pair, 12
			}
		}
	}
	switch {
	case utf16.IsSurrogate(r) || hidden(r):
		p.escape(strings.ToLower(string(body[:size])))
	case r == '"' || r == '\\':
		p.plain.WriteByte('\\')
		p.plain.WriteRune(r)
	default:
		p.plain.WriteRune(r)
	}
	return size
}

func hex4(digits []byte) uint64 {
	n, _ := strconv.ParseUint(string(digits), 16, 16) // valid JSON has four
	return n
}
