package sources

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"unicode"
)

// template is a URI template (RFC 6570), as far as is needed to find the owner
// of a URI. It matches more than the template can produce, never less: a
// variable matches any text that its kind of expression allows, including
// reserved characters that clients leave unescaped.
type template []segment

// maxExpressions bounds the work of matching a template. Adjacent expressions
// of one kind match what one of them matches, and count as one.
const maxExpressions = 16

// segment is literal text, or an expression when op is set.
type segment struct {
	text string // the literal
	op   byte   // of + # . / ; ? & and, for a plain expression, {
}

// parseTemplate parses a template. Its error says why the template cannot be
// used.
func parseTemplate(s string) (t template, err error) {
	expressions := 0
	if strings.ContainsFunc(s, unicode.IsControl) {
		return nil, errors.New("its URI template has control characters")
	}
	for s != "" {
		literal, rest, open := strings.Cut(s, "{")
		if strings.Contains(literal, "}") {
			return nil, errors.New("its URI template has an unmatched }")
		}
		if literal != "" {
			t = append(t, segment{text: literal})
		}
		if !open {
			break
		}
		expression, rest, closed := strings.Cut(rest, "}")
		if !closed || expression == "" || strings.ContainsAny(expression, "{=!@|") {
			return nil, errors.New("its URI template has an invalid expression")
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

// scheme returns the scheme that all URIs of the template share, or the empty
// string.
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

// bitset holds positions in a URI: before each of its bytes, and at its end.
type bitset [maxURIBytes/64 + 1]uint64

// uriIndex is a URI prepared for matching against templates. Matching follows
// all candidate positions in parallel, a machine word at a time, so that many
// templates cost little time.
type uriIndex struct {
	size      int
	words     int         // of a bitset that are in use
	all       bitset      // positions of all bytes
	positions [256]bitset // by byte, where it occurs
}

// indexURI returns nil for a URI that exceeds the limit.
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

// matches reports whether the template can produce the URI. It does not
// allocate.
func (t template) matches(a *uriIndex) bool {
	if a == nil {
		return false
	}
	last := a.size // latest start of the current segment
	for _, p := range t {
		last -= len(p.text)
	}
	if last < 0 {
		return false
	}
	at := bitset{1} // where the segments matched so far can end
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

// matchLiteral advances the positions past a literal. It reports whether any
// position is left.
func (a *uriIndex) matchLiteral(literal string, at []uint64) bool {
	low := 0 // first word with a position
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

// matchExpression adds every position at which an expression that starts at one
// of the positions can end. It propagates from byte to byte the way the carry
// of an addition does.
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

// excludedBytes returns the bytes that the value of an expression cannot
// contain. The value starts with the operator, unless that is + or absent.
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
