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

// maxViews is how many layers of escapes are looked under.
const maxViews = 6

// escapes are the bytes that escapes begin with: those of JSON and of
// programs, of URLs, and of HTML.
const escapes = `\%&`

// joints are the bytes that escapes of others may begin or end with, or need.
const joints = escapes + "#;"

// The kinds of escapes, as bits, by the bytes that they begin with.
const (
	ofPrograms = 1 << iota
	ofURLs
	ofHTML
	kinds
)

var introduces = [256]uint8{'\\': ofPrograms, '%': ofURLs, '&': ofHTML}

// secretsIn returns where text has something known and, with all, what looks
// secret. It looks under escapes too: whoever wrote the text may have quoted
// another in it, whole or in part, more than once.
func secretsIn(text []byte, k *known, all bool, room **scratch) []span {
	l := look{known: k, all: all}
	spans := l.at(text, nil, *room)
	if indexOf(text, escapes) == len(text) || !all && (k == nil || !k.hidden(text)) {
		return spans
	}
	if *room == nil {
		*room = new(scratch)
	}
	spans = l.under(text, kinds-1, 0, *room, spans)
	if k == nil || !strings.ContainsAny(k.special, escapes) {
		return spans
	}
	// What is an escape to one is a part of the secret to another.
	l.all = false
	for kind := uint8(1); kind < kinds; kind <<= 1 {
		spans = l.under(text, kind, 0, *room, spans)
	}
	return spans
}

// look is what is looked for.
type look struct {
	known *known
	all   bool
}

// at appends what is in the text as it is.
func (l look) at(text []byte, spans []span, room *scratch) []span {
	spans = l.known.find(text, spans)
	if l.all {
		spans = embedded(text, shapes(text, spans), room)
	}
	return spans
}

// under appends what is in the text as it reads once its escapes of some
// kinds are resolved, once, twice and so on.
func (l look) under(text []byte, kinds uint8, depth int, room *scratch, spans []span) []span {
	v := &room.views[depth]
	if !v.unescape(text, kinds, false) {
		return spans
	}
	first := len(spans)
	spans = l.at(v.plain, spans, room)
	if depth+1 < maxViews {
		spans = l.under(v.plain, kinds, depth+1, room, spans)
	}
	if len(spans) > first {
		v.unescape(text, kinds, true)
	}
	for i, s := range spans[first:] {
		spans[first+i] = span{v.origin(s.start), v.origin(s.end)}
	}
	return spans
}

// scratch is room that is used again: for one document, not for the next, so
// that no secret of it stays.
type scratch struct {
	texts [maxNested + 1][]byte // what strings stand for, of each document within another
	name  []byte
	views [maxViews]view
}

// view is a text with its escapes resolved.
type view struct {
	plain []byte
	cuts  []escape
}

// escape is where one was: in the text and its view, with the lengths of
// it there.
type escape struct {
	text, plain int32
	from, to    uint8
}

// unescape makes the view of a text, and reports whether it is another one.
// Cuts are seldom needed, and long.
func (v *view) unescape(text []byte, kinds uint8, cuts bool) bool {
	v.plain, v.cuts = v.plain[:0], v.cuts[:0]
	copied := 0
	for i := 0; i < len(text); {
		n := 0
		var r rune
		if introduces[text[i]]&kinds != 0 {
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
		v.plain = appendRune(v.plain, r)
		if cuts {
			v.cuts = append(v.cuts, escape{int32(i), int32(at), uint8(n), uint8(len(v.plain) - at)})
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

// origin returns where in the text the byte of the view, or its end, is from.
func (v *view) origin(i int) int {
	n, found := slices.BinarySearchFunc(v.cuts, i, func(c escape, i int) int { return cmp.Compare(int(c.plain), i) })
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

// indexOf returns where the first of a few bytes is in text, or its length.
func indexOf(text []byte, few string) int {
	for i := range len(few) {
		if at := bytes.IndexByte(text, few[i]); at >= 0 {
			text = text[:at]
		}
	}
	return len(text)
}

// appendRune appends a character, or the byte that -1-r stands for.
func appendRune(plain []byte, r rune) []byte {
	if r < 0 {
		return append(plain, byte(-1-r))
	}
	return utf8.AppendRune(plain, r)
}

// escapeAt returns what the escape at text[i] stands for, see appendRune, and
// its length: zero when there is none.
func escapeAt(text []byte, i int) (r rune, n int) {
	switch text[i] {
	case '\\':
		return backslash(text[i:])
	case '%':
		if c := hexByte(text[i+1:]); c >= 0 {
			return -1 - rune(c), 3
		}
	case '&':
		return entity(text[i:min(len(text), i+12)])
	}
	return 0, 0
}

func backslash(text []byte) (r rune, n int) {
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
		return max(r, 0), n // half a pair is nothing
	}
	return 0, 0
}

// entity reads the entity of HTML that text begins with.
func entity(text []byte) (r rune, n int) {
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

// hexByte returns the byte that text begins with in two hex digits, or -1.
func hexByte(text []byte) int {
	if len(text) < 2 {
		return -1
	}
	if c := unhex(text[0])<<4 | unhex(text[1]); c < 256 {
		return c
	}
	return -1
}

// unhex returns the value of a hex digit, or something too large for a byte.
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
