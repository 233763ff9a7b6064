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
