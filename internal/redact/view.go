package redact

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// maxEscapeLayers limits the layers of escapes to resolve.
const maxEscapeLayers = 6

// escapes are the first bytes of escapes: of JSON and programs, of URLs, and of
// HTML.
const escapes = `\%&`

// escapeBytes are the bytes that other escapes may begin or end with, or
// consist of.
const escapeBytes = escapes + "#;"

// The kinds of escapes, as bits.
const (
	backslashEscape = 1 << iota
	percentEscape
	entityEscape
	escapeKindEnd
)

var escapeKinds = [256]uint8{'\\': backslashEscape, '%': percentEscape, '&': entityEscape}

// secretsIn returns the known secrets in text and, with all, what looks like
// one. It searches under escapes too, because a text may quote another, in
// whole or in part, more than once.
func secretsIn(text []byte, k *known, all bool, room **scratchBuffers) []span {
	l := search{known: k, full: all}
	spans := l.direct(text, nil, *room)
	hasEscapes := bytes.IndexByte(text, '\\') >= 0 || bytes.IndexByte(text, '%') >= 0 || bytes.IndexByte(text, '&') >= 0
	if !hasEscapes || !all && (k == nil || !k.mayBeEscaped(text)) {
		return spans
	}
	if *room == nil {
		*room = new(scratchBuffers)
	}
	spans = l.unescaped(text, escapeKindEnd-1, 0, *room, spans)
	if k == nil || !strings.ContainsAny(k.special, escapes) {
		return spans
	}
	// An escape of one kind may be part of a secret under another kind.
	l.full = false
	for kind := uint8(1); kind < escapeKindEnd; kind <<= 1 {
		spans = l.unescaped(text, kind, 0, *room, spans)
	}
	return spans
}

// search is what to search for.
type search struct {
	known *known
	full  bool
}

// direct appends the secrets of the text without resolving escapes.
func (l search) direct(text []byte, spans []span, room *scratchBuffers) []span {
	spans = l.known.find(text, spans)
	if l.full {
		spans = findEmbedded(text, findShapes(text, spans), room)
	}
	return spans
}

// unescaped appends the secrets of the text after its escapes of some kinds are
// resolved once, twice and so on.
func (l search) unescaped(text []byte, kinds uint8, depth int, room *scratchBuffers, spans []span) []span {
	v := &room.views[depth]
	if !v.unescape(text, kinds, false) {
		return spans
	}
	first := len(spans)
	spans = l.direct(v.plain, spans, room)
	if depth+1 < maxEscapeLayers {
		spans = l.unescaped(v.plain, kinds, depth+1, room, spans)
	}
	if len(spans) > first {
		v.unescape(text, kinds, true)
	}
	for i, s := range spans[first:] {
		spans[first+i] = span{v.origin(s.start), v.origin(s.end)}
	}
	return spans
}

// scratchBuffers are buffers that are reused within one document, and not for
// the next, so that no secret stays in memory.
type scratchBuffers struct {
	texts [maxNested + 1][]byte // decoded strings, for each level of nested documents
	name  []byte
	views [maxEscapeLayers]unescapedView
}

// unescapedView is a text with its escapes resolved.
type unescapedView struct {
	plain []byte
	cuts  []escapePos
}

// escapePos is the position of an escape in the text and in its view, with its
// length in both.
type escapePos struct {
	text, plain int32
	from, to    uint8
}

// unescape builds the view of a text, and reports whether it differs. Cuts are
// seldom needed and take memory.
func (v *unescapedView) unescape(text []byte, kinds uint8, cuts bool) bool {
	v.plain, v.cuts = v.plain[:0], v.cuts[:0]
	copied := 0
	for i := 0; i < len(text); {
		n := 0
		var r rune
		if escapeKinds[text[i]]&kinds != 0 {
			r, n = escapeAt(text, i)
		}
		if n == 0 {
			i++
			continue
		}
		if copied == 0 {
			v.plain = slices.Grow(v.plain, len(text))
		}
		v.plain = append(v.plain, text[copied:i]...)
		at := len(v.plain)
		if r < 0 {
			v.plain = append(v.plain, byte(-1-r))
		} else {
			v.plain = utf8.AppendRune(v.plain, r)
		}
		if cuts {
			v.cuts = append(v.cuts, escapePos{int32(i), int32(at), uint8(n), uint8(len(v.plain) - at)})
		}
		i += n
		copied = i
	}
	if copied == 0 {
		return false
	}
	v.plain = append(v.plain, text[copied:]...)
	return true
}

// origin maps a byte position of the view to the text.
func (v *unescapedView) origin(i int) int {
	n, found := slices.BinarySearchFunc(v.cuts, i, func(c escapePos, i int) int { return cmp.Compare(int(c.plain), i) })
	if !found {
		n--
	}
	if n < 0 {
		return i
	}
	c := v.cuts[n]
	if past := i - int(c.plain) - int(c.to); past >= 0 {
		return int(c.text) + int(c.from) + past
	}
	return int(c.text)
}

// escapeAt returns the character of the escape at text[i], or -1-c for a byte c, and
// its length: zero if there is none.
func escapeAt(text []byte, i int) (r rune, n int) {
	switch text[i] {
	case '\\':
		return readBackslash(text[i:])
	case '%':
		if c := hexByte(text[i+1:]); c >= 0 {
			return -1 - rune(c), 3
		}
	case '&':
		return readEntity(text[i:min(len(text), i+12)])
	}
	return 0, 0
}

func readBackslash(text []byte) (r rune, n int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch text[1] {
	case '"', '\'', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return jsonlex.Unescape(text)
	case 'x':
		if c := hexByte(text[2:]); c >= 0 {
			return -1 - rune(c), 4
		}
	case 'u':
		if r, n = jsonlex.Unescape(text); n < 6 {
			return 0, 0
		}
		return max(r, 0), n // half a surrogate pair
	}
	return 0, 0
}

// readEntity parses the HTML entity that text begins with.
func readEntity(text []byte) (r rune, n int) {
	name, _, ok := bytes.Cut(text[1:], []byte{';'})
	if !ok {
		return 0, 0
	}
	n = len(name) + 2
	switch string(name) {
	case "quot":
		return '"', n
	case "amp":
		return '&', n
	case "apos":
		return '\'', n
	case "lt":
		return '<', n
	case "gt":
		return '>', n
	}
	digits, numeric := bytes.CutPrefix(name, []byte{'#'})
	base := 10
	if len(digits) > 1 && digits[0]|0x20 == 'x' {
		digits, base = digits[1:], 16
	}
	code, err := strconv.ParseUint(string(digits), base, 21)
	if !numeric || err != nil {
		return 0, 0
	}
	return rune(code), n
}

// hexByte returns the byte in the two hex digits that text begins with, or -1.
func hexByte(text []byte) int {
	if len(text) < 2 {
		return -1
	}
	if c := unhex(text[0])<<4 | unhex(text[1]); c < 256 {
		return c
	}
	return -1
}

// unhex returns the value of a hex digit, or a value above a byte's range.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return 1 << 16
}
