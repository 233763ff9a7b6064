package sources

import (
	"errors"
	"strings"
	"unicode"
)

// template is a URI template (RFC 6570), as far as it takes to tell whose a URI
// may be. It matches more than the template could make, never less: variables
// are any text that their kind of expression can hold, reserved characters that
// clients leave as they are included.
type template []part

// part is literal text, or an expression when op is set.
type part struct {
	text string // the literal
	op   byte   // of + # . / ; ? & and, for a plain expression, {
}

// parseTemplate reads a template; its error says why it cannot be used.
func parseTemplate(s string) (t template, err error) {
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
		t, s = append(t, part{op: op}), rest
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
// in proportion to the length of either.
func (t template) matches(uri string) bool {
	if len(uri) > maxURIBytes {
		return false
	}
	at := make([]bool, len(uri)+1) // where what was read so far may have ended
	at[0] = true
	for _, p := range t {
		next, any := p.from(uri, at)
		if !any {
			return false
		}
		at = next
	}
	return at[len(uri)]
}

// from returns where the part may end when it begins at one of the places.
func (p part) from(uri string, at []bool) (next []bool, any bool) {
	next = make([]bool, len(at))
	inside := false // an expression that began before i may end there
	for i := range at {
		switch {
		case p.op != 0:
			next[i] = at[i] || inside
			any = any || next[i]
			if i < len(uri) {
				inside = inside && p.holds(uri[i]) || at[i] && p.begins(uri[i])
			}
		case at[i] && strings.HasPrefix(uri[i:], p.text):
			next[i+len(p.text)], any = true, true
		}
	}
	return next, any
}

// begins reports whether the text of the expression may begin with c.
func (p part) begins(c byte) bool {
	switch p.op {
	case '{', '+':
		return p.holds(c)
	}
	return c == p.op
}

// holds reports whether the text of the expression may contain c.
func (p part) holds(c byte) bool {
	switch p.op {
	case '+', '#':
		return true
	case '?', '&':
		return c != '#'
	case '/':
		return c != '?' && c != '#'
	}
	return c != '/' && c != '?' && c != '#'
}
