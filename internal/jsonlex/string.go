package jsonlex

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Form describes the content of a string.
type Form uint8

// The forms, as bits. A string of form zero is plain ASCII without escapes.
const (
	Escaped  Form = 1 << iota // contains a backslash
	NonASCII                  // contains bytes above 0x7f, not validated as UTF-8
)

// String returns the end of the string at data[i], including its quotes, and
// its form. It validates escapes, but not that they form valid characters; see
// [Unquote].
func String(data []byte, i int) (end int, form Form, err error) {
	if i >= len(data) || data[i] != '"' {
		return i, 0, syntaxError(i, "something that is not a string where a string is expected")
	}
	start := i
	for i++; ; i++ {
		var ascii bool
		if i, ascii = special(data, i); !ascii {
			form |= NonASCII
		}
		switch {
		case i == len(data):
			return i, form, syntaxError(start, "a string that does not end")
		case data[i] == '"':
			return i + 1, form, nil
		case data[i] != '\\':
			return i, form, syntaxError(i, "a control character in a string; escape it")
		}
		form |= Escaped
		n := escapeLength(data[i:])
		if n == 0 {
			return i, form, syntaxError(i, "an escape that JSON does not have")
		}
		i += n - 1
	}
}

// special returns the index of the first quote, backslash or control character at
// or after i, or len(data), and whether all bytes before it are ASCII. It looks at
// eight bytes at a time: v-0x01… sets the high bit of each byte of v that is zero,
// and x-0x20… of each that is less than a space, unless it was set before. A
// subtraction can also mark bytes after the first, from which it borrows.
func special(data []byte, i int) (at int, ascii bool) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	var seen uint64
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		quote, backslash := x^('"'*ones), x^('\\'*ones)
		if marks := ((x-' '*ones)&^x | (quote-ones)&^quote | (backslash-ones)&^backslash) & high; marks != 0 {
			before := marks&-marks - 1
			return i + bits.TrailingZeros64(marks)/8, (seen|x&before)&high == 0
		}
		seen |= x
	}
	for ; i < len(data); i++ {
		c := data[i]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		seen |= uint64(c)
	}
	return i, seen&high == 0
}

// escapeLength returns the length of the escape that text begins with, or zero.
func escapeLength(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(text); ok {
			return 6
		}
	}
	return 0
}

// hex4 parses the code unit of the \uXXXX that text begins with.
func hex4(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// Unquote appends the decoded content of a string, which is what is between the
// quotes that [String] accepted. Lone surrogates and invalid UTF-8 become
// U+FFFD and set whole to false.
func Unquote(dst, content []byte) (text []byte, whole bool) {
	whole = true
	for {
		plain := content
		if i := bytes.IndexByte(content, '\\'); i >= 0 {
			plain = content[:i]
		}
		var valid bool
		dst, valid = appendUTF8(dst, plain)
		whole = whole && valid
		if len(plain) == len(content) {
			return dst, whole
		}
		r, n := Unescape(content[len(plain):])
		if r < 0 {
			r, whole = utf8.RuneError, false
		}
		dst = utf8.AppendRune(dst, r)
		content = content[len(plain)+n:]
	}
}

// Unescape decodes the escape that text begins with, or two that form a
// surrogate pair, and returns its length. The rune is -1 for a lone surrogate;
// an escape that JSON does not define decodes to the byte after the backslash.
func Unescape(text []byte) (r rune, n int) {
	if len(text) < 2 {
		return -1, len(text)
	}
	switch text[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(text[1]), 2
	}
	r, ok := hex4(text)
	if !ok {
		return -1, 2
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if low, ok := hex4(text[6:]); ok {
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			return both, 12
		}
	}
	return -1, 6
}

// Quote appends text as a JSON string in canonical form: only the quote, the
// backslash and control characters are escaped, with short escapes if they
// exist and \u00xx in lower case otherwise. Invalid UTF-8 becomes U+FFFD.
func Quote[T []byte | string](dst []byte, text T) []byte {
	const digit = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= utf8.RuneSelf || c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst, _ = appendUTF8(dst, text[from:i])
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digit[c>>4], digit[c&15])
		}
	}
	dst, _ = appendUTF8(dst, text[from:])
	return append(dst, '"')
}

// appendUTF8 appends text with invalid UTF-8 replaced, and reports whether it was
// valid.
func appendUTF8[T []byte | string](dst []byte, text T) (out []byte, valid bool) {
	start := len(dst)
	dst = append(dst, text...)
	if utf8.Valid(dst[start:]) {
		return dst, true
	}
	dst = dst[:start]
	for _, r := range string(text) {
		dst = utf8.AppendRune(dst, r)
	}
	return dst, false
}
