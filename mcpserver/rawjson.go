package mcpserver

import (
	"bytes"
	"errors"

	"sallyport/internal/jsonlex"
)

// maxDepth bounds the nesting of a request. The Gate allows less of params;
// this one only keeps the walk off the end of the stack.
const maxDepth = 256

var (
	errSyntax   = errors.New("malformed JSON")
	errNoObject = errors.New("not a JSON object")
)

// members walks the members of a JSON object without decoding their values:
// the bytes of a value are the bytes that came. It is strict about syntax, so
// that what it accepts every other parser accepts too.
//
//	m := members{text: raw}
//	for m.next() { m.key, m.value }
//	if m.err != nil …
type members struct {
	text  []byte
	key   []byte // decoded
	value []byte // raw, without space around it
	err   error

	pos     int
	started bool
	done    bool
}

// next moves to the next member. It returns false at the end or at an error.
func (m *members) next() bool {
	if m.done || m.err != nil {
		return false
	}
	i := jsonlex.Space(m.text, m.pos)
	if !m.started {
		m.started = true
		if i >= len(m.text) || m.text[i] != '{' {
			return m.fail(errNoObject)
		}
		i = jsonlex.Space(m.text, i+1)
		if i < len(m.text) && m.text[i] == '}' {
			return m.end(i + 1)
		}
	} else {
		switch {
		case i < len(m.text) && m.text[i] == ',':
			i = jsonlex.Space(m.text, i+1)
		case i < len(m.text) && m.text[i] == '}':
			return m.end(i + 1)
		default:
			return m.fail(errSyntax)
		}
	}
	return m.member(i)
}

// member reads one member that begins at i.
func (m *members) member(i int) bool {
	k, _, err := jsonlex.String(m.text, i)
	if err != nil {
		return m.fail(errSyntax)
	}
	v := skipKey(m.text, i)
	if v < 0 {
		return m.fail(errSyntax)
	}
	end := skipValue(m.text, v, maxDepth)
	if end < 0 {
		return m.fail(errSyntax)
	}
	m.key = m.text[i+1 : k-1]
	if bytes.IndexByte(m.key, '\\') >= 0 {
		m.key = []byte(decodeString(m.text[i:k]))
	}
	m.value = m.text[v:end]
	m.pos = end
	return true
}

// end checks that nothing follows the object.
func (m *members) end(i int) bool {
	if jsonlex.Space(m.text, i) != len(m.text) {
		return m.fail(errSyntax)
	}
	m.done = true
	return false
}

func (m *members) fail(err error) bool {
	m.err = err
	return false
}

// member returns the raw value of one member of the object raw, or nil.
func member(raw []byte, key string) []byte {
	m := members{text: raw}
	for m.next() {
		if string(m.key) == key {
			return m.value
		}
	}
	return nil
}

// validJSON reports whether raw is one JSON value and nothing else.
func validJSON(raw []byte) bool {
	i := skipValue(raw, jsonlex.Space(raw, 0), maxDepth)
	return i >= 0 && jsonlex.Space(raw, i) == len(raw)
}

// isObject and isString tell what kind of value raw, which is valid, is.
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
func isNull(raw []byte) bool   { return len(raw) > 0 && raw[0] == 'n' }
func isNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// decodeString returns the value of a valid JSON string.
func decodeString(raw []byte) string {
	content := raw[1 : len(raw)-1]
	if bytes.IndexByte(content, '\\') < 0 {
		return string(content)
	}
	text, _ := jsonlex.Unquote(nil, content)
	return string(text)
}

// skipValue returns the index after the value that begins at i, or -1 when
// there is no valid one.
func skipValue(b []byte, i, depth int) int {
	if i >= len(b) || depth == 0 {
		return -1
	}
	switch b[i] {
	case '{':
		return skipComposite(b, i, '}', depth)
	case '[':
		return skipComposite(b, i, ']', depth)
	}
	end, err := jsonlex.Scalar(b, i)
	if err != nil {
		return -1
	}
	return end
}

// skipComposite skips an object or an array: both are lists between brackets,
// and the values of an object have a key before them.
func skipComposite(b []byte, i int, closing byte, depth int) int {
	i = jsonlex.Space(b, i+1)
	if i < len(b) && b[i] == closing {
		return i + 1
	}
	for {
		if closing == '}' {
			if i = skipKey(b, i); i < 0 {
				return -1
			}
		}
		if i = skipValue(b, i, depth-1); i < 0 {
			return -1
		}
		i = jsonlex.Space(b, i)
		switch {
		case i >= len(b):
			return -1
		case b[i] == closing:
			return i + 1
		case b[i] != ',':
			return -1
		}
		i = jsonlex.Space(b, i+1)
	}
}

// skipKey skips a key and its colon, up to the value.
func skipKey(b []byte, i int) int {
	i, _, err := jsonlex.String(b, i)
	if err != nil {
		return -1
	}
	if i = jsonlex.Space(b, i); i >= len(b) || b[i] != ':' {
		return -1
	}
	return jsonlex.Space(b, i+1)
}
