package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON formats JSON for people: numbers keep every digit, hidden characters are
// spelled out, nothing is shortened.
func JSON(raw []byte) []Segment { return MaskedJSON(raw, nil, nil) }

// MaskedJSON formats raw, with the redacted form of the values that differ in
// it. Redaction marks show the length and keyed hash of a value. Where the
// redacted form has no mark for a value, hash computes one.
func MaskedJSON(raw, redacted []byte, hash func([]byte) string) []Segment {
	root, ok := parseJSON(raw)
	if !ok {
		return append([]Segment{{classEscape, "not JSON", "Shown unformatted."}, {Text: " "}}, Escape(string(raw))...)
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

// node is a parsed JSON value.
type node struct {
	raw      []byte // of a scalar
	open     byte   // { or [; zero for a scalar
	keys     [][]byte
	children []*node
}

func parseJSON(raw []byte) (*node, bool) {
	if !json.Valid(raw) { // this also bounds the depth
		return nil, false
	}
	n, _ := parseNode(raw, skipSpace(raw, 0))
	return n, true
}

// parseNode parses the value at i of valid JSON and returns where it ends.
func parseNode(raw []byte, i int) (*node, int) {
	switch raw[i] {
	case '{', '[':
		return parseContainer(raw, i)
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

func parseContainer(raw []byte, i int) (*node, int) {
	n := &node{open: raw[i]}
	for i = skipSpace(raw, i+1); raw[i] != '}' && raw[i] != ']'; i = skipSpace(raw, i) {
		if raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
		if n.open == '{' {
			end := stringEnd(raw, i)
			n.keys = append(n.keys, raw[i:end])
			i = skipSpace(raw, skipSpace(raw, end)+1) // skip the colon
		}
		var kid *node
		kid, i = parseNode(raw, i)
		n.children = append(n.children, kid)
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

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && strings.IndexByte(" \t\r\n", raw[i]) >= 0 {
		i++
	}
	return i
}

// sameShape reports whether the redacted form has the same shape as n.
// Redaction keeps the order of members and may change names, so members are
// matched by index.
func (n *node) sameShape(mask *node) bool {
	return mask != nil && mask.open == n.open && len(mask.children) == len(n.children)
}

// printer formats nodes.
type printer struct {
	segmentWriter
	hash       func([]byte) string // nil: nothing is masked
	inText     bool                // inside a multiline text
	afterBlock bool                // the last value was a multiline text
}

func (p *printer) punct(text string) { p.add(classPunct, text, "") }

func (p *printer) indent(depth int) { p.add("", "\n"+strings.Repeat("  ", min(depth, 40)), "") }

func (p *printer) value(n, mask *node, depth int) {
	p.afterBlock = false
	switch {
	case p.hash != nil && (!n.sameShape(mask) || (n.open == 0 && !bytes.Equal(n.raw, mask.raw))):
		p.masked(n, mask, depth)
	case n.open != 0 && len(n.children) == 0:
		p.punct(string(n.open) + string(closingBracket(n.open)))
	case n.open != 0:
		p.container(n, mask, depth)
	case n.raw[0] == '"':
		p.str(n.raw, depth, p.quoted)
	case n.raw[0] == 't' || n.raw[0] == 'f' || n.raw[0] == 'n':
		p.add(classLiteral, string(n.raw), "")
	default:
		p.add(classNumber, string(n.raw), "")
	}
}

func closingBracket(open byte) byte {
	if open == '{' {
		return '}'
	}
	return ']'
}

func (p *printer) container(n, mask *node, depth int) {
	p.punct(string(n.open))
	for i, kid := range n.children {
		p.indent(depth + 1)
		if n.open == '{' {
			p.class = classKey
			if mask != nil && !bytes.Equal(mask.keys[i], n.keys[i]) {
				p.marked(mask.keys[i])
			} else {
				p.quoted(n.keys[i])
			}
			p.flush()
			p.class = classString
			p.punct(":")
			p.add("", " ", "")
		}
		if mask == nil {
			p.value(kid, nil, depth+1)
		} else {
			p.value(kid, mask.children[i], depth+1)
		}
		if i < len(n.children)-1 && !p.afterBlock {
			p.punct(",")
		}
	}
	p.indent(depth)
	p.punct(string(closingBracket(n.open)))
	p.afterBlock = false
}

const maskTitle = "Redacted. Equal hashes mean equal values."

// masked prints the redacted form of a value, or its length and hash if that
// has no marks.
func (p *printer) masked(n, mask *node, depth int) {
	if mask != nil && mask.open == 0 && mask.raw[0] == '"' && redactionMarks().Match(mask.raw) {
		p.str(mask.raw, depth, p.marked)
		return
	}
	value := n.bytes()
	var s string
	if json.Unmarshal(value, &s) == nil && value[0] == '"' {
		value = []byte(s)
	}
	sum := p.hash(value)
	p.add(ClassMasked, fmt.Sprintf("redacted · %d bytes · #%s", len(value), sum[:min(8, len(sum))]), maskTitle)
}

// redactionMarks matches the marks that redaction leaves.
func redactionMarks() *regexp.Regexp { return regexp.MustCompile(`\[redacted:([0-9]+):([0-9a-f]+)\]`) }

// marked prints a string of the redacted form and highlights its marks.
func (p *printer) marked(raw []byte) {
	body, from := raw[1:len(raw)-1], 0
	p.quote()
	for _, at := range redactionMarks().FindAllSubmatchIndex(body, -1) {
		p.body(body[from:at[0]])
		p.add(ClassMasked, fmt.Sprintf("redacted · %s bytes · #%s", body[at[2]:at[3]], body[at[4]:at[5]]), maskTitle)
		from = at[1]
	}
	p.body(body[from:])
	p.quote()
	p.flush()
}

// bytes encodes a value without spaces.
func (n *node) bytes() []byte {
	if n.open == 0 {
		return n.raw
	}
	out := []byte{n.open}
	for i, kid := range n.children {
		if i > 0 {
			out = append(out, ',')
		}
		if n.open == '{' {
			out = append(append(out, n.keys[i]...), ':')
		}
		out = append(out, kid.bytes()...)
	}
	return append(out, closingBracket(n.open))
}

// str prints a JSON string. A multiline string becomes a box of lines, so that
// no line of it can pass for JSON around it.
func (p *printer) str(raw []byte, depth int, write func([]byte)) {
	breaks := lineBreaks(raw)
	if breaks == 0 {
		write(raw)
		return
	}
	p.add(classNote, "text of "+Count(breaks+1, "line"), "")
	p.inText = true
	p.add(classText, "\n"+strings.Repeat("  ", min(depth, 40)), "")
	write(raw)
	p.inText, p.afterBlock = false, true
}

// lineBreaks counts the line breaks in a JSON string, and ignores a single one
// at its end.
func lineBreaks(raw []byte) (n int) {
	last := 0
	for i := 1; i < len(raw)-1; i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] == 'n' {
			n, last = n+1, i
		}
	}
	if n == 1 && last == len(raw)-2 {
		return 0
	}
	return n
}

// quoted prints a string on one line and decodes escapes that are not needed.
func (p *printer) quoted(raw []byte) {
	p.quote()
	p.body(raw[1 : len(raw)-1])
	p.quote()
	p.flush()
}

func (p *printer) quote() {
	if !p.inText {
		p.plain.WriteByte('"')
	}
}

func (p *printer) body(body []byte) {
	for i := 0; i < len(body); {
		if body[i] == '\\' {
			i += p.escaped(body[i:])
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
}

// escaped prints the escape at the start of body and returns its length.
func (p *printer) escaped(body []byte) int {
	switch c := body[1]; {
	case c == '/' || p.inText && (c == '"' || c == '\\'):
		p.plain.WriteByte(c)
	case c == '"' || c == '\\':
		p.plain.Write(body[:2])
	case p.inText && c == 'n':
		p.add(classText, "\n", "")
	case p.inText && c == 't':
		p.add(classTab, "\t", "A tab")
	case c == 'u':
		return p.unicode(body)
	default:
		p.escape(string(body[:2]))
	}
	return 2
}

// unicode prints a \uXXXX escape, or a surrogate pair of them.
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
	case utf16.IsSurrogate(r) || IsInvisible(r):
		p.escape(strings.ToLower(string(body[:size])))
	case !p.inText && (r == '"' || r == '\\'):
		p.plain.WriteByte('\\')
		p.plain.WriteRune(r)
	default:
		p.plain.WriteRune(r)
	}
	return size
}

func hex4(digits []byte) uint64 {
	n, _ := strconv.ParseUint(string(digits), 16, 16) // valid JSON has four hexadecimal digits
	return n
}
