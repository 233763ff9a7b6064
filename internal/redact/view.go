package redact

import (
	"bytes"
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

// secretsIn returns where text has something known and, with all, what looks
// secret. It looks under escapes too: whoever wrote the text may have quoted
// another in it, whole or in part, more than once.
func secretsIn(text []byte, k *known, all bool) []span {
	spans := inViews(text, escapes, 0, func(view []byte) []span {
		spans := k.find(view, nil)
		if all {
			spans = embedded(view, shapes(view, spans))
		}
		return spans
	})
	if k == nil || !strings.ContainsAny(k.special, escapes) {
		return spans
	}
	// What is an escape to one is a part of the secret to another.
	for kind := range len(escapes) {
		spans = append(spans, inViews(text, escapes[kind:kind+1], 0, func(view []byte) []span { return k.find(view, nil) })...)
	}
	return spans
}

// inViews returns what find finds in the text as it is and as it reads once
// its escapes of some kinds are resolved, once, twice and so on.
func inViews(text []byte, kinds string, depth int, find func(view []byte) []span) []span {
	spans := find(text)
	if depth == maxViews {
		return spans
	}
	plain, at := unescape(text, kinds)
	if plain == nil {
		return spans
	}
	for _, s := range inViews(plain, kinds, depth+1, find) {
		spans = append(spans, span{int(at[s.start]), int(at[s.end])})
	}
	return spans
}

// unescape returns the text with its escapes resolved, and for every byte of
// it, and its end, where in text that is from. It returns nil when there are
// no escapes.
func unescape(text []byte, kinds string) (plain []byte, at []int32) {
	for i := indexOf(text, kinds); i < len(text); {
		r, n := rune(0), 0
		if strings.IndexByte(kinds, text[i]) >= 0 {
			r, n = escapeAt(text, i)
		}
		switch {
		case n == 0 && plain == nil:
			i++
			continue
		case n == 0:
			plain = append(plain, text[i])
			n = 1
		case plain == nil:
			plain, at = begin(text, i)
			fallthrough
		default:
			plain = appendRune(plain, r)
		}
		for len(at) < len(plain) {
			at = append(at, int32(i))
		}
		i += n
	}
	if plain == nil {
		return nil, nil
	}
	return plain, append(at, int32(len(text)))
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

// begin returns the view of text[:n], in which nothing is escaped.
func begin(text []byte, n int) (plain []byte, at []int32) {
	plain = append(make([]byte, 0, len(text)), text[:n]...)
	at = make([]int32, n, len(text)+1)
	for i := range at {
		at[i] = int32(i)
	}
	return plain, at
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
