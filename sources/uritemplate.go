package sources

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"unicode"
)

// template is a URI template (RFC 6570), as far as it takes to tell whose a URI
// may be. It matches more than the template could make, never less: variables
// are any text that their kind of expression can hold, reserved characters that
// clients leave as they are included.
type template []segment

// maxExpressions of a template bound the work of matching it. Neighbours of one
// kind match what one of them does, and count as one.
const maxExpressions = 16

// segment is literal text, or an expression when op is set.
type segment struct {
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
			t = append(t, segment{text: literal})
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
		t = append(t, segment{op: op})
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

// bitset are places in a URI, before each of its bytes and at its end.
type bitset [maxURIBytes/64 + 1]uint64

// uriIndex is a URI that is matched with templates: all places of a part are
// looked at together, in words, so that many templates take little time.
type uriIndex struct {
	size      int
	words     int         // of spots that are in use
	all       bitset      // all bytes
	positions [256]bitset // where each byte is
}

// indexURI returns nil for a URI that is longer than any.
func indexURI(uri string) *uriIndex {
	if len(uri) > maxURIBytes {
		return nil
	}
	a := &uriIndex{size: len(uri), words: len(uri)/64 + 1}
	for i := range len(uri) {
		a.all[i/64] |= 1 << (i % 64)
		a.positions[uri[i]][i/64] |= 1 << (i % 64)
	}
	return a
}

// matches reports whether the URI may be one of the template's. It needs no
// memory.
func (t template) matches(a *uriIndex) bool {
	if a == nil {
		return false
	}
	last := a.size // where the part at hand may begin, at the latest
	for _, p := range t {
		last -= len(p.text)
	}
	if last < 0 {
		return false
	}
	at := bitset{1} // where what was read so far may have ended
	for _, p := range t {
		last += len(p.text)
		words := at[:last/64+1]
		if p.op != 0 {
			a.matchExpression(p.op, words)
		} else if !a.matchLiteral(p.text, words) {
			return false
		}
	}
	return at[a.size/64]>>(a.size%64)&1 == 1
}

// matchLiteral moves the places over a literal, and reports whether any is left.
func (a *uriIndex) matchLiteral(literal string, at []uint64) bool {
	low := 0 // the first word that has any
	for i := range len(literal) {
		is, carry, some := &a.positions[literal[i]], uint64(0), uint64(0)
		for w := low; w < len(at); w++ {
			here := at[w] & is[w]
			at[w], carry = here<<1|carry, here>>63
			if some |= at[w]; some == 0 {
				low = w + 1
			}
		}
		if some == 0 {
			return false
		}
	}
	return true
}

// matchExpression adds to the places those where the text of an expression may end that
// begins at one of them. It goes on from byte to byte as the carry of a sum does.
func (a *uriIndex) matchExpression(op byte, at []uint64) {
	ends, carry := excludedBytes(op), uint64(0)
	for w := range at {
		holds := a.all[w]
		for i := range len(ends) {
			holds &^= a.positions[ends[i]][w]
		}
		begins := at[w] & holds
		if op != '{' && op != '+' {
			begins &= a.positions[op][w]
		}
		var sum uint64
		sum, carry = bits.Add64(holds, begins, carry)
		at[w] |= sum ^ holds ^ begins
	}
}

// excludedBytes are what the text of an expression cannot contain. It begins with the
// operator, unless that is + or none.
func excludedBytes(op byte) string {
	switch op {
	case '+', '#':
		return ""
	case '?', '&':
		return "#"
	case '/':
		return "?#"
	}
	return "/?#"
}
