package wire

import (
	"bytes"
	"errors"
	"slices"

	"sallyport/internal/jsonlex"
)

// maxDepth bounds the nesting of a message, so that the recursive parser cannot
// exhaust the stack. The Gate's limit for params is lower.
const maxDepth = 256

var (
	errSyntax    = errors.New("malformed JSON")
	errNotObject = errors.New("not a JSON object")
)

// Members iterates over the members of a JSON object without decoding their
// values. It is strict about syntax: whatever it accepts, other parsers accept.
//
//	m := Members{Text: raw}
//	for m.Next() { m.Key, m.Value }
//	if m.Err != nil …
type Members struct {
	Text  []byte
	Key   []byte // decoded
	Value []byte // raw, without space around it
	Err   error

	pos     int
	started bool
	done    bool
}

// Next moves to the next member. It returns false at the end or at an error.
func (m *Members) Next() bool {
	if m.done || m.Err != nil {
		return false
	}
	i := jsonlex.Space(m.Text, m.pos)
	if !m.started {
		m.started = true
		if i >= len(m.Text) || m.Text[i] != '{' {
			return m.fail(errNotObject)
		}
		i = jsonlex.Space(m.Text, i+1)
		if i < len(m.Text) && m.Text[i] == '}' {
			return m.end(i + 1)
		}
	} else {
		switch {
		case i < len(m.Text) && m.Text[i] == ',':
			i = jsonlex.Space(m.Text, i+1)
		case i < len(m.Text) && m.Text[i] == '}':
			return m.end(i + 1)
		default:
			return m.fail(errSyntax)
		}
	}
	return m.member(i)
}

// member reads the member that begins at i.
func (m *Members) member(i int) bool {
	k, _, err := jsonlex.String(m.Text, i)
	if err != nil {
		return m.fail(errSyntax)
	}
	v := jsonlex.Space(m.Text, k)
	if v == len(m.Text) || m.Text[v] != ':' {
		return m.fail(errSyntax)
	}
	v = jsonlex.Space(m.Text, v+1)
	end, err := jsonlex.Value(m.Text, v, jsonlex.MaxDepth-maxDepth)
	if err != nil {
		return m.fail(errSyntax)
	}
	m.Key = m.Text[i+1 : k-1]
	if bytes.IndexByte(m.Key, '\\') >= 0 {
		m.Key = []byte(DecodeString(m.Text[i:k]))
	}
	m.Value = m.Text[v:end]
	m.pos = end
	return true
}

// end checks that nothing follows the object.
func (m *Members) end(i int) bool {
	if jsonlex.Space(m.Text, i) != len(m.Text) {
		return m.fail(errSyntax)
	}
	m.done = true
	return false
}

func (m *Members) fail(err error) bool {
	m.Err = err
	return false
}

// Member returns the raw value of one member of the object raw, or nil.
func Member(raw []byte, key string) []byte {
	m := Members{Text: raw}
	for m.Next() {
		if string(m.Key) == key {
			return m.Value
		}
	}
	return nil
}

// Valid reports whether raw is one JSON value and nothing else.
func Valid(raw []byte) bool {
	i, err := jsonlex.Value(raw, jsonlex.Space(raw, 0), jsonlex.MaxDepth-maxDepth)
	return err == nil && jsonlex.Space(raw, i) == len(raw)
}

// IsObject reports whether raw, a valid JSON value, is an object.
func IsObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// IsString reports whether raw, a valid JSON value, is a string.
func IsString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// IsNull reports whether raw, a valid JSON value, is null.
func IsNull(raw []byte) bool { return len(raw) > 0 && raw[0] == 'n' }

// IsNumber reports whether raw, a valid JSON value, is a number.
func IsNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// DecodeString returns the value of a valid JSON string.
func DecodeString(raw []byte) string {
	content := raw[1 : len(raw)-1]
	if bytes.IndexByte(content, '\\') < 0 {
		return string(content)
	}
	text, _ := jsonlex.Unquote(nil, content)
	return string(text)
}

// ReplaceMember returns the object raw with another value for every member named
// key. All other bytes stay as they are.
func ReplaceMember(raw []byte, key string, value []byte) []byte {
	var b []byte
	last := 0
	for m := (Members{Text: raw}); m.Next(); {
		if string(m.Key) == key {
			b = append(append(b, raw[last:m.pos-len(m.Value)]...), value...)
			last = m.pos
		}
	}
	return append(b, raw[last:]...)
}

// RemoveMembers returns the object raw without the named members. The values of the
// others keep their bytes.
func RemoveMembers(raw []byte, names ...string) []byte {
	b := []byte{'{'}
	for m := (Members{Text: raw}); m.Next(); {
		if slices.Contains(names, string(m.Key)) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(jsonlex.Quote(b, m.Key), ':'), m.Value...)
	}
	return append(b, '}')
}
