package llm

import (
	"bytes"
	"errors"
	"strings"

	"sallyport/internal/jsonlex"
)

// picker finds values in JSON that passes by in pieces, such as the model of a request
// or the usage of a response, in little memory: however long the JSON is, it keeps the
// wanted values alone. It checks the structure, not each token.
//
// A path joins the names of members by dots; the elements of an array have the name *.
// Names match in any case, as they do for the less strict of JSON parsers.
type picker struct {
	wanted []string
	// found receives each wanted value; it must not keep raw. An error ends the
	// reading.
	found func(path string, raw []byte) error

	err     error
	read    int64 // bytes so far
	state   pickState
	stack   []bool // of open containers; true: array
	names   []string
	name    []byte // of the member that is being read
	escaped bool   // the next byte of the string is escaped
	picking string // path of the value that is being kept; empty: none
	at      int    // depth of that value
	kept    []byte
}

type pickState int

const (
	wantValue pickState = iota
	wantValueOrEnd
	wantName
	wantNameOrEnd
	wantColon
	wantComma
	inName
	inString
	inWord // number or literal
)

const (
	maxDepth = 1000
	maxName  = 64      // longer names match nothing
	maxKept  = 8 << 10 // of a value
)

var (
	errNotJSON  = errors.New("the body is not valid JSON")
	errTooLong  = errors.New("a value is too long")
	errTruncate = errors.New("the JSON ends too early")
)

func newPicker(found func(path string, raw []byte) error, wanted ...string) *picker {
	return &picker{wanted: wanted, found: found}
}

// reset starts with another document.
func (p *picker) reset() {
	*p = picker{wanted: p.wanted, found: p.found, stack: p.stack[:0], names: p.names[:0], name: p.name[:0], kept: p.kept[:0]}
}

// Write reads the next piece. After an error it returns that error.
func (p *picker) Write(b []byte) (int, error) {
	for i := 0; i < len(b) && p.err == nil; {
		n := p.step(b[i:])
		if p.picking != "" && p.err == nil {
			p.keep(b[i : i+n])
		}
		i, p.read = i+n, p.read+int64(n)
		if p.state == wantComma && p.picking != "" && len(p.stack) == p.at {
			p.pick()
		}
	}
	return len(b), p.err
}

// end reports whether the document was complete.
func (p *picker) end() error {
	if p.state == inWord && len(p.stack) == 0 {
		p.state = wantComma
	}
	if p.err == nil && (p.state != wantComma || len(p.stack) > 0) {
		return errTruncate
	}
	return p.err
}

func (p *picker) keep(b []byte) {
	if len(p.kept)+len(b) > maxKept {
		p.err = errTooLong
		return
	}
	p.kept = append(p.kept, b...)
}

func (p *picker) pick() {
	path := p.picking
	p.picking = ""
	if err := p.found(path, bytes.TrimSpace(p.kept)); err != nil && p.err == nil {
		p.err = err
	}
	p.kept = p.kept[:0]
}

// step reads the bytes that belong together and returns how many; none where a word ends.
func (p *picker) step(b []byte) int {
	switch p.state {
	case inName, inString:
		return p.text(b)
	case inWord:
		n := 0
		for n < len(b) && !isSpace(b[n]) && b[n] != ',' && b[n] != ']' && b[n] != '}' {
			n++
		}
		if n < len(b) {
			p.state = wantComma
		}
		return n
	case wantValue, wantValueOrEnd, wantName, wantNameOrEnd, wantColon, wantComma:
	}
	c := b[0]
	if isSpace(c) {
		return 1
	}
	switch {
	case p.state == wantColon && c == ':':
		p.state = wantValue
	case (p.state == wantName || p.state == wantNameOrEnd) && c == '"':
		p.state, p.name = inName, p.name[:0]
	case p.state == wantComma && c == ',' && len(p.stack) > 0:
		p.state = wantName
		if p.stack[len(p.stack)-1] {
			p.state = wantValue
		}
	case p.state == wantValueOrEnd && c == ']', p.state == wantNameOrEnd && c == '}',
		p.state == wantComma && len(p.stack) > 0 && c == closing(p.stack[len(p.stack)-1]):
		p.stack = p.stack[:len(p.stack)-1]
		p.names = p.names[:len(p.stack)]
		p.state = wantComma
	case p.state == wantValue || p.state == wantValueOrEnd:
		p.value(c)
	default:
		p.err = errNotJSON
	}
	return 1
}

func closing(array bool) byte {
	if array {
		return ']'
	}
	return '}'
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value begins a value with its first byte.
func (p *picker) value(c byte) {
	if len(p.stack) > 0 && p.stack[len(p.stack)-1] {
		p.names[len(p.stack)-1] = "*"
	}
	if p.picking == "" && len(p.stack) > 0 {
		for _, path := range p.wanted {
			if strings.Count(path, ".") == len(p.stack)-1 && strings.EqualFold(path, strings.Join(p.names, ".")) {
				p.picking, p.at = path, len(p.stack)
			}
		}
	}
	switch {
	case c == '"':
		p.state = inString
	case c == '{' || c == '[':
		if len(p.stack) == maxDepth {
			p.err = errNotJSON
			return
		}
		p.stack, p.names = append(p.stack, c == '['), append(p.names, "")
		p.state = wantNameOrEnd
		if c == '[' {
			p.state = wantValueOrEnd
		}
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n':
		p.state = inWord
	default:
		p.err = errNotJSON
	}
}

// text reads a piece of a string, and its end.
func (p *picker) text(b []byte) int {
	if p.escaped {
		p.escaped = false
		p.spell(b[:1])
		return 1
	}
	b = b[:min(len(b), 4<<10)] // so that many escapes before a far end stay cheap
	end := bytes.IndexByte(b, '"')
	plain := b
	if end >= 0 {
		plain = b[:end]
	}
	if at := bytes.IndexByte(plain, '\\'); at >= 0 {
		p.escaped = true
		p.spell(b[:at+1])
		return at + 1
	}
	p.spell(plain)
	if end < 0 {
		return len(b)
	}
	if p.state == inString {
		p.state = wantComma
		return end + 1
	}
	name := p.name
	if len(name) <= maxName {
		name, _ = jsonlex.Unquote(nil, name)
	}
	p.names[len(p.stack)-1] = strings.ReplaceAll(string(name), ".", "\x00") // a dot of a name joins nothing
	p.state = wantColon
	return end + 1
}

// spell adds to the name of a member.
func (p *picker) spell(b []byte) {
	if p.state == inName && len(p.name) <= maxName {
		p.name = append(p.name, b...)
	}
}
