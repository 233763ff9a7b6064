package sources

import "math/bits"

// spots are places in a URI, before each of its bytes and at its end.
type spots [maxURIBytes/64 + 1]uint64

// address is a URI that is matched with templates: all places of a part are
// looked at together, in words, so that many templates take little time.
type address struct {
	size  int
	words int        // of spots that are in use
	text  spots      // all bytes
	bytes [256]spots // where each byte is
}

// newAddress returns nil for a URI that is longer than any.
func newAddress(uri string) *address {
	if len(uri) > maxURIBytes {
		return nil
	}
	a := &address{size: len(uri), words: len(uri)/64 + 1}
	for i := range len(uri) {
		a.text[i/64] |= 1 << (i % 64)
		a.bytes[uri[i]][i/64] |= 1 << (i % 64)
	}
	return a
}

// matches reports whether the URI may be one of the template's. It needs no
// memory.
func (t template) matches(a *address) bool {
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
	at := spots{1} // where what was read so far may have ended
	for _, p := range t {
		last += len(p.text)
		words := at[:last/64+1]
		if p.op != 0 {
			a.pass(p.op, words)
		} else if !a.read(p.text, words) {
			return false
		}
	}
	return at[a.size/64]>>(a.size%64)&1 == 1
}

// read moves the places over a literal, and reports whether any is left.
func (a *address) read(literal string, at []uint64) bool {
	low := 0 // the first word that has any
	for i := range len(literal) {
		is, carry, some := &a.bytes[literal[i]], uint64(0), uint64(0)
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

// pass adds to the places those where the text of an expression may end that
// begins at one of them. It goes on from byte to byte as the carry of a sum does.
func (a *address) pass(op byte, at []uint64) {
	ends, carry := stops(op), uint64(0)
	for w := range at {
		holds := a.text[w]
		for i := range len(ends) {
			holds &^= a.bytes[ends[i]][w]
		}
		begins := at[w] & holds
		if op != '{' && op != '+' {
			begins &= a.bytes[op][w]
		}
		var sum uint64
		sum, carry = bits.Add64(holds, begins, carry)
		at[w] |= sum ^ holds ^ begins
	}
}

// stops are what the text of an expression cannot contain. It begins with the
// operator, unless that is + or none.
func stops(op byte) string {
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
