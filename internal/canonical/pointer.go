package canonical

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// At returns the value at a JSON Pointer (RFC 6901) in canonical JSON as a
// slice of doc, or nil if there is none or the pointer is malformed. The empty
// pointer selects the whole document; - selects nothing.
//
// If the document is not canonical, it returns some part of it or nil.
func At(doc []byte, pointer string) []byte {
	for pointer != "" {
		if pointer[0] != '/' || len(doc) == 0 {
			return nil
		}
		segment := pointer[1:]
		pointer = ""
		if i := strings.IndexByte(segment, '/'); i >= 0 {
			segment, pointer = segment[:i], segment[i:]
		}
		switch doc[0] {
		case '{':
			doc = memberAt(doc, segment)
		case '[':
			doc = elementAt(doc, segment)
		default:
			return nil
		}
		if doc == nil {
			return nil
		}
	}
	return doc
}

// memberAt returns the value of the member that the segment names, or nil.
func memberAt(object []byte, segment string) []byte {
	name, ok := unescape(segment)
	if !ok {
		return nil
	}
	var buf [64]byte
	quoted := jsonlex.Quote(buf[:0], name) // the canonical form of the name
	for i := 1; i < len(object) && object[i] == '"'; i++ {
		colon := jsonlex.Skip(object, i)
		end := jsonlex.Skip(object, colon+1)
		if string(object[i:colon]) == string(quoted) && end > colon+1 {
			return object[colon+1 : end]
		}
		i = end // at the comma
	}
	return nil
}

// unescape decodes a pointer segment.
func unescape(segment string) (name string, ok bool) {
	if !utf8.ValidString(segment) {
		return "", false // Quote would replace the invalid bytes
	}
	if strings.IndexByte(segment, '~') < 0 {
		return segment, true
	}
	for i := range len(segment) {
		if segment[i] == '~' && (i+1 == len(segment) || segment[i+1] != '0' && segment[i+1] != '1') {
			return "", false
		}
	}
	return strings.NewReplacer("~0", "~", "~1", "/").Replace(segment), true
}

// elementAt returns the element at the index, or nil.
func elementAt(array []byte, segment string) []byte {
	// Digits without leading zeros.
	if segment == "" || segment[0] == '0' && len(segment) > 1 || strings.Trim(segment, "0123456789") != "" {
		return nil
	}
	n, err := strconv.Atoi(segment)
	if err != nil {
		return nil
	}
	for i := 1; i < len(array) && array[i] != ']'; i++ {
		end := jsonlex.Skip(array, i)
		if n == 0 && end > i {
			return array[i:end]
		}
		n--
		i = end // at the comma
	}
	return nil
}
