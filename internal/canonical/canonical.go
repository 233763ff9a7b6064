package canonical

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// MaxDepth is the maximum nesting of arrays and objects.
const MaxDepth = 64

// JSON returns the canonical form of raw in newly allocated memory. The error
// is an [action.Error] of kind ErrInvalid that points at the offending value.
func JSON(raw []byte) ([]byte, error) {
	p := parser{raw: raw, out: make([]byte, 0, len(raw))}
	p.members = p.membersBuf[:0]
	if f := p.document(); f != nil {
		return nil, f.public()
	}
	return p.out, nil
}

// parser reads raw in one pass and writes the canonical form. An object whose
// members are already sorted is written once; others are sorted at their end.
type parser struct {
	raw        []byte
	pos        int
	out        []byte
	members    []member   // of the open objects, the innermost last
	membersBuf [16]member // members while they are few
}

// member is one member of an object, in out.
type member struct {
	name       []byte // decoded
	start, end int    // of "name":value in out
}

func (p *parser) document() *fault {
	p.space()
	if p.pos == len(p.raw) {
		return &fault{what: "it is empty; send a JSON value such as {}"}
	}
	if f := p.value(0); f != nil {
		return f
	}
	p.space()
	if p.pos < len(p.raw) {
		return &fault{what: "there is something after the end of the value", offset: p.pos, located: true}
	}
	return nil
}

func (p *parser) space() { p.pos = jsonlex.Space(p.raw, p.pos) }

// next skips white space and returns the byte there, or zero at the end.
func (p *parser) next() byte {
	p.space()
	if p.pos == len(p.raw) {
		return 0
	}
	return p.raw[p.pos]
}

func (p *parser) value(depth int) *fault {
	switch p.next() {
	case '{', '[':
		if depth == MaxDepth {
			return &fault{what: "it is nested deeper than 64 levels", offset: p.pos, located: true}
		}
		c := p.raw[p.pos]
		p.out = append(p.out, c)
		p.pos++
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case '"':
		_, f := p.stringValue()
		return f
	}
	end, err := jsonlex.Scalar(p.raw, p.pos)
	if err != nil {
		return lexicalFault(err)
	}
	p.out = append(p.out, p.raw[p.pos:end]...)
	p.pos = end
	return nil
}

func (p *parser) array(depth int) *fault {
	if p.next() == ']' {
		return p.closeContainer(']')
	}
	for i := 0; ; i++ {
		if f := p.value(depth); f != nil {
			f.path = append(f.path, strconv.Itoa(i))
			return f
		}
		switch p.next() {
		case ',':
			p.out = append(p.out, ',')
			p.pos++
		case ']':
			return p.closeContainer(']')
		default:
			return p.syntaxFault("a comma or ] is missing")
		}
	}
}

func (p *parser) object(depth int) *fault {
	if p.next() == '}' {
		return p.closeContainer('}')
	}
	base, sorted := len(p.members), true
	for {
		m, f := p.member(depth)
		if f != nil {
			return f
		}
		if n := len(p.members); n > base && bytes.Compare(p.members[n-1].name, m.name) >= 0 {
			sorted = false
		}
		p.members = append(p.members, m)
		switch p.next() {
		case ',':
			p.out = append(p.out, ',')
			p.pos++
		case '}':
			if !sorted {
				if f := p.sortMembers(p.members[base:]); f != nil {
					return f
				}
			}
			p.members = p.members[:base]
			return p.closeContainer('}')
		default:
			return p.syntaxFault("a comma or } is missing")
		}
	}
}

func (p *parser) member(depth int) (member, *fault) {
	if p.next() != '"' {
		return member{}, p.syntaxFault("the name of a member is missing")
	}
	m := member{start: len(p.out)}
	var f *fault
	if m.name, f = p.stringValue(); f != nil {
		return member{}, f
	}
	if p.next() != ':' {
		return member{}, p.syntaxFault("a colon is missing")
	}
	p.out = append(p.out, ':')
	p.pos++
	if f := p.value(depth); f != nil {
		return member{}, f.inMember(m.name)
	}
	m.end = len(p.out)
	return m, nil
}

func (p *parser) closeContainer(c byte) *fault {
	p.out = append(p.out, c)
	p.pos++
	return nil
}

func (p *parser) syntaxFault(what string) *fault {
	if p.pos == len(p.raw) {
		what = "the text ends too early: " + what
	}
	return &fault{what: what, offset: p.pos, located: true}
}

// stringValue writes the string at the current position and returns its decoded
// content.
func (p *parser) stringValue() ([]byte, *fault) {
	end, form, err := jsonlex.String(p.raw, p.pos)
	if err != nil {
		return nil, lexicalFault(err)
	}
	quoted := p.raw[p.pos:end]
	text, whole := quoted[1:len(quoted)-1], true
	if form&jsonlex.Escaped != 0 {
		text, whole = jsonlex.Unquote(make([]byte, 0, len(text)), text)
	} else if form&jsonlex.NonASCII != 0 {
		whole = utf8.Valid(text)
	}
	if !whole {
		return nil, &fault{what: "a string in it is not Unicode: invalid UTF-8, or half of a surrogate pair", offset: p.pos, located: true}
	}
	if form&jsonlex.Escaped != 0 {
		p.out = jsonlex.Quote(p.out, text)
	} else {
		p.out = append(p.out, quoted...)
	}
	p.pos = end
	return text, nil
}

// sortMembers sorts the members of the object at the end of out.
func (p *parser) sortMembers(members []member) *fault {
	start := members[0].start
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].name, members[i].name) {
			return (&fault{what: "a name is there twice in one object"}).inMember(members[i].name)
		}
	}
	written := bytes.Clone(p.out[start:])
	p.out = p.out[:start]
	for i, m := range members {
		if i > 0 {
			p.out = append(p.out, ',')
		}
		p.out = append(p.out, written[m.start-start:m.end-start]...)
	}
	return nil
}

// maxPointer limits the pointer in an error, because names come from the
// caller.
const maxPointer = 256

// fault describes an invalid document. Its path is built from the inside out
// while the parser returns, so that valid documents do not pay for it.
type fault struct {
	what    string
	offset  int
	located bool     // offset is set
	path    []string // escaped, the innermost first
}

func lexicalFault(err error) *fault {
	var s *jsonlex.SyntaxError
	if errors.As(err, &s) {
		return &fault{what: s.What, offset: s.Offset, located: true}
	}
	return &fault{what: err.Error()}
}

func (f *fault) inMember(name []byte) *fault {
	f.path = append(f.path, strings.NewReplacer("~", "~0", "/", "~1").Replace(string(name)))
	return f
}

func (f *fault) public() error {
	var pointer strings.Builder
	for _, segment := range slices.Backward(f.path) {
		if pointer.Len()+1+len(segment) > maxPointer {
			break
		}
		pointer.WriteByte('/')
		pointer.WriteString(segment)
	}
	where := ""
	if f.located {
		where = fmt.Sprintf(" (byte %d)", f.offset)
	}
	return action.Errorf(action.ErrInvalid, "invalid_json", "%s", "This JSON cannot be used: "+f.what+where+".").WithField(pointer.String())
}
