package sources

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// template is a URI template (RFC 6570), as far as it takes to tell whose a URI
// may be. It matches more than the template could make, never less: variables
// are any text that their kind of expression can hold, reserved characters that
// clients leave as they are included.
type template []part

// maxExpressions of a template bound the work of matching it. Neighbours of one
// kind match what one of them does, and count as one.
const maxExpressions = 16

// part is literal text, or an expression when op is set.
type part struct {
	text string // the literal
	op   byte   // of + # . / ; ? & and, for a plain expression, {
}

// parseTemplate reads a template; its error says why it cannot be used.
func parseTemplate(s string) (t template, err error) {
	expressions := 0
	if strings.ContainsFunc(s, unicode.IsControl) {
		return nil, errors.New("its URI template has control characters")
	}
	for s != "" {
		literal, rest, open := strings.Cut(s, "{")
		if strings.Contains(literal, "}") {
			return nil, errors.New("its URI template closes what was not opened")
		}
		if literal != "" {
			t = append(t, part{text: literal})
		}
		if !open {
			break
		}
		expression, rest, closed := strings.Cut(rest, "}")
		if !closed || expression == "" || strings.ContainsAny(expression, "{=!@|") {
			return nil, errors.New("its URI template has an expression that cannot be read")
		}
		op := byte('{')
		if strings.IndexByte("+#./;?&", expression[0]) >= 0 {
			op = expression[0]
		}
		s = rest
		if n := len(t); n > 0 && t[n-1].op == op {
			continue
		}
		if expressions++; expressions > maxExpressions {
			return nil, fmt.Errorf("its URI template has more than %d expressions", maxExpressions)
		}
		t = append(t, part{op: op})
	}
	return t, nil
}

// scheme is the scheme that all URIs of the template have, or nothing.
func (t template) scheme() string {
	if len(t) == 0 {
		return ""
	}
	scheme, _, ok := strings.Cut(t[0].text, ":")
	if !ok {
		return ""
	}
	return scheme
}

// matches reports whether the URI may be one of the template's. It takes time
// in proportion to the length of either, and no memory of its own.
func (t template) matches(uri string) bool {
	last := len(uri) // where the part at hand may begin, at the latest
	for _, p := range t {
		last -= len(p.text)
	}
	if len(uri) > maxURIBytes || last < 0 {
		return false
	}
	var one, two [maxURIBytes + 1]bool
	at, next := one[:len(uri)+1], two[:len(uri)+1] // where what was read so far may have ended
	at[0] = true
	first := 0 // of these places
	for _, p := range t {
		clear(next)
		if first = p.from(uri, at, next, first, last); first < 0 {
			return false
		}
		last += len(p.text)
		at, next = next, at
	}
	return at[len(uri)]
}

// from notes in next where the part may end when it begins at one of the places
// from first to last, and returns the first such end; negative: there is none.
func (p part) from(uri string, at, next []bool, first, last int) int {
	if p.op == 0 {
		return literal(p.text, uri, at[:last+1], next, first)
	}
	for first <= last && !at[first] {
		first++
	}
	if first > last {
		return -1
	}
	for i := first; i <= last; i++ {
		if !at[i] {
			continue
		}
		// One that begins later in this text ends where this one does.
		for end := min(p.end(uri, i), last); i < end; i++ {
			next[i] = true
		}
		next[i] = true
	}
	return first
}

func literal(text, uri string, at, next []bool, i int) (first int) {
	first = -1
	for ; i < len(at); i++ {
		if at[i] && uri[i] == text[0] && uri[i:i+len(text)] == text {
			next[i+len(text)] = true
			if first < 0 {
				first = i + len(text)
			}
		}
	}
	return first
}

// end returns where the text of an expression ends that begins at i, if it is
// as long as it can be.
func (p part) end(uri string, i int) int {
	stops, plain := p.stops()
	if i == len(uri) || !plain && uri[i] != p.op {
		return i
	}
	if n := strings.IndexAny(uri[i:], stops); n >= 0 {
		return i + n
	}
	return len(uri)
}

// stops are what the text of the expression cannot contain; it begins with the
// operator unless it is plain.
func (p part) stops() (chars string, plain bool) {
	switch p.op {
	case '+':
		return "", true
	case '{':
		return "/?#", true
	case '#':
		return "", false
	case '?', '&':
		return "#", false
	case '/':
		return "?#", false
	}
	return "/?#", false
}
