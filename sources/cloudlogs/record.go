package cloudlogs

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// maxRecord bounds what is read of one line or record.
const maxRecord = 256 << 10

// record is a line of a file, or an entry of an exported journal.
type record struct {
	offset int64
	raw    []byte // at most maxRecord bytes, without the end of the line
	cut    bool   // there is more of it
}

// details is what a record says.
type details struct {
	time    time.Time // zero: it does not say
	level   Level
	message string
	fields  []member
	object  bool // it has fields, and they are all
}

// read takes a record apart.
func (f format) read(raw []byte) details {
	var d details
	if f == exported {
		d.fields = exportedFields(raw)
		d.object = len(d.fields) > 0
	} else {
		if !utf8.Valid(raw) {
			raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
		}
		var whole bool
		d.fields, whole = members(raw)
		d.object = whole || len(d.fields) > 0
		if !d.object {
			d.message = string(raw)
			return d
		}
	}
	d.time, d.level = timeOf(d.fields), levelOf(d.fields)
	_, d.message = first(d.fields, "message", "msg", "MESSAGE", "event")
	return d
}

// json writes the fields as an object.
func (d *details) json() []byte {
	if !d.object {
		return nil
	}
	out := []byte{'{'}
	for i, m := range d.fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonlex.Quote(out, m.name), ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}

// fits reports whether a record is what a query asks for, but for its time.
func (d *details) fits(q *Query, raw []byte) bool {
	if d.level < q.Level {
		return false
	}
	for name, want := range q.Fields {
		if v, ok := find(d.fields, name); !ok || text(v) != want {
			return false
		}
	}
	return q.Text == "" || holds(d.message, q.Text) || holds(string(raw), q.Text)
}

func holds(s, part string) bool {
	return strings.Contains(s, part) || strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

// exportedFields reads the fields of an exported entry, as many as are whole. A
// field that is there several times becomes an array, one that is no text an
// object with the base64 of it.
func exportedFields(raw []byte) (list []member) {
	at := map[string]int{}
	several := map[string]bool{}
	for len(raw) > 0 {
		name, value, rest, ok := exportedField(raw)
		if !ok {
			break
		}
		raw = rest
		i, again := at[name]
		switch {
		case !again:
			at[name] = len(list)
			list = append(list, member{name, value})
		case several[name]:
			list[i].value = append(append(append(list[i].value[:len(list[i].value)-1], ','), value...), ']')
		default:
			several[name] = true
			list[i].value = append(append(append(append([]byte{'['}, list[i].value...), ','), value...), ']')
		}
	}
	return list
}

// exportedField reads the field that raw begins with: NAME=text, or NAME, a
// length of eight bytes, and that many bytes, each on a line.
func exportedField(raw []byte) (name string, value, rest []byte, ok bool) {
	line, rest, ended := bytes.Cut(raw, []byte("\n"))
	if head, content, found := bytes.Cut(line, []byte("=")); found {
		return string(head), quoted(content), rest, ended && fieldName(head)
	}
	if !ended || !fieldName(line) || len(rest) < 8 {
		return "", nil, nil, false
	}
	size := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; size >= uint64(len(rest)) || rest[size] != '\n' {
		return "", nil, nil, false
	}
	return string(line), quoted(rest[:size]), rest[size+1:], true
}

func quoted(content []byte) []byte {
	if utf8.Valid(content) {
		return jsonlex.Quote(nil, content)
	}
	return append(base64.StdEncoding.AppendEncode([]byte(`{"base64":"`), content), `"}`...)
}

// maxName is the longest name of a field of a journal.
const maxName = 64

// fieldName reports whether a journal has fields of this name.
func fieldName(name []byte) bool {
	for _, c := range name {
		if c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxName
}
